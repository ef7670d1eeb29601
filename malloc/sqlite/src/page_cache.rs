//! SQLite's cache of one open file: a file mapping of Quarry's page cache.
//!
//! SQLite calls the methods of one cache from one thread at a time. At any time other threads may
//! reclaim the pages that SQLite does not hold, that is, has unpinned.
//!
//! Equations: `held` is at least the number of records with `is_held` (a truncation lowers `held`
//! only to the number of pages left); a *displaced* record (see below) is held, and on the list.

use crate::insist::insist;
use crate::records::{Record, Records};
use quarry::process::STACK;
use quarry::{Effort, Error, Invalidate, MappingOptions, RawMapping, RawSlot};
use quarry_cache::PageCaching;
use quarry_mm::frame::{FRAME_BYTES, Order};
use quarry_mm::stack::StackHost;
use quarry_mm::zone::Mark;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How urgently SQLite requests a page (`createFlag`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// A page if it is cached, else none.
    IfThere,
    /// A new page if this is easy; else none: then SQLite writes dirty pages, and asks again.
    IfEasy,
    /// A new page, even by force; if there is none, SQLite reports that memory is exhausted.
    Surely,
}

pub(crate) struct PageCache {
    mapping: RawMapping,
    records: Records,
    /// Number of pages that `PRAGMA cache_size` suggests.
    suggested: u32,
    /// At least the number of pages that SQLite holds.
    held: u32,
    /// No page of the cache has a larger key.
    largest: u32,
    /// True from a refused easy request until SQLite unpins a page or requests another new page.
    wants_room: bool,
    /// The list of displaced records: those of held pages whose `index` is not their key.
    displaced: *mut Record,
}

static OPEN: AtomicU64 = AtomicU64::new(0);

/// Number of page caches of SQLite that are open. O(1).
#[must_use]
pub fn open_caches() -> u64 {
    OPEN.load(Relaxed)
}

/// When SQLite holds 9/10 of a cache's suggested size, easy requests (`Want::IfEasy`) fail unless
/// this part (1/8) of the budget is free. SQLite needs it to write pages, and for new pages at
/// times when it must not write. The low mark would leave too little: 19 pages of a 6 MiB budget.
const ROOM_PART: u32 = 8;

/// Returns whether less of the budget is free than a cache should leave to other users.
fn is_short() -> bool {
    let budget = STACK.pages().zones().budget();
    budget.is_below(Mark::Low) || budget.free() < budget.limit() / ROOM_PART
}

/// Number of pages in the page cache of the process, of all users. O(CPUs).
#[must_use]
pub fn cached_pages() -> u64 {
    PageCaching::opened(&STACK).map_or(0, |cache| cache.events().pages())
}

impl PageCache {
    /// Creates a cache of pages of `page_bytes` (a page below 4 KiB takes 4 KiB), each with `extra`
    /// bytes for SQLite; `None` if there is no memory. Pages of an unpurgeable cache (of a database
    /// in memory) are not reclaimed.
    pub(crate) fn create(page_bytes: usize, extra: usize, is_purgeable: bool) -> Option<Self> {
        let records = Records::with(extra)?;
        let frames = page_bytes.div_ceil(FRAME_BYTES).next_power_of_two();
        let options = MappingOptions {
            order: Order::new(frames.ilog2() as u8),
            is_unevictable: !is_purgeable,
            allows_overread: true,
            private: Some(records.cache.id()),
            ..MappingOptions::default()
        };
        let mapping = RawMapping::create(&options).ok()?;
        OPEN.fetch_add(1, Relaxed);
        Some(Self {
            mapping,
            records,
            suggested: 0,
            held: 0,
            largest: 0,
            wants_room: false,
            displaced: null_mut(),
        })
    }

    /// Stores the suggested size. It does not limit the cache; the budget limits all caches
    /// together. But from this size on, SQLite should write dirty pages if memory is short.
    pub(crate) fn suggest(&mut self, pages: u32) {
        self.suggested = pages;
    }

    /// Number of the cache's pages, held or not.
    pub(crate) fn pages(&self) -> u64 {
        self.mapping.pages()
    }

    /// Finds or makes the page with a key, and holds it.
    #[inline]
    pub(crate) fn fetch(&mut self, key: u32, want: Want) -> Option<NonNull<Record>> {
        if !self.displaced.is_null() {
            return self.fetch_among_displaced(key, want);
        }
        if let Some(page) = self.mapping.hold_present(key.into()) {
            return Some(self.found(page.private()));
        }
        self.fetch_missed(key, want)
    }

    /// Marks and counts the page with this private word as held by SQLite; returns its record.
    #[inline]
    fn found(&mut self, private: u64) -> NonNull<Record> {
        let record = NonNull::new(private as *mut Record).expect("a cached page has a record");
        // SAFETY: the record lives as long as its page, which is held; only this thread uses it.
        let is_held = unsafe { &mut (*record.as_ptr()).is_held };
        self.held += u32::from(!*is_held);
        *is_held = true;
        record
    }

    #[cold]
    #[inline(never)]
    fn fetch_missed(&mut self, key: u32, want: Want) -> Option<NonNull<Record>> {
        let slot = match want {
            Want::IfThere => self.mapping.hold(key.into(), None).ok()??,
            // Reclaim takes clean pages of other databases first. But a cache above its suggested
            // size should write its own pages before memory is exhausted, as writing needs memory.
            Want::IfEasy => {
                let is_refused = self.holds_too_much() && is_short();
                let slot = if is_refused { None } else { self.hold(key, Effort::Every) };
                self.wants_room = slot.is_none();
                slot?
            }
            Want::Surely => {
                self.wants_room = false;
                insist(|| self.hold(key, Effort::Every))?
            }
        };
        if !slot.is_new {
            return Some(self.found(slot.page.private()));
        }
        let Some(record) = self.records.make(slot.page, key) else {
            // SAFETY: the page is held, and no other thread knows it.
            unsafe { slot.page.unhold(true) };
            return None;
        };
        // SAFETY: the page is held, and the record is a new object of the mapping's cache.
        unsafe { slot.page.set_private(record.as_ptr().expose_provenance() as u64) };
        self.held += 1;
        self.largest = self.largest.max(key);
        Some(record)
    }

    fn hold(&self, key: u32, effort: Effort) -> Option<RawSlot> {
        self.mapping.hold(key.into(), Some(effort)).ok().flatten()
    }

    /// Returns whether SQLite holds 9/10 or more of the suggested pages, nearly all dirty.
    fn holds_too_much(&self) -> bool {
        u64::from(self.held) * 10 >= u64::from(self.suggested) * 9
    }

    /// Ends the holding of a page; with `discard`, drops it. (Holding the last 64 unpinned pages
    /// made look-ups in 80 MiB no faster, within noise: they wait for CPU cache misses.)
    ///
    /// # Safety
    /// The record belongs to a page of this cache which SQLite holds, and does not use any more.
    #[inline]
    pub(crate) unsafe fn unpin(&mut self, record: NonNull<Record>, discard: bool) {
        // SAFETY: the page is held, so its record exists, and only this thread uses it.
        let (page, is_displaced) = unsafe {
            let record = &mut *record.as_ptr();
            record.is_held = false;
            (record.page, record.is_displaced)
        };
        self.held = self.held.saturating_sub(1);
        if is_displaced {
            self.settle(record);
        }
        // After a refusal, dropping the page that SQLite has just written makes room.
        let makes_room = std::mem::take(&mut self.wants_room);
        // SAFETY: SQLite has held the page, and does not use it any more. (A displaced page is
        // dropped, because a look-up would find it under an old key.)
        unsafe { page.unhold(discard || makes_room || is_displaced) };
    }

    /// Gives a held page a new key. Drops the page that had this key, which SQLite does not hold.
    ///
    /// # Safety
    /// The record belongs to a page of this cache which SQLite holds.
    pub(crate) unsafe fn rekey(&mut self, record: NonNull<Record>, new: u32) {
        self.largest = self.largest.max(new);
        // SAFETY: the page is held, so its record exists, and only this thread uses it.
        let record = unsafe { &mut *record.as_ptr() };
        record.key = new;
        if record.index == new {
            return self.settle(record.into());
        }
        if self.has_displaced_at(new) {
            // A displaced page is at the new index, and the move would drop it.
            return self.displace(record);
        }
        // SAFETY: the page is held.
        let mut moved = unsafe { record.page.rekey(new.into()) };
        if matches!(moved, Err(Error::Busy { .. })) {
            // The scan of a reclaim is examining the page that has this key.
            self.mapping.discard(new.into());
            // SAFETY: the page is held.
            moved = unsafe { record.page.rekey(new.into()) };
        }
        match moved {
            Ok(()) => {
                record.index = new;
                self.settle(record.into());
            }
            Err(_) => self.displace(record),
        }
    }

    /// Drops the pages whose key is `limit` or larger, also those that SQLite holds.
    pub(crate) fn truncate(&mut self, limit: u32) {
        if limit > self.largest {
            return;
        }
        if !self.displaced.is_null() {
            self.truncate_among_displaced(limit);
        } else {
            self.mapping.truncate(limit.into());
        }
        self.largest = limit.saturating_sub(1);
        self.held = self.held.min(u32::try_from(self.pages()).unwrap_or(u32::MAX));
    }

    /// Drops the pages that SQLite does not hold.
    pub(crate) fn shrink(&mut self) {
        self.mapping.invalidate(0..u64::MAX, Invalidate::CleanOnly);
    }
}

impl Drop for PageCache {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Relaxed);
        self.mapping.destroy();
    }
}

// Displaced pages. `xRekey` must not fail, but the mapping's tree may lack memory for a new key.
// Then the page stays at its old index, and a list finds it by its key until SQLite unpins it.
impl PageCache {
    fn displaced(&self) -> impl Iterator<Item = NonNull<Record>> {
        let mut next = self.displaced;
        std::iter::from_fn(move || {
            let record = NonNull::new(next)?;
            // SAFETY: records on the list belong to held pages.
            next = unsafe { record.as_ref() }.next;
            Some(record)
        })
    }

    /// Returns whether a displaced page is at the index that equals a key.
    fn has_displaced_at(&self, key: u32) -> bool {
        // SAFETY: records on the list belong to held pages.
        self.displaced().any(|it| unsafe { it.as_ref() }.index == key)
    }

    #[cold]
    fn displace(&mut self, record: &mut Record) {
        if !record.is_displaced {
            record.is_displaced = true;
            record.next = self.displaced;
            self.displaced = record;
        }
    }

    /// Removes a record from the list of displaced pages, if it is there.
    fn settle(&mut self, record: NonNull<Record>) {
        // SAFETY: the record and those on the list belong to held pages.
        unsafe {
            if !(*record.as_ptr()).is_displaced {
                return;
            }
            (*record.as_ptr()).is_displaced = false;
            let mut link = &raw mut self.displaced;
            while *link != record.as_ptr() {
                link = &raw mut (**link).next;
            }
            *link = (*record.as_ptr()).next;
        }
    }

    #[cold]
    #[inline(never)]
    fn fetch_among_displaced(&mut self, key: u32, want: Want) -> Option<NonNull<Record>> {
        // SAFETY: records on the list belong to held pages.
        let found = self.displaced().find(|it| unsafe { it.as_ref() }.key == key);
        if found.is_some() || self.has_displaced_at(key) {
            return found;
        }
        self.fetch_missed(key, want)
    }

    #[cold]
    #[inline(never)]
    fn truncate_among_displaced(&mut self, limit: u32) {
        for index in limit..=self.largest {
            if !self.has_displaced_at(index) {
                self.mapping.discard(index.into());
            }
        }
        loop {
            // SAFETY: records on the list belong to held pages.
            let gone = self.displaced().find(|it| unsafe { it.as_ref() }.key >= limit);
            let Some(record) = gone else { return };
            // SAFETY: the page is held, and SQLite does not use truncated pages any more.
            unsafe { self.unpin(record, true) };
        }
    }
}

#[cfg(test)]
mod tests;
