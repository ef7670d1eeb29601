//! Dirty pages, and pages that are being written. The state word is authoritative; the tags of the
//! index follow it under the lock of the mapping, so that writeback finds pages in order.
//!
//! Equations, while no task changes a page: a page has the tag `Dirty` iff it is live and `DIRTY`,
//! and the tag `Writeback` iff it is live and in `WRITEBACK`.

use super::cache::PageCacheRef;
use super::counters::Event;
use super::host::Host;
use super::index::Tag;
use super::mapping::{LockedMapping, MappingId};
use crate::lru::{PageNo, State};
use quarry_sys::primitive::Ordering::Relaxed;

impl<'a, H: Host> PageCacheRef<'a, H> {
    /// Locks the mapping of a page that the caller pins; `None` if the page has left its mapping.
    pub(super) fn lock_of(self, page: PageNo) -> Option<(LockedMapping<'a>, u64)> {
        let tables = self.tables;
        let descriptor = tables.pages.at(page);
        let mapping = tables.mappings.numbered(descriptor.mapping.load(Relaxed))?;
        let tree = mapping.index.lock(&tables.nodes);
        // A page never changes its mapping while it is live.
        let is_live = descriptor.state.load().has(State::LIVE);
        let index = descriptor.index.load(Relaxed);
        is_live.then_some((LockedMapping { mapping, tree }, index))
    }

    /// Marks a pinned page as newer than its backing. The caller has the page's exclusive latch, or
    /// ensures that no task begins to write the page. Returns whether it was clean and live.
    #[inline]
    pub fn mark_dirty(self, page: PageNo) -> bool {
        if self.state(page).has(State::DIRTY) {
            return false;
        }
        self.mark_dirty_slow(page)
    }

    #[inline(never)]
    fn mark_dirty_slow(self, page: PageNo) -> bool {
        let Some((mut locked, index)) = self.lock_of(page) else { return false };
        // Under the lock: a task that removes the page counts it as dirty iff the flag is set.
        if self.tables.pages.at(page).state.set(State::DIRTY).has(State::DIRTY) {
            return false;
        }
        locked.tree.set_tag(index, Tag::Dirty);
        drop(locked);
        self.tables.counters.add(self.slot(), Event::Dirtied, self.frames(page));
        true
    }

    /// Pins dirty pages of a mapping from `from` on, in order; returns how many. O(pages).
    pub fn dirty_pages(self, mapping: MappingId, from: u64, out: &mut [PageNo]) -> usize {
        self.tagged(mapping, from, Tag::Dirty, out)
    }

    /// Like [`dirty_pages`](Self::dirty_pages), for pages that are being written.
    pub fn pages_in_writeback(self, mapping: MappingId, from: u64, out: &mut [PageNo]) -> usize {
        self.tagged(mapping, from, Tag::Writeback, out)
    }

    fn tagged(self, mapping: MappingId, from: u64, tag: Tag, out: &mut [PageNo]) -> usize {
        let tables = self.tables;
        let Some(mut locked) = tables.mappings.lock(&tables.nodes, mapping) else { return 0 };
        let (mut from, mut count) = (from, 0);
        while count < out.len() {
            let Some((index, page)) = locked.tree.next_tagged(from, tag) else { break };
            if tables.pages.at(page).state.try_pin_unused() {
                out[count] = page;
                count += 1;
            }
            from = index + 1;
        }
        count
    }

    /// Begins to write a dirty page: the page counts as clean, and as being written. Returns false
    /// if it is clean, gone, or being written already. The caller pins and latches the page. It may
    /// give up the latch before it calls [`end_writeback`](Self::end_writeback).
    pub fn begin_writeback(self, page: PageNo) -> bool {
        let Some((mut locked, index)) = self.lock_of(page) else { return false };
        let state = &self.tables.pages.at(page).state;
        let now = state.load();
        if !now.has(State::DIRTY) || now.has(State::WRITEBACK) {
            return false;
        }
        // The caller's latch keeps the bytes unchanged; only a task with the latch begins to write.
        state.set(State::WRITEBACK);
        state.clear(State::DIRTY | State::ERROR);
        locked.tree.clear_tag(index, Tag::Dirty);
        locked.tree.set_tag(index, Tag::Writeback);
        drop(locked);
        self.tables.counters.add(self.slot(), Event::Cleaned, self.frames(page));
        self.tables.counters.add(self.slot(), Event::WritebackBegun, self.frames(page));
        true
    }

    /// Ends the writing of a pinned page; if it `failed`, the page is dirty again and has `ERROR`.
    pub fn end_writeback(self, page: PageNo, failed: bool) {
        let (counters, slot) = (&self.tables.counters, self.slot());
        if failed {
            self.tables.pages.at(page).state.set(State::ERROR);
            self.mark_dirty(page);
        } else {
            counters.add(slot, Event::PagedOut, self.bytes(page) as u64 >> 10);
        }
        let locked = self.lock_of(page);
        let state = &self.tables.pages.at(page).state;
        let before = state.clear(State::WRITEBACK | State::WAITERS);
        if let Some((mut locked, index)) = locked {
            locked.tree.clear_tag(index, Tag::Writeback);
        }
        counters.add(slot, Event::WritebackEnded, self.frames(page));
        self.tables.waits.wake(page, before);
    }

    /// Waits until a page that the caller pins is not being written.
    pub fn wait_writeback(self, page: PageNo) {
        if self.state(page).has(State::WRITEBACK) {
            self.wait_while(page, |now| now.has(State::WRITEBACK));
        }
    }
}
