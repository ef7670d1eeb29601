//! All kinds of use at once: sizes from bytes to megabytes, short and long lives, and blocks that
//! another thread frees.

use super::heap::{Block, Heap, Places};
use super::others::Others;
use super::window::{Budget, Done, Window};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Blocks that a thread keeps, and places in which threads leave blocks for each other.
const OWN: usize = 1024;
const SHARED: usize = 256;
/// One block in this many goes through a shared place.
const SHARED_IN: u32 = 8;
const CHUNK: usize = 1024;

/// Of 1,000 sizes 900 are below 256 bytes, 90 below 32 KiB, 9 below 512 KiB, and 1 below 4 MiB.
fn draw_size(random: &mut StdRng) -> usize {
    match random.random_range(0..1000) {
        0 => random.random_range(512 << 10..4 << 20),
        1..10 => random.random_range(32 << 10..512 << 10),
        10..100 => random.random_range(256..32 << 10),
        _ => random.random_range(16..256),
    }
}

struct Mixer<'a> {
    heap: Heap,
    random: StdRng,
    own: Places,
    shared: &'a [AtomicUsize],
}

impl<'a> Mixer<'a> {
    fn new(heap: Heap, seed: u64, shared: &'a [AtomicUsize]) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let own = Places::new(heap, (0..OWN).map(|_| draw_size(&mut random)));
        Self { heap, random, own, shared }
    }

    fn chunk(&mut self) -> Done {
        let mut verified = 0;
        for _ in 0..CHUNK {
            let size = draw_size(&mut self.random);
            let old = if self.random.random_range(0..SHARED_IN) == 0 {
                let mark = self.random.random_range(0..SHARED);
                let block = self.heap.allocate(size, mark as u64);
                Some((exchange(&self.shared[mark], block), mark))
            } else {
                let mark = self.random.random_range(0..OWN);
                let block = self.heap.allocate(size, mark as u64);
                self.own.blocks[mark].replace(block).map(|old| (old, mark))
            };
            if let Some((old, mark)) = old {
                self.heap.free(old, mark as u64);
                verified += 1;
            }
        }
        Done { operations: CHUNK as u64, verified }
    }
}

fn exchange(place: &AtomicUsize, block: Block) -> Block {
    let word = place.swap(block.into_word(), Ordering::AcqRel);
    // SAFETY: a shared place always holds a block, and the thread that swaps it out is its only
    // owner.
    unsafe { Block::from_word(word) }
}

pub(super) fn run(heap: Heap, budget: Budget, others: Others<'_>) -> Window {
    let first = |mark| AtomicUsize::new(heap.allocate(64, mark as u64).into_word());
    let shared: Vec<AtomicUsize> = (0..SHARED).map(first).collect();
    let make = |number| Mixer::new(heap, 1 + number, &shared);
    let window = others.alike(budget, make, Mixer::chunk);
    for (mark, place) in shared.into_iter().enumerate() {
        // SAFETY: every place holds a block, and all threads have ended.
        heap.free(unsafe { Block::from_word(place.into_inner()) }, mark as u64);
    }
    window
}
