//! Two threads in changing phases. First both work on small sets; then the first allocates blocks
//! that the second frees; then both allocate and free more blocks at once than an allocator keeps
//! for a CPU. All blocks have one size and so come from one cache. A cycle takes some milliseconds;
//! a sample has whole cycles.

use super::handover::{self, BURST, HEAD, Queue};
use super::heap::{Heap, Places};
use super::others::Others;
use super::window::{self, Budget, Done, Window};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const SET: usize = 64;
/// Replacements in the small set in a phase.
const REPLACEMENTS: usize = 32_768;
/// Bursts of heads with payloads that change hands in a phase.
const HANDED_BURSTS: usize = 512;
const LONG: usize = 16_384;
const LONG_BURSTS: usize = 8;
const BLOCKS: usize = 2 * REPLACEMENTS + 2 * HANDED_BURSTS * BURST + 2 * LONG * LONG_BURSTS;

/// The barrier at which the two threads meet between phases, and the queue from one to the other.
struct Shared {
    arrived: AtomicUsize,
    is_over: AtomicBool,
    queue: Queue,
}

struct Side<'a> {
    heap: Heap,
    shared: &'a Shared,
    number: usize,
    set: Places,
    long: Places,
    meetings: usize,
    passed: usize,
}

impl<'a> Side<'a> {
    fn new(heap: Heap, shared: &'a Shared, number: usize) -> Self {
        let (set, long) = (Places::empty(heap, SET), Places::empty(heap, LONG));
        Self { heap, shared, number, set, long, meetings: 0, passed: 0 }
    }

    /// Waits for the other thread. Returns false after the last cycle.
    fn meet(&mut self) -> bool {
        self.meetings += 1;
        self.shared.arrived.fetch_add(1, Ordering::AcqRel);
        let all = 2 * self.meetings;
        let is_here = || self.shared.arrived.load(Ordering::Acquire) >= all;
        handover::wait_until(|| is_here().then_some(()));
        !self.shared.is_over.load(Ordering::Acquire)
    }

    fn replace(&mut self) {
        for step in 0..REPLACEMENTS {
            self.set.replace(step * 37 % SET, HEAD);
        }
    }

    /// A phase in which blocks pass to the other thread. Returns when all have been freed.
    fn hand_over(&mut self) {
        let queue = &self.shared.queue;
        let all = self.passed + HANDED_BURSTS * BURST;
        while self.passed < all {
            if self.number == 0 {
                handover::send_burst(self.heap, queue, &mut self.passed, HEAD);
                continue;
            }
            let passed = self.passed;
            let sent = handover::wait_until(|| Some(queue.sent()).filter(|sent| *sent > passed));
            queue.free_up_to(self.heap, &mut self.passed, sent);
        }
        handover::wait_until(|| (queue.received() == all).then_some(()));
    }

    fn burst(&mut self) {
        for _ in 0..LONG_BURSTS {
            for (mark, block) in self.long.blocks.iter_mut().enumerate() {
                *block = Some(self.heap.allocate(HEAD, mark as u64));
            }
            for (mark, block) in self.long.blocks.iter_mut().enumerate() {
                self.heap.free(block.take().expect("just allocated"), mark as u64);
            }
        }
    }

    fn cycle(&mut self) {
        self.replace();
        self.meet();
        self.hand_over();
        self.meet();
        self.burst();
    }
}

pub(super) fn run(heap: Heap, budget: Budget, others: Others<'_>) -> Window {
    let shared = Shared {
        arrived: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        queue: Queue::new(),
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            others.pin(0);
            let mut side = Side::new(heap, &shared, 1);
            while side.meet() {
                side.cycle();
            }
        });
        let mut side = Side::new(heap, &shared, 0);
        let window = window::measure(budget, || {
            side.meet();
            side.cycle();
            // Every free has compared its block with the expected mark.
            Done { operations: BLOCKS as u64, verified: BLOCKS as u64 }
        });
        shared.is_over.store(true, Ordering::Release);
        side.meet();
        drop(side);
        other.join().expect("the other thread finds every mark");
        window
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn both_threads_do_whole_cycles() {
        let budget = Budget { warm_up: Duration::ZERO, measured: Duration::from_millis(1) };
        let window = run(Heap::of_this_process(), budget, Others { count: 1, cpus: &[] });
        assert!(window.operations >= BLOCKS as u64);
        assert!(window.operations.is_multiple_of(BLOCKS as u64));
        assert_eq!(window.verified, window.operations);
    }
}
