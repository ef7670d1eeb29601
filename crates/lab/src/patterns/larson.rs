//! A server whose threads end and leave their blocks to successors (after the benchmark of Larson
//! and Krishnan, 1998: memory is freed by other threads than those that allocated it).

use super::heap::{Block, Heap};
use super::others::Others;
use super::window::{self, Budget, Done, Window};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::thread;

/// Blocks of one thread, and their sizes.
const BLOCKS: usize = 1000;
const SIZES: std::ops::Range<usize> = 8..1000;
/// Replacements in the life of a thread.
const LIFE: usize = 10_000;

/// The blocks that are left to a successor.
struct Estate {
    blocks: Vec<Option<Block>>,
    random: StdRng,
}

impl Estate {
    fn new(heap: Heap, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let allocate = |mark| Some(heap.allocate(random.random_range(SIZES), mark as u64));
        Self { blocks: (0..BLOCKS).map(allocate).collect(), random }
    }

    /// The life of one thread.
    fn replace(&mut self, heap: Heap) -> Done {
        let mut verified = 0;
        for _ in 0..LIFE {
            let mark = self.random.random_range(0..BLOCKS);
            if let Some(old) = self.blocks[mark].take() {
                heap.free(old, mark as u64);
                verified += 1;
            }
            let size = self.random.random_range(SIZES);
            self.blocks[mark] = Some(heap.allocate(size, mark as u64));
        }
        Done { operations: LIFE as u64, verified }
    }

    fn settle(mut self, heap: Heap) {
        for (mark, place) in self.blocks.iter_mut().enumerate() {
            if let Some(block) = place.take() {
                heap.free(block, mark as u64);
            }
        }
    }
}

/// Every chunk is a thread of its own. An operation is one replacement.
pub(super) fn run(heap: Heap, budget: Budget, others: Others<'_>) -> Window {
    let generation = |estate: &mut Estate| {
        thread::scope(|scope| scope.spawn(|| estate.replace(heap)).join())
            .expect("every mark was found")
    };
    others.beside(
        |number, stop| {
            let mut estate = Estate::new(heap, 2 + number as u64);
            let done = stop.until(|| generation(&mut estate));
            estate.settle(heap);
            done
        },
        || {
            let mut estate = Estate::new(heap, 1);
            let window = window::measure(budget, || generation(&mut estate));
            estate.settle(heap);
            window
        },
    )
}
