//! Finding a page: by a walk without a lock, or under the lock of the mapping.
//!
//! A hit is a walk, one compare-and-swap that pins the page and marks it as used, and a check of
//! the page's key. Another task may have freed and reused the page between the walk and the pin;
//! then the key or the generation of the mapping differs.

use super::cache::PageCacheRef;
use super::counters::Event;
use super::host::Host;
use super::mapping::{Mapping, MappingId};
use crate::lru::{PageNo, State};
use quarry_sys::gate;
use quarry_sys::primitive::Ordering::Relaxed;

impl<H: Host> PageCacheRef<'_, H> {
    /// Pins the page at `index` if it is cached and up to date. Never waits for a fill. O(height).
    #[inline(always)]
    pub fn get(self, mapping: MappingId, index: u64) -> Option<PageNo> {
        if let Some(found) = self.tables.mappings.numbered(mapping.number)
            && let Some(page) = found.index.walk(self.host, index)
            && self.pin_as(page, found, mapping, index)
        {
            return Some(page);
        }
        self.get_slow(mapping, index)
    }

    #[inline(always)]
    pub(super) fn pin_as(
        self,
        page: PageNo,
        found: &Mapping,
        mapping: MappingId,
        index: u64,
    ) -> bool {
        let descriptor = self.tables.pages.at(page);
        if descriptor.state.try_pin(State::LIVE | State::UPTODATE).is_none() {
            return false;
        }
        // A pin fixes the mapping's number. If the generation is right here, it was so at the pin.
        let is_right = descriptor.mapping.load(Relaxed) == mapping.number
            && descriptor.index.load(Relaxed) == index
            && found.generation() == mapping.generation;
        if !is_right {
            self.unpin_wrong(page);
        }
        is_right
    }

    #[cold]
    #[inline(never)]
    fn unpin_wrong(self, page: PageNo) {
        self.unpin(page);
    }

    #[cold]
    #[inline(never)]
    fn get_slow(self, mapping: MappingId, index: u64) -> Option<PageNo> {
        let _inside = gate::enter();
        let (page, state) = self.pin_locked(mapping, index)?;
        if state.has(State::UPTODATE) {
            return Some(page);
        }
        self.unpin(page);
        None
    }

    /// Returns whether there is a page at `index`, up to date or not. O(height of the index).
    pub fn is_cached(self, mapping: MappingId, index: u64) -> bool {
        let tables = self.tables;
        let Some(mut locked) = tables.mappings.lock(&tables.nodes, mapping) else { return false };
        locked.tree.get(index).page().is_some()
    }

    /// Marks a page, which the caller fills, as read ahead: no reader has asked for it yet. If it
    /// is the marker of its read-ahead window, its first use starts the next read-ahead.
    pub fn mark_read_ahead(self, page: PageNo, is_marker: bool) {
        let marker = if is_marker { State::READAHEAD } else { 0 };
        self.tables.pages.at(page).state.set(State::FRESH | marker);
    }

    /// Clears the mark of a read-ahead window's marker; returns whether the page had it.
    pub fn take_readahead_mark(self, page: PageNo) -> bool {
        self.tables.pages.at(page).state.clear(State::READAHEAD).has(State::READAHEAD)
    }

    /// Pins the page at `index`, up to date or not, under the lock of the mapping.
    pub(super) fn pin_locked(self, mapping: MappingId, index: u64) -> Option<(PageNo, State)> {
        let tables = self.tables;
        tables.counters.add(self.slot(), Event::SlowLookups, 1);
        let mut locked = tables.mappings.lock(&tables.nodes, mapping)?;
        let page = locked.tree.get(index).page()?;
        // A page that an index names is live as long as the lock is held.
        Some((page, tables.pages.at(page).state.try_pin(State::LIVE)?))
    }

    /// Like [`pin_locked`](Self::pin_locked), but if a walk finds a shadow entry, returns `None`
    /// without taking the lock. The caller then inserts a page under the lock; if another task has
    /// inserted a page since, the insertion finds that page.
    pub(super) fn pin_unless_evicted(
        self,
        mapping: MappingId,
        index: u64,
    ) -> Option<(PageNo, State)> {
        let found = self.tables.mappings.numbered(mapping.number);
        if found.is_some_and(|it| it.index.walk_finds_shadow(self.host, index)) {
            return None;
        }
        self.pin_locked(mapping, index)
    }

    /// Gives up a pin; frees the page if this was the last pin and no mapping has the page.
    #[inline]
    pub fn unpin(self, page: PageNo) {
        if self.tables.pages.at(page).state.unpin() {
            self.release_one(page);
        }
    }

    /// Frees a page that the caller owns.
    #[cold]
    #[inline(never)]
    pub fn release_one(self, page: PageNo) {
        // Users call `unpin` on their fast paths, outside the gate.
        let _inside = gate::enter();
        self.release(&[page]);
    }
}
