//! The counted lock: spins briefly, then sleeps on a futex, and counts what it cost.
//!
//! State of the word: `0` free, `1` held, `2` held and somebody may sleep (U. Drepper, "Futexes Are
//! Tricky", the third mutex). The counters of the fast path are plain loads and stores made
//! while the lock is held, so that counting needs no atomic read-modify-write of its own. A process
//! with one thread takes and releases it by plain stores: its second thread finds it free.
//!
//! A thread that waits for itself (a signal handler that allocates while it interrupts the
//! allocator's slow path) would wait forever; it is reported in one line instead.

use crate::glibc::is_single_threaded;
use crate::primitive::{AtomicU32, AtomicU64, AtomicUsize, Ordering, relax};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

const FREE: u32 = 0;
const HELD: u32 = 1;
const HELD_WITH_SLEEPERS: u32 = 2;

/// Rounds of spinning before a waiter sleeps. Critical sections here last 50..500 ns, a futex
/// round trip about 5 us: 100 rounds of `pause` bridge the usual section on either side. A model
/// sleeps at once: sleeping is what it is to check.
const SPIN_ROUNDS: u32 = if cfg!(quarry_model) { 1 } else { 100 };

/// One acquisition in this many has its hold time measured; two clock readings cost about 40 ns,
/// as much as a short section itself.
pub const HOLD_SAMPLE: u64 = 64;

/// What a lock has cost so far. All values only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockStats {
    /// Times the lock was taken, with or without waiting.
    pub acquisitions: u64,
    /// Times the lock was found held, by `lock` (which then waited) or by `try_lock`.
    pub contentions: u64,
    /// Acquisitions whose hold time was measured: every [`HOLD_SAMPLE`]th.
    pub hold_samples: u64,
    /// Sum of the measured hold times, in nanoseconds.
    pub hold_ns: u64,
}

impl core::ops::AddAssign for LockStats {
    fn add_assign(&mut self, other: Self) {
        self.acquisitions += other.acquisitions;
        self.contentions += other.contentions;
        self.hold_samples += other.hold_samples;
        self.hold_ns += other.hold_ns;
    }
}

/// A mutual-exclusion lock around a `T`, with counters. Not recursive.
pub struct CountedLock<T> {
    word: AtomicU32,
    owner: AtomicUsize,
    acquisitions: AtomicU64,
    contentions: AtomicU64,
    hold_samples: AtomicU64,
    hold_ns: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands out `&mut T` to one thread at a time, which is all that moving a `T`
// between threads asks for; every other field is atomic.
unsafe impl<T: Send> Sync for CountedLock<T> {}
// SAFETY: owning the lock is owning the `T`.
unsafe impl<T: Send> Send for CountedLock<T> {}

/// Proof that the lock is held; releases it when dropped. Stays on its thread, whose pointer marks
/// the lock's owner.
pub struct Guard<'a, T> {
    lock: &'a CountedLock<T>,
    since_ns: u64,
    stays_on_thread: PhantomData<*mut T>,
}

// SAFETY: a shared guard hands out `&T` only, which is what `T: Sync` allows.
unsafe impl<T: Sync> Sync for Guard<'_, T> {}

impl<T> CountedLock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(FREE),
            owner: AtomicUsize::new(0),
            acquisitions: AtomicU64::new(0),
            contentions: AtomicU64::new(0),
            hold_samples: AtomicU64::new(0),
            hold_ns: AtomicU64::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock, spinning and then sleeping while another thread holds it.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        if !self.take() {
            self.wait();
        }
        self.taken()
    }

    /// Takes the word if it is free.
    #[inline]
    fn take(&self) -> bool {
        if is_single_threaded() {
            // A signal's handler that comes in between gives back what it takes.
            let is_free = self.word.load(Ordering::Relaxed) == FREE;
            if is_free {
                self.word.store(HELD, Ordering::Relaxed);
            }
            return is_free;
        }
        self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock if nobody holds it. Never waits.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        if self.take() {
            Some(self.taken())
        } else {
            self.contentions.fetch_add(1, Ordering::Relaxed);
            None
        }
    }

    #[inline]
    fn taken(&self) -> Guard<'_, T> {
        self.owner.store(crate::thread::thread_pointer(), Ordering::Relaxed);
        let count = self.acquisitions.load(Ordering::Relaxed) + 1;
        self.acquisitions.store(count, Ordering::Relaxed);
        let since_ns =
            if count.is_multiple_of(HOLD_SAMPLE) { crate::clock::monotonic_ns() } else { 0 };
        Guard { lock: self, since_ns, stays_on_thread: PhantomData }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        if self.owner.load(Ordering::Relaxed) == crate::thread::thread_pointer() {
            crate::report::entered_again();
        }
        let mut rounds = 0;
        loop {
            if self.word.load(Ordering::Relaxed) == FREE
                && self
                    .word
                    .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                break;
            }
            rounds += 1;
            if rounds > SPIN_ROUNDS {
                self.sleep();
                break;
            }
            relax();
        }
        // Those whose `try_lock` failed count too, without the lock: only an atomic sum is exact.
        self.contentions.fetch_add(1, Ordering::Relaxed);
    }

    fn sleep(&self) {
        while self.word.swap(HELD_WITH_SLEEPERS, Ordering::Acquire) != FREE {
            futex::wait(&self.word, HELD_WITH_SLEEPERS);
        }
    }

    /// Returns whether a thread holds it at the moment.
    pub fn is_held(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE
    }

    /// The counters, read without the lock: each is exact, their combination a snapshot.
    pub fn stats(&self) -> LockStats {
        LockStats {
            acquisitions: self.acquisitions.load(Ordering::Relaxed),
            contentions: self.contentions.load(Ordering::Relaxed),
            hold_samples: self.hold_samples.load(Ordering::Relaxed),
            hold_ns: self.hold_ns.load(Ordering::Relaxed),
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while its thread holds the lock, and the lock admits one
        // holder, so no other reference to the value is alive.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`; `&mut self` makes this the only reference through the guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let lock = self.lock;
        if self.since_ns != 0 {
            let held = crate::clock::monotonic_ns().saturating_sub(self.since_ns);
            lock.hold_ns.store(lock.hold_ns.load(Ordering::Relaxed) + held, Ordering::Relaxed);
            lock.hold_samples
                .store(lock.hold_samples.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        lock.owner.store(0, Ordering::Relaxed);
        if is_single_threaded() {
            // No other thread can have come meanwhile, so nobody sleeps.
            lock.word.store(FREE, Ordering::Relaxed);
        } else if lock.word.swap(FREE, Ordering::Release) == HELD_WITH_SLEEPERS {
            futex::wake_one(&lock.word);
        }
    }
}

/// The futex calls that locks, gates and threads of ours need.
#[cfg(not(quarry_model))]
pub mod futex {
    use crate::primitive::AtomicU32;

    pub(crate) fn wait(word: &AtomicU32, expected: u32) {
        wait_until(word, expected, core::ptr::null());
    }

    /// Sleeps while the word is `expected` and nobody wakes, for so many nanoseconds at most.
    pub fn wait_at_most(word: &AtomicU32, expected: u32, ns: u64) {
        let time = libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        };
        wait_until(word, expected, &raw const time);
    }

    fn wait_until(word: &AtomicU32, expected: u32, timeout: *const libc::timespec) {
        // SAFETY: the word outlives the call, and FUTEX_WAIT only reads it and the timeout, which
        // is null or the caller's. errno is saved by the entry point (see quarry-preload), so a
        // spurious EAGAIN is never seen outside.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                expected,
                timeout,
            );
        }
    }

    pub(crate) fn wake_one(word: &AtomicU32) {
        wake(word, 1);
    }

    /// Wakes all who sleep on the word.
    pub fn wake_all(word: &AtomicU32) {
        wake(word, i32::MAX);
    }

    fn wake(word: &AtomicU32, most: i32) {
        // SAFETY: FUTEX_WAKE uses the address only as a key.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                most,
            );
        }
    }
}

/// The same two under the model checker: comparing and queueing are one step, as in the kernel, and
/// a thread that nobody wakes is a deadlock that the checker reports.
#[cfg(quarry_model)]
pub(crate) mod futex {
    use crate::primitive::{AtomicU32, Ordering, point};
    use std::cell::RefCell;
    use std::collections::VecDeque;

    std::thread_local! {
        // Threads of a model share one thread of the OS, and nothing switches inside a borrow.
        static SLEEPERS: RefCell<VecDeque<(usize, shuttle::thread::Thread)>> =
            const { RefCell::new(VecDeque::new()) };
    }

    fn key(word: &AtomicU32) -> usize {
        std::ptr::from_ref(word) as usize
    }

    pub(crate) fn wait(word: &AtomicU32, expected: u32) {
        if shuttle::current::try_get_current_task().is_none() {
            // Not a model test: the caller looks at the word again.
            return std::thread::yield_now();
        }
        point();
        if word.raw().load(Ordering::SeqCst) == expected {
            let me = shuttle::thread::current();
            let id = me.id();
            SLEEPERS.with_borrow_mut(|sleepers| sleepers.push_back((key(word), me)));
            shuttle::thread::park();
            // Shuttle wakes threads for nothing now and then; whoever is awake is in no queue.
            SLEEPERS.with_borrow_mut(|sleepers| sleepers.retain(|(_, thread)| thread.id() != id));
        }
    }

    pub(crate) fn wake_one(word: &AtomicU32) {
        point();
        wake_next(word);
    }

    pub(crate) fn wake_all(word: &AtomicU32) {
        point();
        while wake_next(word) {}
    }

    fn wake_next(word: &AtomicU32) -> bool {
        let woken = SLEEPERS.with_borrow_mut(|sleepers| {
            let place = sleepers.iter().position(|(slept_on, _)| *slept_on == key(word))?;
            sleepers.remove(place)
        });
        woken.inspect(|(_, thread)| thread.unpark()).is_some()
    }
}
