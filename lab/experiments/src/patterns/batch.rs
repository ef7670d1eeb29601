//! Allocates many blocks of one size, then frees all: objects pass through every layer, both ways.

use super::heap::{Block, Heap};
use super::window::{self, Budget, Done, Window};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FreeOrder {
    Lifo,
    Fifo,
    /// In a random order, which is the same for the whole sample.
    Shuffled,
}

const BLOCKS: usize = 1000;

pub(super) fn run(heap: Heap, budget: Budget, size: usize, order: FreeOrder) -> Window {
    let mut blocks: Vec<Option<Block>> = (0..BLOCKS).map(|_| None).collect();
    let mut shuffled: Vec<usize> = (0..BLOCKS).collect();
    shuffled.shuffle(&mut StdRng::seed_from_u64(BLOCKS as u64));
    window::measure(budget, || {
        for (mark, block) in blocks.iter_mut().enumerate() {
            *block = Some(heap.allocate(size, mark as u64));
        }
        let mut verified = 0;
        let free = |mark: usize| {
            if let Some(block) = blocks[mark].take() {
                heap.free(block, mark as u64);
                verified += 1;
            }
        };
        match order {
            FreeOrder::Fifo => (0..BLOCKS).for_each(free),
            FreeOrder::Lifo => (0..BLOCKS).rev().for_each(free),
            FreeOrder::Shuffled => shuffled.iter().copied().for_each(free),
        }
        Done { operations: BLOCKS as u64, verified }
    })
}
