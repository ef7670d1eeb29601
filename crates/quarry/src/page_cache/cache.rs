//! The page cache of the process: where mappings come from, what all of them hold.

use super::backing::{Backing, PageError};
use super::budget::Group;
use super::file_mapping::Mapping;
use super::raw_mapping::MappingOptions;
use super::writers;
use crate::gate;
use crate::instance::{STACK, is_ready};
use quarry_cache::CachingStack;
use quarry_cache::page_cache::{Event, EventCounts, READAHEAD_BYTES};
use quarry_mm::frame::Order;
use quarry_sys::errno::KeepErrno;

/// Cached pages of files and databases, in the memory that the heap has as well, under one limit:
/// what the heap does not need, the cache may have, and gives back when the heap needs it.
///
/// There is one in a process, so this is a name and no value.
#[derive(Clone, Copy, Debug)]
pub enum PageCache {}

impl PageCache {
    /// Makes a mapping of pages of 4 KiB.
    ///
    /// # Errors
    /// [`PageError::Full`] where there is no memory for it, or [`PageError::Disabled`].
    pub fn open<B: Backing>(backing: B) -> Result<Mapping<B>, PageError> {
        Self::builder().open(backing)
    }

    /// A mapping with choices.
    ///
    /// ```
    /// # use quarry::{Backing, OsError, PageCache, ReadOnly};
    /// # struct Zeroes;
    /// # impl Backing for Zeroes {
    /// #     type Access = ReadOnly;
    /// #     fn size(&self) -> u64 { 1 << 20 }
    /// #     fn read(&self, _: u64, bytes: &mut [u8]) -> Result<usize, OsError> {
    /// #         bytes.fill(0);
    /// #         Ok(bytes.len())
    /// #     }
    /// # }
    /// let mapping = PageCache::builder().page_order(2).read_ahead(0).open(Zeroes)?;
    /// assert_eq!(mapping.read(0)?.len(), 16 << 10);
    /// assert_eq!(mapping.pages(), 1);
    /// # Ok::<(), quarry::PageError>(())
    /// ```
    #[must_use]
    pub fn builder() -> MappingBuilder {
        MappingBuilder { options: MappingOptions::default(), order: 0, read_ahead: READAHEAD_BYTES }
    }

    /// What the cache holds and has done. O(slots).
    #[must_use]
    pub fn stats() -> PageCacheStats {
        let _errno = KeepErrno::new();
        let _inside = gate::enter();
        let cache = if is_ready() { STACK.used_page_cache() } else { None };
        PageCacheStats { events: cache.map(|cache| cache.events()) }
    }

    /// Sets the shares of memory, in per cent, that may be dirty: above the first one the
    /// background thread writes (10), above the second one those who change pages do (20).
    pub fn set_dirty_ratios(background: u32, hard: u32) {
        writers::set_ratios(background, hard);
    }
}

/// The choices of a mapping.
#[derive(Clone, Copy, Debug)]
pub struct MappingBuilder {
    options: MappingOptions,
    order: u8,
    read_ahead: usize,
}

impl MappingBuilder {
    /// Pages of `4 KiB << order`, for order 0 to 4.
    #[must_use]
    pub fn page_order(self, order: u8) -> Self {
        Self { order, ..self }
    }

    /// Most bytes that are read ahead of a sequential reader (128 KiB); 0 for none.
    #[must_use]
    pub fn read_ahead(self, bytes: usize) -> Self {
        Self { read_ahead: bytes, ..self }
    }

    /// The group that pages are charged to.
    #[must_use]
    pub fn group(self, group: &Group) -> Self {
        Self { options: MappingOptions { group: group.id().0, ..self.options }, ..self }
    }

    /// Makes the mapping.
    ///
    /// # Errors
    /// [`PageError::NoSuchOrder`], and as [`PageCache::open`].
    pub fn open<B: Backing>(self, backing: B) -> Result<Mapping<B>, PageError> {
        if self.order > 4 {
            return Err(PageError::NoSuchOrder { order: self.order });
        }
        let options = MappingOptions { order: Order::new(self.order), ..self.options };
        Mapping::create_with(backing, &options, self.read_ahead)
    }
}

/// A snapshot of what the page cache holds and has done.
#[derive(Clone, Copy, Debug)]
pub struct PageCacheStats {
    /// `None` where nobody has used it.
    events: Option<EventCounts>,
}

impl PageCacheStats {
    /// Pages that mappings have.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.events.map_or(0, |events| events.pages())
    }

    /// Pages that are newer than their backing.
    #[must_use]
    pub fn dirty(&self) -> u64 {
        self.events.map_or(0, |events| events.dirty())
    }

    /// Pages that are being written.
    #[must_use]
    pub fn writeback(&self) -> u64 {
        self.events.map_or(0, |events| events.writeback())
    }

    /// How often things happened, with the names that `/proc/vmstat` has for them, or would have.
    pub fn events(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let events = self.events;
        Event::ALL.iter().map(move |(event, name)| (*name, events.map_or(0, |all| all[*event])))
    }
}
