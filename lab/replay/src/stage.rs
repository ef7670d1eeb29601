//! A meeting point for the threads of a replay and the thread that measures them. They meet before
//! and after each measured part, so that no message is in flight while counters are read.

use crate::host::{Barrier, Moment, Mutex, cpu_ns};
use crate::memory::{Counters, KernelMemory};
use std::time::Duration;

/// Threads that wait for orders of type `O`.
pub struct Stage<O> {
    barrier: Barrier,
    order: Mutex<Option<O>>,
}

/// The scale of a replay, and its CPUs.
#[derive(Clone, Copy, Debug)]
pub struct Scale<'a> {
    /// Number of tasks that run at once.
    pub tasks: usize,
    /// The CPUs, which are given to tasks in turn.
    pub cpus: &'a [usize],
    /// Length of the warm-up.
    pub warm_up: Duration,
    /// Length of the measurement, unless the amount of work is fixed.
    pub measured: Duration,
}

/// The result of a replay.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that were received with their payload intact.
    pub verified: u64,
    /// Messages per second, if each task runs at its own pace: the sum of all tasks' rates, each
    /// over that task's own time. 0 for other replays.
    pub rate: u64,
    /// Wall-clock time.
    pub wall_ns: u64,
    /// CPU time of the process, or of all CPUs of a simulated machine, in nanoseconds.
    pub cpu_ns: u64,
    /// Counts of the memory during the measurement.
    pub counters: Counters,
    /// Time that each message took, in nanoseconds, ascending; empty if not measured.
    pub latencies: Vec<u64>,
}

impl Replayed {
    /// Adds another part of the replay, as far as a stage has observed it.
    pub fn add(&mut self, part: &Self) {
        self.wall_ns += part.wall_ns;
        self.cpu_ns += part.cpu_ns;
        self.counters = self.counters.plus(part.counters);
    }
}

impl<O: Copy> Stage<O> {
    /// Makes a stage for `threads` threads.
    pub fn new(threads: usize) -> Self {
        Self { barrier: Barrier::new(threads + 1), order: Mutex::new(None) }
    }

    fn set(&self, order: Option<O>) {
        *self.order.lock() = order;
        self.barrier.wait();
    }

    /// Lets all threads carry out an order and waits for all of them. Returns times and counts.
    pub fn conduct<M: KernelMemory>(&self, memory: &M, order: O) -> Replayed {
        let (before, cpu_before, start) = (memory.counters(), cpu_ns(), Moment::now());
        self.set(Some(order));
        self.barrier.wait();
        Replayed {
            wall_ns: start.elapsed().as_nanos() as u64,
            cpu_ns: cpu_ns() - cpu_before,
            counters: memory.counters().since(before),
            ..Replayed::default()
        }
    }

    /// Tells the threads that no order will follow.
    pub fn end(&self) {
        self.set(None);
    }

    /// Calls `carry_out` with each order that arrives, until the last one.
    pub fn follow(&self, mut carry_out: impl FnMut(O)) {
        loop {
            self.barrier.wait();
            let order = *self.order.lock();
            let Some(order) = order else { return };
            carry_out(order);
            self.barrier.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{scope, spawn};
    use crate::memory::tests::Uncached;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn orders_are_carried_out_by_all_before_the_next() {
        let (stage, sum, memory) = (Stage::new(3), AtomicU64::new(0), Uncached::default());
        scope(|scope| {
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
