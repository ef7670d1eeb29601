//! Allocate a block, free it, again and again: the latency of the shortest path.

use super::heap::Heap;
use super::window::{self, Budget, Done, Window};

/// Pairs per chunk; about 10 us on a fast allocator.
const CHUNK: u64 = 4096;

pub(super) fn run(heap: Heap, budget: Budget, size: usize) -> Window {
    window::measure(budget, || {
        let mut verified = 0;
        for mark in 0..CHUNK {
            let block = heap.allocate(size, mark);
            heap.free(block, mark);
            verified += 1;
        }
        Done { operations: CHUNK, verified }
    })
}
