//! Large blocks come and go: each of a few is replaced by one of another size, and written.

use super::heap::{Block, Heap};
use super::window::{self, Budget, Done, Window};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::ops::RangeInclusive;

/// Sizes: those of `malloc-large` of mimalloc-bench, which replaces 20 of them.
const SIZES: RangeInclusive<usize> = 5 << 20..=25 << 20;
/// Bytes from one written place to the next: a page.
const STEP: usize = 4096;
/// Replacements per chunk, each with the page faults or the writes of thousands of pages.
const CHUNK: u64 = 4;

/// A block of `size` bytes with a mark in each page.
fn written(heap: Heap, size: usize, mark: u64) -> Block {
    let word = heap.allocate(size, mark).into_word();
    for at in (STEP..size).step_by(STEP) {
        // SAFETY: the block has `size` bytes and is known here alone.
        unsafe { ((word + at) as *mut u8).write_volatile(1) };
    }
    // SAFETY: the word is that of the block above, which is turned back once.
    unsafe { Block::from_word(word) }
}

/// Replaces a random one of `live` blocks, again and again. All are there before the clock starts.
pub(super) fn run(heap: Heap, budget: Budget, live: usize) -> Window {
    let mut random = StdRng::seed_from_u64(40_000);
    let mut blocks: Vec<_> = (0..live)
        .map(|mark| Some(written(heap, random.random_range(SIZES), mark as u64)))
        .collect();
    let window = window::measure(budget, || {
        let mut verified = 0;
        for _ in 0..CHUNK {
            let mark = random.random_range(0..live);
            let new = written(heap, random.random_range(SIZES), mark as u64);
            if let Some(old) = blocks[mark].replace(new) {
                heap.free(old, mark as u64);
                verified += 1;
            }
        }
        Done { operations: CHUNK, verified }
    });
    for (mark, block) in blocks.into_iter().enumerate() {
        block.into_iter().for_each(|block| heap.free(block, mark as u64));
    }
    window
}
