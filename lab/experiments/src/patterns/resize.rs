//! Blocks that grow, and large blocks that must be zero.

use super::heap::Heap;
use super::window::{self, Budget, Done, Window};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Steps {
    /// From 16 bytes to 16 KiB, 16 at a time: a string that is appended to.
    Small,
    /// From 16 bytes to 64 MiB, by half of its size: a vector.
    Geometric,
    /// From 4 KiB to 64 MiB, a page at a time: a file that is read in.
    Pages,
}

const SMALL_END: usize = 16 << 10;
const LARGE_END: usize = 64 << 20;
pub(super) const PAGE: usize = 4096;

impl Steps {
    fn first(self) -> usize {
        match self {
            Self::Small | Self::Geometric => 16,
            Self::Pages => PAGE,
        }
    }

    fn next(self, size: usize) -> Option<usize> {
        let (next, end) = match self {
            Self::Small => (size + 16, SMALL_END),
            Self::Geometric => ((size + size / 2).next_multiple_of(8), LARGE_END),
            Self::Pages => (size + PAGE, LARGE_END),
        };
        (next <= end).then_some(next)
    }
}

/// Grows a block through all `steps` and frees it. Operation: one realloc, verified by the word
/// that was at the end of the block before it grew.
pub(super) fn run_realloc(heap: Heap, budget: Budget, steps: Steps) -> Window {
    window::measure(budget, || {
        let mut size = steps.first();
        let mut block = heap.allocate(size, 1);
        let (mut operations, mut verified) = (0, 0);
        while let Some(next) = steps.next(size) {
            // SAFETY: the block has `size` bytes, a multiple of 8 and at least 16.
            unsafe { block.write(size - 8, size as u64) };
            block = heap.reallocate(block, next);
            operations += 1;
            // SAFETY: the block has more than `size` bytes; realloc keeps what was written.
            verified += u64::from(unsafe { block.read(size - 8) } == size as u64);
            size = next;
        }
        heap.free(block, 1);
        Done { operations, verified }
    })
}

/// Allocates zeroed blocks, reads every page of each and writes there. Operation: one block.
pub(super) fn run_calloc(heap: Heap, budget: Budget, size: usize) -> Window {
    // The number of blocks for a chunk that is long enough to be timed.
    let blocks = ((1 << 20) / size).max(1) as u64;
    window::measure(budget, || {
        let mut verified = 0;
        for mark in 1..=blocks {
            let mut block = heap.allocate_zeroed(size);
            let mut is_zero = true;
            for offset in (0..size).step_by(PAGE).chain([size - 8]) {
                // SAFETY: offsets are multiples of 8 below `size`, and the block was zeroed.
                unsafe {
                    is_zero &= block.read(offset) == 0;
                    block.write(offset, mark);
                }
            }
            heap.free(block, mark);
            verified += u64::from(is_zero);
        }
        Done { operations: blocks, verified }
    })
}
