//! The counted lock: one holder at a time, no thread sleeps forever, each contention is counted.

use crate::check;
use quarry_sys::lock::CountedLock;
use quarry_sys::primitive::{AtomicU32, Ordering, relax};

/// Threads read, let others run, and write: only mutual exclusion keeps the sum right. A lost
/// wake-up leaves a thread asleep, which shuttle reports as a deadlock.
#[test]
fn excludes_and_wakes() {
    check(|| {
        let lock = CountedLock::new(0u32);
        let inside = AtomicU32::new(0);
        shuttle::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..2 {
                        let mut sum = lock.lock();
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two holders");
                        let seen = *sum;
                        relax();
                        *sum = seen + 1;
                        inside.fetch_sub(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 6);
        assert_eq!(lock.stats().acquisitions, 7);
    });
}

/// `try_lock` never waits, counts its failures, and excludes as `lock` does.
#[test]
fn try_lock_counts_what_it_meets() {
    check(|| {
        let lock = CountedLock::new(0u32);
        let failures = AtomicU32::new(0);
        shuttle::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..2 {
                        match lock.try_lock() {
                            Some(mut sum) => {
                                let seen = *sum;
                                relax();
                                *sum = seen + 1;
                            }
                            None => {
                                failures.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
        });
        let failed = failures.load(Ordering::Relaxed);
        assert_eq!(*lock.lock() + failed, 4);
        assert_eq!(lock.stats().contentions, u64::from(failed));
    });
}
