//! Sleeping until a page's latch is free or its writeback ends.
//!
//! Tasks sleep on one of 256 words, selected by the page's number (`PAGE_WAIT_TABLE_BITS` = 8,
//! Linux 4.10). A word counts wake-ups. A waiter reads the word, sets `WAITERS` in the state, and
//! sleeps while the word is unchanged. The task that clears `WAITERS` increments the word
//! afterwards, so a waiter whose flag was cleared reads the state again.

use crate::lru::{PageNo, State, StateWord};
use quarry_mm::frame::OsArray;
use quarry_sys::gate;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::primitive::{AtomicU32, Ordering, futex, relax};

const QUEUES: usize = 256;

/// Rounds of polling before a waiter sleeps: many latches are held for less than a futex call.
const SPIN_ROUNDS: u32 = if cfg!(quarry_model) { 0 } else { 100 };

pub(super) struct Waits {
    queues: OsArray<AtomicU32>,
}

impl Waits {
    pub(super) fn build(os: &'static dyn Os) -> OsResult<Self> {
        Ok(Self { queues: OsArray::zeroed(os, QUEUES)? })
    }

    fn queue(&self, page: PageNo) -> &AtomicU32 {
        self.queues.at(page.0 as usize % QUEUES)
    }

    /// Wakes the tasks that wait for `page`, if `before` had `WAITERS`, which the caller cleared.
    #[inline]
    pub(super) fn wake(&self, page: PageNo, before: State) {
        if before.has(State::WAITERS) {
            self.wake_all(page);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_all(&self, page: PageNo) {
        let queue = self.queue(page);
        queue.fetch_add(1, Ordering::Release);
        futex::wake_all(queue);
    }

    /// Returns the state once it is not `busy`. The caller pins the page.
    pub(super) fn wait_while(
        &self,
        page: PageNo,
        word: &StateWord,
        busy: impl Fn(State) -> bool,
    ) -> State {
        for _ in 0..SPIN_ROUNDS {
            let now = word.load();
            if !busy(now) {
                return now;
            }
            relax();
        }
        let queue = self.queue(page);
        loop {
            let seen = queue.load(Ordering::Acquire);
            let now = word.load();
            if !busy(now) {
                return now;
            }
            if now.has(State::WAITERS) || word.exchange(now, State(now.0 | State::WAITERS)).is_ok()
            {
                gate::outside(|| futex::wait(queue, seen));
            }
        }
    }
}
