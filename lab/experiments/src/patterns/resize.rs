//! Blocks that grow, large blocks that must be zero, and large blocks that are replaced.

use super::heap::{Heap, Places};
use super::window::{self, Budget, Done, Window};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

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
const PAGE: usize = 4096;

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

/// The sizes of `malloc-large` of mimalloc-bench, which replaces 20 blocks.
const SIZES: RangeInclusive<usize> = 5 << 20..=25 << 20;
/// Replacements per chunk. Each causes page faults or writes of thousands of pages.
const CHUNK: u64 = 4;

/// Puts a new block of `size` bytes into a place and writes each page of it, then frees the old
/// block. Returns the number of freed blocks.
fn replace(heap: Heap, places: &mut Places, mark: usize, size: usize) -> u64 {
    let mut new = heap.allocate(size, mark as u64);
    for offset in (PAGE..=size - size_of::<u64>()).step_by(PAGE) {
        // SAFETY: offsets are multiples of 8, and the block has a word at each.
        unsafe { new.write(offset, 1) };
    }
    let old = places.blocks[mark].replace(new);
    old.map_or(0, |old| {
        heap.free(old, mark as u64);
        1
    })
}

/// Replaces a random one of `live` blocks, again and again. All are allocated before the clock
/// starts.
pub(super) fn run_large(heap: Heap, budget: Budget, live: usize) -> Window {
    let mut random = StdRng::seed_from_u64(40_000);
    let mut places = Places::new(heap, std::iter::repeat_n(size_of::<u64>(), live));
    for mark in 0..live {
        replace(heap, &mut places, mark, random.random_range(SIZES));
    }
    window::measure(budget, || {
        let mut verified = 0;
        for _ in 0..CHUNK {
            let mark = random.random_range(0..live);
            verified += replace(heap, &mut places, mark, random.random_range(SIZES));
        }
        Done { operations: CHUNK, verified }
    })
}
