//! Single pages that leave their mapping: removed, discarded, or replaced at their index.

use super::cache::PageCacheRef;
use super::counters::Event;
use super::host::Host;
use super::index::{Entry, INDEX_LIMIT, InsertError, Preload, Tag};
use super::mapping::{LockedMapping, MappingId};
use super::outcome::RekeyError;
use crate::lru::{PageNo, State};
use quarry_sys::primitive::Ordering::Relaxed;

impl<H: Host> PageCacheRef<'_, H> {
    /// Counts a page that left its index with the state `before`. The caller pins or owns it.
    pub(super) fn note_removed(self, page: PageNo, before: State) {
        let (counters, slot) = (&self.tables.counters, self.slot());
        let frames = self.frames(page);
        counters.add(slot, Event::Removed, frames);
        if before.has(State::DIRTY) {
            counters.add(slot, Event::Cleaned, frames);
        }
        if before.has(State::UNEVICTABLE) {
            counters.add(slot, Event::UnevictableRemoved, frames);
        }
    }

    /// Gives up latch and pin of a page that left its index; with the last pin, releases it.
    pub(super) fn leave(self, page: PageNo) {
        if self.leave_to(page) {
            self.release_one(page);
        }
    }

    /// Like [`leave`](Self::leave), but returns whether the caller must release the page.
    #[inline]
    pub(super) fn leave_to(self, page: PageNo) -> bool {
        let before = self.tables.pages.at(page).state.leave();
        let is_last = before.pins() == 1;
        if !is_last {
            self.tables.waits.wake(page, before);
        }
        is_last
    }

    /// Takes a page out of its index, if it is in one. The caller pins it and has it latched.
    pub(super) fn remove_latched(self, page: PageNo) -> bool {
        let Some((mut locked, index)) = self.lock_of(page) else { return false };
        let Ok(before) = self.tables.pages.at(page).take_out(0, 0) else { return false };
        locked.tree.remove(index);
        locked.publish();
        drop(locked);
        self.note_removed(page, before);
        true
    }

    /// Like `remove_latched`, for a page that the caller only pins: waits for latch and writeback.
    pub(super) fn remove_waiting(self, page: PageNo) -> bool {
        self.latch_exclusive(page);
        self.wait_writeback(page);
        let was_there = self.remove_latched(page);
        self.unlatch_exclusive(page);
        was_there
    }

    /// Drops the page at an index, dirty or not; a pinned page is freed with its last pin. Returns
    /// whether there was a page. Waits for the latch and the writeback of the page.
    pub fn discard(self, mapping: MappingId, index: u64) -> bool {
        let Some((page, _)) = self.pin_locked(mapping, index) else { return false };
        let was_there = self.remove_waiting(page);
        self.unpin(page);
        was_there
    }

    /// Moves a page to another index, and discards the page that was there. The caller pins the
    /// page, and ensures that no other task changes its key at the same time.
    ///
    /// # Errors
    /// The reason why the page keeps its index.
    pub fn rekey(self, page: PageNo, new: u64) -> Result<(), RekeyError> {
        if new >= INDEX_LIMIT {
            return Err(RekeyError::Full);
        }
        let mut preload = Preload::new(self.host, &self.tables.nodes.grace);
        let mut may_reclaim = true;
        loop {
            let (mut locked, old) = self.lock_of(page).ok_or(RekeyError::Gone)?;
            if old == new {
                return Ok(());
            }
            match self.enter(&mut locked, page, new, &mut preload) {
                Ok(other) => {
                    locked.tree.remove(old);
                    self.retag(&mut locked, page, new);
                    locked.publish();
                    drop(locked);
                    if let Some((other, before)) = other {
                        self.note_removed(other, before);
                        self.leave(other);
                    }
                    return Ok(());
                }
                Err(None) => return Err(RekeyError::Busy),
                Err(Some(count)) => {
                    drop(locked);
                    if !self.fill_preload(&mut preload, count, &mut may_reclaim) {
                        return Err(RekeyError::Full);
                    }
                }
            }
        }
    }

    /// Enters a page at the index `new`, in addition to its old index. If another page was there,
    /// takes it out, latches and pins it, and returns it with its former state. Fails with the
    /// number of missing nodes, or with `None` if that page is busy.
    fn enter(
        self,
        locked: &mut LockedMapping<'_>,
        page: PageNo,
        new: u64,
        preload: &mut Preload<'_, H>,
    ) -> Result<Option<(PageNo, State)>, Option<usize>> {
        match locked.tree.insert(new, Entry::Page(page), preload) {
            Ok(_) => Ok(None),
            Err(InsertError::Nodes(count)) => Err(Some(count)),
            Err(InsertError::Present(other)) => {
                let busy = State::EXCLUSIVE | State::SHARED | State::WRITEBACK;
                let other_page = self.tables.pages.at(other);
                let before = other_page.take_out(busy, State::PIN).map_err(|_| None)?;
                locked.tree.replace(new, Entry::Page(page));
                Ok(Some((other, before)))
            }
        }
    }

    fn retag(self, locked: &mut LockedMapping<'_>, page: PageNo, new: u64) {
        let descriptor = self.tables.pages.at(page);
        let state = descriptor.state.load();
        let tags = [(Tag::Dirty, State::DIRTY), (Tag::Writeback, State::WRITEBACK)];
        for (tag, flag) in tags {
            if state.has(flag) {
                locked.tree.set_tag(new, tag);
            } else {
                locked.tree.clear_tag(new, tag);
            }
        }
        descriptor.index.store(new, Relaxed);
    }
}
