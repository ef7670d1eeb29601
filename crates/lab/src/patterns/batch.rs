//! Allocate many blocks of one size, then free them all: the way in and out of every cache.

use super::FreeOrder;
use super::heap::{Block, Heap};
use super::window::{self, Budget, Done, Window};

/// Blocks that live at once.
const BLOCKS: usize = 1000;

pub(super) fn run(heap: Heap, budget: Budget, size: usize, order: FreeOrder) -> Window {
    let mut blocks: Vec<Option<Block>> = Vec::new();
    blocks.resize_with(BLOCKS, || None);
    window::measure(budget, || {
        for (mark, block) in blocks.iter_mut().enumerate() {
            *block = Some(heap.allocate(size, mark as u64));
        }
        let mut verified = 0;
        let free = |(mark, block): (usize, &mut Option<Block>)| {
            if let Some(block) = block.take() {
                heap.free(block, mark as u64);
                verified += 1;
            }
        };
        match order {
            FreeOrder::Fifo => blocks.iter_mut().enumerate().for_each(free),
            FreeOrder::Lifo => blocks.iter_mut().enumerate().rev().for_each(free),
        }
        Done { operations: BLOCKS as u64, verified }
    })
}
