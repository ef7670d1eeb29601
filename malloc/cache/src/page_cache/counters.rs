//! Events of pages, counted per slot. Gauges are differences: `nr_file_pages = added - removed`.

use core::ops::Index;
use quarry_mm::frame::{OsArray, fresh_zero};
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::SlotIndex;
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// Declares the events with their names in statistics; events of `/proc/vmstat` have its names.
macro_rules! events {
    ($($(#[$doc:meta])* $event:ident = $name:literal,)*) => {
        /// Something that happens to pages.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Event {
            $($(#[$doc])* $event,)*
        }

        impl Event {
            /// All events, with the names that statistics print.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$event, $name),)*];
        }
    };
}

events! {
    /// Frames of pages that entered an index.
    Added = "page_cache_added",
    /// Frames of pages that left their index.
    Removed = "page_cache_removed",
    /// Frames that were taken for pages.
    Taken = "page_cache_taken",
    /// Frames of pages that went back to the page allocator.
    Released = "page_cache_released",
    /// KiB that were read from a backing.
    PagedIn = "pgpgin",
    /// KiB that were written to a backing.
    PagedOut = "pgpgout",
    /// A fill failed.
    FillFailed = "page_cache_fill_failed",
    /// A task waited for the fill, the latch or the writeback of a page.
    Waited = "page_cache_waited",
    /// Frames of pages that became dirty.
    Dirtied = "nr_dirtied",
    /// Frames of dirty pages that became clean, or left their index.
    Cleaned = "page_cache_cleaned",
    /// Frames whose writing to a backing began.
    WritebackBegun = "page_cache_writeback_begun",
    /// Frames whose writing to a backing ended.
    WritebackEnded = "nr_written",
    /// Frames of unevictable pages that entered an index.
    UnevictableAdded = "unevictable_pgs_culled",
    /// Frames of unevictable pages that left their index.
    UnevictableRemoved = "unevictable_pgs_cleared",
    /// A scan moved a page to the active list.
    Activated = "pgactivate",
    /// A scan moved a page to the inactive list.
    Deactivated = "pgdeactivate",
    /// A scan put a page back to the head of its list.
    Rotated = "pgrotated",
    /// A scan found a dirty page.
    FoundDirty = "nr_vmscan_write",
    /// A scan did not get the lock of a page's mapping.
    MappingBusy = "page_cache_scan_busy",
    /// A page of the inactive list that a direct reclaim looked at.
    ScannedDirect = "pgscan_direct",
    /// A page of the inactive list that a background scan looked at.
    ScannedBackground = "pgscan_kswapd",
    /// A page that a direct reclaim evicted.
    StolenDirect = "pgsteal_direct",
    /// A page that a background scan evicted.
    StolenBackground = "pgsteal_kswapd",
    /// An evicted page came back.
    Refaulted = "workingset_refault_file",
    /// An evicted page came back so soon that it became active at once.
    RefaultActivated = "workingset_activate_file",
    /// An evicted page came back that had been active when it was evicted.
    Restored = "workingset_restore_file",
    /// A truncation or invalidation removed a page.
    Truncated = "page_cache_truncated",
    /// An invalidation did not remove a page that was in use.
    InvalidationBusy = "page_cache_invalidate_busy",
    /// The lock of a mapping was taken to remove entries.
    IndexHolds = "truncate_index_holds",
    /// Add batches were drained for a truncation.
    Drains = "truncate_lru_drains",
    /// Pages were taken off LRU lists together.
    LruRemovals = "release_lru_removals",
    /// A call gave blocks of released pages to the page allocator.
    FreeSections = "release_free_sections",
    /// A lookup took the lock of the mapping.
    SlowLookups = "page_cache_slow_lookups",
    /// A request for a page found no memory.
    Full = "page_cache_full",
}

/// Number of kinds of events.
pub const EVENTS: usize = Event::ALL.len();

fresh_zero! {
    #[repr(C, align(64))]
    struct SlotCounts {
        counts: [AtomicU64; EVENTS],
    }
}

pub(super) struct Counters {
    slots: OsArray<SlotCounts>,
}

impl Counters {
    pub(super) fn build(os: &'static dyn Os, slots: u32) -> OsResult<Self> {
        Ok(Self { slots: OsArray::zeroed(os, slots as usize)? })
    }

    #[inline]
    pub(super) fn add(&self, slot: SlotIndex, event: Event, times: u64) {
        self.slots.at(slot.index()).counts[event as usize].fetch_add(times, Relaxed);
    }

    pub(super) fn sums(&self) -> EventCounts {
        let mut sums = EventCounts([0; EVENTS]);
        for slot in 0..self.slots.len() {
            for (sum, count) in sums.0.iter_mut().zip(&self.slots.at(slot).counts) {
                *sum = sum.wrapping_add(count.load(Relaxed));
            }
        }
        sums
    }
}

/// A snapshot of the counts; its parts are read one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCounts([u64; EVENTS]);

impl Index<Event> for EventCounts {
    type Output = u64;

    fn index(&self, event: Event) -> &u64 {
        &self.0[event as usize]
    }
}

/// Defines functions that return events begun minus events ended.
macro_rules! gauges {
    ($($(#[$doc:meta])* $name:ident = $begun:ident - $ended:ident;)*) => {
        impl EventCounts {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(&self) -> u64 {
                    self[Event::$begun].saturating_sub(self[Event::$ended])
                }
            )*
        }
    };
}

gauges! {
    /// Frames of pages that indexes name (`nr_file_pages`).
    pages = Added - Removed;
    /// Frames of all pages: those in indexes, and those that are pinned but in no index.
    in_memory = Taken - Released;
    /// Frames of dirty pages (`nr_dirty`).
    dirty = Dirtied - Cleaned;
    /// Frames of pages that are being written (`nr_writeback`).
    writeback = WritebackBegun - WritebackEnded;
    /// Frames of pages that reclaim may not take (`nr_unevictable`).
    unevictable = UnevictableAdded - UnevictableRemoved;
}
