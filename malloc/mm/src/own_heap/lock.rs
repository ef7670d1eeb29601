//! The lock of an own heap: taken by one atomic instruction and released by a store.
//!
//! Threads take it outside the gate, for some ten instructions at a time. So it differs from
//! `CountedLock`: who waits for it only spins and naps, and the child of a fork may find it held by
//! a thread that it lacks.

use crate::frame::fresh_zero;
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering, relax, task, timer};
use quarry_sys::report::entered_again;

const FREE: u64 = 0;
/// Rounds of spinning before a waiting thread naps: its holder has lost the CPU.
const SPIN_ROUNDS: u32 = 100;

fresh_zero! {
    /// The lock. It guards all of its heap that changes.
    pub(super) struct HeapLock {
        /// The task that holds the lock, or `FREE`.
        holder: AtomicU64,
        contentions: AtomicU32,
    }
}

/// Proof that the running task holds the lock. Dropping it releases the lock.
pub(super) struct Held<'a>(&'a HeapLock);

impl HeapLock {
    #[inline(always)]
    pub(super) fn lock(&self) -> Held<'_> {
        if !self.take() {
            self.wait();
        }
        Held(self)
    }

    /// Takes the lock if it is free. Never waits.
    #[inline(always)]
    pub(super) fn try_lock(&self) -> Option<Held<'_>> {
        if self.take() { Some(Held(self)) } else { None }
    }

    #[inline(always)]
    fn take(&self) -> bool {
        let me = task::current() as u64;
        if task::is_alone() {
            let is_free = self.holder.load(Ordering::Relaxed) == FREE;
            if is_free {
                self.holder.store(me, Ordering::Relaxed);
            }
            return is_free;
        }
        self.holder.compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        if self.holder.load(Ordering::Relaxed) == task::current() as u64 {
            entered_again();
        }
        self.contentions.fetch_add(1, Ordering::Relaxed);
        let mut round = 0;
        loop {
            round += 1;
            if round > SPIN_ROUNDS {
                timer::nap();
            } else {
                relax();
            }
            if !self.is_held() && self.take() {
                return;
            }
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.holder.load(Ordering::Relaxed) != FREE
    }

    pub(super) fn contentions(&self) -> u32 {
        self.contentions.load(Ordering::Relaxed)
    }

    /// In the child of a fork: frees the lock if a thread holds it that the child lacks. Returns
    /// whether it did; then that thread's work is unfinished.
    pub(super) fn adopt(&self) -> bool {
        let is_lost =
            ![FREE, task::current() as u64].contains(&self.holder.load(Ordering::Relaxed));
        if is_lost {
            self.holder.store(FREE, Ordering::Relaxed);
        }
        is_lost
    }
}

impl Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.holder.store(FREE, Ordering::Release);
    }
}
