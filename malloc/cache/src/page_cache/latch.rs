//! Latches, which order the tasks that read and write the bytes of a page, and waiting for them.

use super::cache::PageCacheRef;
use super::counters::Event;
use super::host::Host;
use crate::lru::{PageNo, State};

impl<H: Host> PageCacheRef<'_, H> {
    /// Takes the latch of a page for reading, if no task writes it. The caller pins the page.
    #[inline]
    pub fn try_latch_shared(self, page: PageNo) -> bool {
        self.tables.pages.at(page).state.try_latch_shared()
    }

    /// Takes the latch of a pinned page for reading; waits while another task writes it.
    #[inline]
    pub fn latch_shared(self, page: PageNo) {
        let is_taken = |now: State| now.has(State::EXCLUSIVE);
        while !self.try_latch_shared(page) {
            self.wait_while(page, is_taken);
        }
    }

    /// Gives the latch up after reading.
    #[inline]
    pub fn unlatch_shared(self, page: PageNo) {
        let state = &self.tables.pages.at(page).state;
        let before = state.unlatch_shared();
        if before.shared() == 1 && before.has(State::WAITERS) {
            self.tables.waits.wake(page, state.clear(State::WAITERS));
        }
    }

    /// Takes the latch of a page for writing, if no task has it. The caller pins the page.
    #[inline]
    pub fn try_latch_exclusive(self, page: PageNo) -> bool {
        self.tables.pages.at(page).state.try_latch_exclusive()
    }

    /// Takes the latch of a pinned page for writing; waits for it. The caller does not have it yet.
    #[inline]
    pub fn latch_exclusive(self, page: PageNo) {
        let is_taken = |now: State| now.has(State::EXCLUSIVE) || now.shared() > 0;
        while !self.try_latch_exclusive(page) {
            self.wait_while(page, is_taken);
        }
    }

    /// Gives the latch up after writing, and increments the version.
    #[inline]
    pub fn unlatch_exclusive(self, page: PageNo) {
        let before = self.tables.pages.at(page).state.unlatch_exclusive(0);
        self.tables.waits.wake(page, before);
    }

    /// The version of a pinned page, which wraps at 2^16, or `None` while a task writes the page.
    #[inline]
    pub fn version(self, page: PageNo) -> Option<u16> {
        let now = self.state(page);
        (!now.has(State::EXCLUSIVE)).then_some((now.0 >> State::VERSION.trailing_zeros()) as u16)
    }

    /// Returns whether no task has written the page since it had this version.
    #[inline]
    pub fn is_version(self, page: PageNo, version: u16) -> bool {
        // Orders the caller's earlier reads of the bytes before this load of the version.
        quarry_sys::primitive::fence(quarry_sys::primitive::Ordering::Acquire);
        self.version(page) == Some(version)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn wait_while(self, page: PageNo, busy: impl Fn(State) -> bool) {
        self.tables.counters.add(self.slot(), Event::Waited, 1);
        self.tables.waits.wait_while(page, &self.tables.pages.at(page).state, busy);
    }
}
