//! Where the threads of a replay and the one that measures them meet: before and after everything
//! that is measured, so that nothing is in flight while counters are read.

use super::memory::{Counters, KernelMemory};
use crate::patterns::window::process_cpu_ns;
use quarry_harness::affinity;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Stack of a thread: there can be hundreds, and none of them goes deep.
const STACK_BYTES: usize = 256 << 10;

/// Threads that wait for orders of type `O`.
pub(crate) struct Stage<O> {
    barrier: Barrier,
    order: Mutex<Option<O>>,
}

/// Observations while an order was carried out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observed {
    pub(crate) wall: Duration,
    pub(crate) cpu_ns: u64,
    pub(crate) counters: Counters,
}

/// The scale of a replay, and its CPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale<'a> {
    /// Tasks at once.
    pub(crate) tasks: usize,
    /// CPUs that are used in turn.
    pub(crate) cpus: &'a [usize],
    /// Length of the warm-up.
    pub(crate) warm_up: Duration,
    /// Length of the measurement, where there is no fixed amount of work.
    pub(crate) measured: Duration,
}

/// The result of a replay.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replayed {
    /// Messages that were sent.
    pub(crate) sent: u64,
    /// Messages that were received with their payload intact.
    pub(crate) verified: u64,
    /// Messages that found no room.
    pub(crate) lost: u64,
    /// Wall-clock time.
    pub(crate) wall_ns: u64,
    /// CPU time of the process.
    pub(crate) cpu_ns: u64,
    /// Counts of the memory meanwhile.
    pub(crate) counters: Counters,
    /// Time that each message took, in nanoseconds, ascending; empty where it is not measured.
    pub(crate) latencies: Vec<u64>,
}

impl Replayed {
    /// Adds what was observed to the account.
    pub(crate) fn add(&mut self, observed: Observed) {
        self.wall_ns += observed.wall.as_nanos() as u64;
        self.cpu_ns += observed.cpu_ns;
        self.counters = self.counters.plus(observed.counters);
    }
}

impl<O: Copy> Stage<O> {
    /// Makes one for `threads` threads that take orders.
    pub(crate) fn new(threads: usize) -> Self {
        Self { barrier: Barrier::new(threads + 1), order: Mutex::new(None) }
    }

    fn set(&self, order: Option<O>) {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner) = order;
        self.barrier.wait();
    }

    /// Lets all threads carry out an order, and waits until they have.
    pub(crate) fn conduct<M: KernelMemory>(&self, memory: &M, order: O) -> Observed {
        let (before, cpu_before, start) = (memory.counters(), process_cpu_ns(), Instant::now());
        self.set(Some(order));
        self.barrier.wait();
        Observed {
            wall: start.elapsed(),
            cpu_ns: process_cpu_ns() - cpu_before,
            counters: memory.counters().since(before),
        }
    }

    /// Tells the threads that no order will follow.
    pub(crate) fn end(&self) {
        self.set(None);
    }

    /// Calls `carry_out` with one order after the other, in a thread that takes them.
    pub(crate) fn follow(&self, mut carry_out: impl FnMut(O)) {
        loop {
            self.barrier.wait();
            let order = *self.order.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(order) = order else { return };
            carry_out(order);
            self.barrier.wait();
        }
    }
}

/// Starts a thread on the `index`th of `cpus`, or on the one that comes round to it; anywhere where
/// there are none.
///
/// # Panics
/// If the thread cannot be started, or the CPU is not ours to use.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    cpus: &[usize],
    index: usize,
    run: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let cpu = cpus.get(index % cpus.len().max(1)).copied();
    let body = move || {
        if let Some(cpu) = cpu {
            affinity::pin(cpu).expect("the CPU is one of those allowed");
        }
        run()
    };
    Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, body).expect("a thread can start")
}

#[cfg(test)]
mod tests {
    use super::super::memory::tests::Uncached;
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::thread;

    #[test]
    fn orders_are_carried_out_by_all_before_the_next() {
        let (stage, sum, memory) = (Stage::new(3), AtomicU64::new(0), Uncached::default());
        thread::scope(|scope| {
            for index in 0..3 {
                let (stage, sum, memory) = (&stage, &sum, &memory);
                spawn(scope, &[], index, move || {
                    stage.follow(|number: u64| {
                        sum.fetch_add(number, Relaxed);
                        memory.free(8, memory.alloc(8).unwrap());
                    });
                });
            }
            for (number, expected) in [(1, 3), (10, 33)] {
                let observed = stage.conduct(&memory, number);
                assert_eq!(sum.load(Relaxed), expected);
                assert_eq!(observed.counters.zone_allocs, 3);
            }
            stage.end();
        });
    }
}
