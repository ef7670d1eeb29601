//! The counted lock: spins briefly, then sleeps on a futex, and counts its cost.
//!
//! States of the word: `0` free, `1` held, `2` held and a task may sleep (U. Drepper, "Futexes Are
//! Tricky", the third mutex). The holder counts by plain loads and stores, so counting needs no
//! atomic read-modify-write. With a single thread, locking and unlocking are plain stores.
//!
//! A lock may be made without counting ([`Chosen`]), to measure the price of counting.
//!
//! Hold times are sampled. Wait times are always measured: two readings of the clock take less time
//! than the waiting task's spinning and its futex call.
//!
//! If a task takes a lock that it holds (its signal handler has interrupted the allocator's slow
//! path, and allocates), it would wait for ever. The lock reports this in one line, and aborts.

use crate::clock::monotonic_ns;
use crate::counters::add_fields;
use crate::errno::KeepErrno;
use crate::primitive::announce::{self, Waited, unseen};
use crate::primitive::{AtomicU32, AtomicU64, AtomicUsize, Ordering, futex, relax, task};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

const FREE: u32 = 0;
const HELD: u32 = 1;
const HELD_WITH_SLEEPERS: u32 = 2;

/// Rounds of spinning before a waiting task sleeps. Critical sections here last 50..500 ns, a futex
/// round trip about 5 us: 100 rounds of `pause` cover the usual section. In a model a waiter sleeps
/// at once, because the model checks sleeping.
const SPIN_ROUNDS: u32 = if cfg!(quarry_model) { 1 } else { 100 };

/// One acquisition in this many has its hold time measured: two readings of the clock cost 40 ns.
pub const HOLD_SAMPLE: u64 = 64;

/// The costs of a lock so far. All values only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockStats {
    /// Times the lock was taken, with or without waiting.
    pub acquisitions: u64,
    /// Times that `lock` (which then waited) or `try_lock` found the lock held.
    pub contentions: u64,
    /// Acquisitions whose hold time was measured: every [`HOLD_SAMPLE`]th.
    pub hold_samples: u64,
    /// Sum of the measured hold times, in nanoseconds.
    pub hold_ns: u64,
    /// Sum of the times that `lock` waited, spinning and sleeping, in nanoseconds.
    pub wait_ns: u64,
}

add_fields!(LockStats: acquisitions, contentions, hold_samples, hold_ns, wait_ns);

/// A lock is looked at after this many acquisitions, and is contended if one in
/// [`CONTENDED_SHARE`] found it held.
const LOOK_EVERY: u64 = if cfg!(quarry_model) { 2 } else { 512 };
const CONTENDED_SHARE: u64 = 32;

/// The counts of a lock when it was last looked at, to learn how often tasks wait for it.
pub struct Contention {
    acquisitions: AtomicU64,
    contentions: AtomicU64,
}

impl Contention {
    /// A lock that was never taken.
    #[must_use]
    pub const fn new() -> Self {
        Self { acquisitions: AtomicU64::new(0), contentions: AtomicU64::new(0) }
    }

    /// Returns whether the lock was contended, if it was taken often enough since the last look.
    /// Tasks may look at the same time.
    #[inline]
    pub fn is_high(&self, now: LockStats) -> bool {
        unseen(|| {
            let before = self.acquisitions.load(Ordering::Relaxed);
            let acquisitions = now.acquisitions.saturating_sub(before);
            if acquisitions < LOOK_EVERY {
                return false;
            }
            self.acquisitions.store(now.acquisitions, Ordering::Relaxed);
            let before = self.contentions.swap(now.contentions, Ordering::Relaxed);
            now.contentions.saturating_sub(before) * CONTENDED_SHARE >= acquisitions
        })
    }
}

/// Decides whether a lock counts its costs.
pub trait Counting: Copy + Send + Sync {
    /// Returns whether the lock counts its costs, for which it also reads the clock.
    fn counts(self) -> bool;
}

/// The lock always counts; the choice is made at compile time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Always;

impl Counting for Always {
    #[inline(always)]
    fn counts(self) -> bool {
        true
    }
}

/// The code that makes the lock chooses at run time, to measure the cost of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen(pub bool);

impl Counting for Chosen {
    #[inline(always)]
    fn counts(self) -> bool {
        self.0
    }
}

/// A mutual-exclusion lock around a `T`, with counters. Not recursive.
pub struct CountedLock<T, C: Counting = Always> {
    word: AtomicU32,
    owner: AtomicUsize,
    acquisitions: AtomicU64,
    contentions: AtomicU64,
    hold_ns: AtomicU64,
    wait_ns: AtomicU64,
    counting: C,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands out `&mut T` to one thread at a time, which needs only that a `T` may move
// between threads; every other field is atomic or never changes.
unsafe impl<T: Send, C: Counting> Sync for CountedLock<T, C> {}
// SAFETY: owning the lock is owning the `T`.
unsafe impl<T: Send, C: Counting> Send for CountedLock<T, C> {}

#[inline]
fn add(counter: &AtomicU64, nanoseconds: u64) {
    counter.store(counter.load(Ordering::Relaxed) + nanoseconds, Ordering::Relaxed);
}

/// Proof that a task holds the lock. Dropping it releases the lock. Must not move to another task.
pub struct Guard<'a, T, C: Counting = Always> {
    lock: &'a CountedLock<T, C>,
    since_ns: u64,
    stays_on_thread: PhantomData<*mut T>,
}

// SAFETY: a shared guard hands out `&T` only, which is what `T: Sync` allows.
unsafe impl<T: Sync, C: Counting> Sync for Guard<'_, T, C> {}

impl<T> CountedLock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Self {
        Self::counting(value, Always)
    }
}

impl<T, C: Counting> CountedLock<T, C> {
    /// A free lock around `value`; `counting` decides whether it counts its costs.
    pub const fn counting(value: T, counting: C) -> Self {
        Self {
            word: AtomicU32::new(FREE),
            owner: AtomicUsize::new(0),
            acquisitions: AtomicU64::new(0),
            contentions: AtomicU64::new(0),
            hold_ns: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
            counting,
            value: UnsafeCell::new(value),
        }
    }

    /// Returns the guarded value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// Takes the lock, spinning and then sleeping while another thread holds it.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T, C> {
        if !self.take() {
            self.wait();
        }
        self.taken()
    }

    #[inline(always)]
    fn name(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    #[inline]
    fn take(&self) -> bool {
        announce::lock_wanted(self.name());
        unseen(|| self.take_word())
    }

    #[inline(always)]
    fn take_word(&self) -> bool {
        if task::is_alone() {
            // A signal handler that takes the lock in between releases it before it returns.
            let is_free = self.word.load(Ordering::Relaxed) == FREE;
            if is_free {
                self.word.store(HELD, Ordering::Relaxed);
            }
            return is_free;
        }
        self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock if it is free. Never waits.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T, C>> {
        if self.take() {
            Some(self.taken())
        } else {
            if self.counting.counts() {
                unseen(|| self.contentions.fetch_add(1, Ordering::Relaxed));
            }
            None
        }
    }

    /// Takes the lock, waiting for other tasks. `None` if the running task itself holds the lock:
    /// then the caller is a signal handler that has interrupted the holder.
    #[inline]
    pub fn lock_of_others(&self) -> Option<Guard<'_, T, C>> {
        (self.owner.load(Ordering::Relaxed) != task::current()).then(|| self.lock())
    }

    /// For a lock that threads also take outside the gate, in the child of a fork: if a task held
    /// it that the child lacks, lets `mend` repair what that task may have changed in part, and
    /// frees the lock.
    pub fn adopt(&self, mend: impl FnOnce(&mut T)) {
        let is_mine = self.owner.load(Ordering::Relaxed) == task::current();
        if self.is_held() && !is_mine {
            // SAFETY: the holder does not exist in the child, whose only task does not hold it.
            mend(unsafe { &mut *self.value.get() });
            self.owner.store(0, Ordering::Relaxed);
            self.word.store(FREE, Ordering::Relaxed);
        }
    }

    #[inline]
    fn taken(&self) -> Guard<'_, T, C> {
        announce::lock_taken(self.name());
        unseen(|| self.counted())
    }

    #[inline(always)]
    fn counted(&self) -> Guard<'_, T, C> {
        self.owner.store(task::current(), Ordering::Relaxed);
        if !self.counting.counts() {
            return Guard { lock: self, since_ns: 0, stays_on_thread: PhantomData };
        }
        let count = self.acquisitions.load(Ordering::Relaxed) + 1;
        self.acquisitions.store(count, Ordering::Relaxed);
        let since_ns = if count.is_multiple_of(HOLD_SAMPLE) { monotonic_ns() } else { 0 };
        Guard { lock: self, since_ns, stays_on_thread: PhantomData }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        if unseen(|| self.owner.load(Ordering::Relaxed)) == task::current() {
            crate::report::entered_again();
        }
        let counts = self.counting.counts();
        // In `unseen`, so that no other task runs between reading the word and queueing.
        let since_ns = if counts { unseen(monotonic_ns) } else { 0 };
        loop {
            match announce::lock_waits(self.name()) {
                Waited::ByItself => spin_and_sleep(&self.word),
                Waited::HandedOver => {}
                Waited::LookAgain if self.take() => {}
                Waited::LookAgain => continue,
            }
            break;
        }
        if counts {
            // An atomic add, because a task whose `try_lock` fails counts without holding the lock.
            unseen(|| {
                self.contentions.fetch_add(1, Ordering::Relaxed);
                add(&self.wait_ns, monotonic_ns().saturating_sub(since_ns));
            });
        }
    }

    /// Returns whether the lock counts its costs.
    pub fn counts(&self) -> bool {
        self.counting.counts()
    }

    /// Returns whether a thread holds the lock now.
    pub fn is_held(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE
    }

    /// Reads the counters without the lock: each is exact, but they may be of different moments.
    /// `hold_samples` includes a sampled acquisition from its start, `hold_ns` from its end.
    pub fn stats(&self) -> LockStats {
        let acquisitions = self.acquisitions.load(Ordering::Relaxed);
        LockStats {
            acquisitions,
            contentions: self.contentions.load(Ordering::Relaxed),
            hold_samples: acquisitions / HOLD_SAMPLE,
            hold_ns: self.hold_ns.load(Ordering::Relaxed),
            wait_ns: self.wait_ns.load(Ordering::Relaxed),
        }
    }
}

/// Takes the lock with this word. Keeps `errno`. One function for locks of all types.
#[cold]
#[inline(never)]
fn spin_and_sleep(word: &AtomicU32) {
    let mut rounds = 0;
    while word.load(Ordering::Relaxed) != FREE
        || word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err()
    {
        rounds += 1;
        if rounds > SPIN_ROUNDS {
            return sleep(word);
        }
        relax();
    }
}

fn sleep(word: &AtomicU32) {
    let _errno = KeepErrno::new();
    while word.swap(HELD_WITH_SLEEPERS, Ordering::Acquire) != FREE {
        futex::wait(word, HELD_WITH_SLEEPERS);
    }
}

impl<T, C: Counting> Deref for Guard<'_, T, C> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while its task holds the lock, and the lock admits one
        // holder, so every `&mut` to the value goes through this guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T, C: Counting> DerefMut for Guard<'_, T, C> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`; `&mut self` makes this the only reference through the guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T, C: Counting> Drop for Guard<'_, T, C> {
    #[inline]
    fn drop(&mut self) {
        let lock = self.lock;
        unseen(|| {
            if self.since_ns != 0 {
                add(&lock.hold_ns, monotonic_ns().saturating_sub(self.since_ns));
            }
            lock.owner.store(0, Ordering::Relaxed);
        });
        if announce::lock_released(lock.name()) {
            return;
        }
        if task::is_alone() {
            // This is the only thread, and only it can start another: no thread sleeps.
            lock.word.store(FREE, Ordering::Relaxed);
        } else if unseen(|| lock.word.swap(FREE, Ordering::Release)) == HELD_WITH_SLEEPERS {
            futex::wake_one(&lock.word);
        }
    }
}
