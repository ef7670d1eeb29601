//! Replaces one of a few large blocks by a large block of another size, and writes to the new one.

use super::heap::{Heap, Places};
use super::resize::PAGE;
use super::window::{self, Budget, Done, Window};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::ops::RangeInclusive;

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
pub(super) fn run(heap: Heap, budget: Budget, live: usize) -> Window {
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
