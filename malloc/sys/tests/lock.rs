//! The counted lock: its counts, forks, and the report of a thread that waits for itself.
#![cfg(not(quarry_model))]

use quarry_sys::clock::monotonic_ns;
use quarry_sys::lock::{Chosen, CountedLock, HOLD_SAMPLE, LockStats};
use quarry_sys::locks::AnyLock;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicI32, Ordering};

#[test]
fn a_task_that_holds_the_lock_does_not_wait_for_itself() {
    let lock = CountedLock::new(1);
    let held = lock.lock_of_others().expect("it is free");
    assert!(lock.lock_of_others().is_none(), "the running task holds it");
    std::thread::scope(|scope| {
        let other = scope.spawn(|| *lock.lock_of_others().expect("another task holds it"));
        drop(held);
        assert_eq!(other.join().unwrap(), 1);
    });
}

#[test]
fn an_uncontended_lock_counts_acquisitions_only() {
    let lock = CountedLock::new(7u32);
    for round in 1..HOLD_SAMPLE {
        *lock.lock() += 1;
        assert_eq!(lock.stats(), LockStats { acquisitions: round, ..LockStats::default() });
    }
    assert_eq!(*lock.lock(), 7 + HOLD_SAMPLE as u32 - 1);
}

#[test]
fn one_acquisition_in_so_many_has_its_hold_time_measured() {
    let lock = CountedLock::new(());
    for sample in 1..=3 {
        for _ in 1..HOLD_SAMPLE {
            drop(lock.lock());
        }
        let before = lock.stats();
        assert_eq!(before.hold_samples, sample - 1);
        let guard = lock.lock();
        let from = monotonic_ns();
        while monotonic_ns() < from + 1_000 {}
        drop(guard);
        let after = lock.stats();
        assert_eq!(after.hold_samples, sample);
        assert!(after.hold_ns >= before.hold_ns + 1_000, "{before:?} {after:?}");
    }
}

/// A lock without counting still excludes, and reports no counts.
#[test]
fn a_lock_that_does_not_count_stores_nothing() {
    let lock = CountedLock::counting(0u32, Chosen(false));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| *lock.lock() += 1));
        }
    });
    let guard = lock.try_lock().expect("a free lock is taken");
    assert_eq!(*guard, 40_000);
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(lock.try_lock().is_none()));
    });
    drop(guard);
    assert_eq!(lock.stats(), LockStats::default());
    assert_eq!(AnyLock::stats(&lock), None);
    let counted = CountedLock::counting((), Chosen(true));
    drop(counted.lock());
    assert_eq!(AnyLock::stats(&counted).map(|stats| stats.acquisitions), Some(1));
}

#[test]
fn a_failed_try_counts_as_contention_and_not_as_acquisition() {
    let lock = CountedLock::new(());
    let guard = lock.try_lock().expect("a free lock is taken");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..250).for_each(|_| assert!(lock.try_lock().is_none())));
        }
    });
    drop(guard);
    assert!(lock.try_lock().is_some());
    let stats = lock.stats();
    assert_eq!((stats.acquisitions, stats.contentions), (2, 1000));
}

/// Waits until a thread of this process sleeps in the kernel.
fn until_asleep(thread: i32) {
    let path = format!("/proc/self/task/{thread}/stat");
    loop {
        let stat = std::fs::read_to_string(&path).expect("the thread is alive");
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        if state == Some('S') {
            return;
        }
        std::thread::yield_now();
    }
}

/// A thread that waits long for the lock spins, sleeps, and is woken.
#[test]
fn a_waiter_sleeps_and_counts_once() {
    let lock = CountedLock::new(0u32);
    let waiter = AtomicI32::new(0);
    std::thread::scope(|scope| {
        let mut guard = lock.lock();
        scope.spawn(|| {
            // SAFETY: gettid has no preconditions.
            waiter.store(unsafe { libc::gettid() }, Ordering::Release);
            *lock.lock() += 1;
        });
        let thread = loop {
            match waiter.load(Ordering::Acquire) {
                0 => std::thread::yield_now(),
                thread => break thread,
            }
        };
        until_asleep(thread);
        assert_eq!(lock.stats().wait_ns, 0, "counted when the wait is over");
        let from = monotonic_ns();
        while monotonic_ns() < from + 1_000 {}
        *guard = 41;
    });
    assert_eq!(*lock.lock(), 42);
    let stats = lock.stats();
    assert_eq!((stats.acquisitions, stats.contentions), (3, 1));
    assert!(stats.wait_ns >= 1_000, "the waiter slept at least so long: {stats:?}");
}

#[test]
fn the_counters_of_a_lock_have_not_grown_beyond_their_words() {
    // word, owner, acquisitions, contentions, hold_ns, wait_ns
    assert_eq!(size_of::<CountedLock<()>>(), 6 * 8);
}

/// Many threads with short sections: the sum is right, and each acquisition is counted.
#[test]
fn sections_exclude_each_other() {
    const THREADS: u64 = 6;
    const ROUNDS: u64 = 20_000;
    let lock = CountedLock::new([0u64; 2]);
    let start = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                for _ in 0..ROUNDS {
                    let mut pair = lock.lock();
                    pair[0] += 1;
                    pair[1] += 1;
                    assert_eq!(pair[0], pair[1]);
                }
            });
        }
    });
    assert_eq!(*lock.lock(), [THREADS * ROUNDS; 2]);
    let stats = lock.stats();
    assert_eq!(stats.acquisitions, THREADS * ROUNDS + 1);
    assert_eq!(stats.hold_samples, stats.acquisitions / HOLD_SAMPLE);
}

#[test]
fn counters_add_up() {
    let stats = |by| LockStats {
        acquisitions: by,
        contentions: 2 * by,
        hold_samples: 3 * by,
        hold_ns: 4 * by,
        wait_ns: 5 * by,
    };
    let mut sum = stats(1);
    sum += sum;
    assert_eq!(sum, stats(2));
}

const AGAIN: &str = "QUARRY_TEST_LOCK_AGAIN";

/// A thread that takes a lock it holds reports that in exactly one line, and aborts.
#[test]
fn waiting_for_oneself_is_reported() {
    if std::env::var_os(AGAIN).is_some() {
        let lock = CountedLock::new(());
        let _held = lock.lock();
        let _again = lock.lock();
        unreachable!("the lock is not recursive");
    }
    let mut command = Command::new(std::env::current_exe().expect("a test knows its own path"));
    command.args(["--exact", "waiting_for_oneself_is_reported", "--nocapture"]).env(AGAIN, "1");
    let output = command.output().expect("the child starts");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{:?}", output.status);
    let expected = "quarry: the allocator was entered again while it held its own lock \
                    (malloc or free in a signal handler?)\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
}

/// A signal handler that takes a lock its thread holds also reports that in one line.
#[test]
fn a_handler_that_waits_for_its_thread_is_reported() {
    static LOCK: CountedLock<()> = CountedLock::new(());
    extern "C" fn handler(_signal: i32) {
        drop(LOCK.lock());
    }
    if std::env::var_os(AGAIN).is_some() {
        // SAFETY: installs the handler above and runs it on this thread.
        unsafe {
            libc::signal(libc::SIGUSR1, handler as extern "C" fn(i32) as usize);
            let _held = LOCK.lock();
            libc::raise(libc::SIGUSR1);
        }
        unreachable!("the lock is not recursive");
    }
    let mut command = Command::new(std::env::current_exe().expect("a test knows its own path"));
    let name = "a_handler_that_waits_for_its_thread_is_reported";
    command.args(["--exact", name, "--nocapture"]).env(AGAIN, "1");
    let output = command.output().expect("the child starts");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{:?}", output.status);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("entered again") && text.lines().count() == 1, "{text:?}");
}

#[test]
fn the_child_of_a_fork_mends_what_a_lost_holder_left() {
    let lock = CountedLock::new(1);
    let mend = |value: &mut i32| *value = 9;
    lock.adopt(mend);
    let held = lock.lock();
    lock.adopt(mend);
    assert_eq!((*held, lock.is_held()), (1, true), "the running task holds it");
    drop(held);
    std::thread::scope(|scope| scope.spawn(|| core::mem::forget(lock.lock())).join().unwrap());
    assert!(lock.is_held());
    lock.adopt(mend);
    assert_eq!(*lock.try_lock().expect("it is free again"), 9);
}
