//! Threads that work at the same time as the measured one.

use super::window::{self, Budget, Done, Window};
use quarry_harness::affinity;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The other threads and their CPUs. They take the CPUs of the sample in turn, after the measured
/// thread, which has the first.
#[derive(Clone, Copy)]
pub(super) struct Others<'a> {
    pub(super) count: usize,
    pub(super) cpus: &'a [usize],
}

pub(super) struct Stop(AtomicBool);

impl Stop {
    /// Runs chunks on the calling thread until the measured thread has ended its window.
    pub(super) fn until(&self, mut chunk: impl FnMut() -> Done) -> Done {
        let mut done = Done::default();
        while !self.0.load(Ordering::Acquire) {
            let Done { operations, verified } = chunk();
            done.operations += operations;
            done.verified += verified;
        }
        done
    }
}

impl Others<'_> {
    /// Binds the calling thread, number `number` of the others, to its CPU.
    pub(super) fn pin(&self, number: usize) {
        if !self.cpus.is_empty() {
            let cpu = self.cpus[(number + 1) % self.cpus.len()];
            affinity::pin(cpu).expect("the CPU is one of those allowed");
        }
    }

    /// Runs `other` on every other thread while `measured` runs on this one.
    ///
    /// # Panics
    /// If another thread did work that it could not verify.
    pub(super) fn beside(
        &self,
        other: impl Fn(usize, &Stop) -> Done + Sync,
        measured: impl FnOnce() -> Window,
    ) -> Window {
        let stop = Stop(AtomicBool::new(false));
        thread::scope(|scope| {
            let start = |number| {
                let (stop, other) = (&stop, &other);
                scope.spawn(move || {
                    self.pin(number);
                    other(number, stop)
                })
            };
            let threads: Vec<_> = (0..self.count).map(start).collect();
            let window = measured();
            stop.0.store(true, Ordering::Release);
            for thread in threads {
                let done = thread.join().expect("the others find every mark");
                assert_eq!(done.operations, done.verified, "another thread lost work");
            }
            window
        })
    }
    /// Measures chunks of work on this thread's state while every other thread does the same with
    /// its own state. `make` creates the state of a thread by number; the measured thread has
    /// number 0.
    pub(super) fn alike<S>(
        &self,
        budget: Budget,
        make: impl Fn(u64) -> S + Sync,
        chunk: impl Fn(&mut S) -> Done + Sync,
    ) -> Window {
        self.beside(
            |number, stop| {
                let mut state = make(1 + number as u64);
                stop.until(|| chunk(&mut state))
            },
            || {
                let mut state = make(0);
                window::measure(budget, || chunk(&mut state))
            },
        )
    }
}
