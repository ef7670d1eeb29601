//! Replace random blocks of a working set: sizes mixed, lifetimes without order.

use super::heap::{Block, Heap};
use super::window::{self, Budget, Done, Window};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Blocks that live at once.
const BLOCKS: usize = 10_000;
/// Smallest block.
const SMALLEST: usize = 16;
/// Replacements that are drawn before the clock starts, and then repeated.
const SCRIPT: usize = 32_768;
/// Replacements per chunk; about 20 us on a fast allocator.
const CHUNK: usize = 2048;

const _: () = assert!(SCRIPT.is_multiple_of(CHUNK));

/// Replace the block at `index` by one of `size` bytes.
#[derive(Clone, Copy)]
struct Replacement {
    index: u16,
    size: u16,
}

pub(super) fn run(heap: Heap, budget: Budget, largest: usize) -> Window {
    let mut random = StdRng::seed_from_u64(10_000);
    let script: Vec<Replacement> = (0..SCRIPT)
        .map(|_| Replacement {
            index: random.random_range(0..BLOCKS as u16),
            size: draw_size(&mut random, largest),
        })
        .collect();
    let mut blocks: Vec<Option<Block>> = (0..BLOCKS)
        .map(|index| Some(heap.allocate(draw_size(&mut random, largest).into(), index as u64)))
        .collect();
    let mut position = 0;
    let window = window::measure(budget, || {
        let mut verified = 0;
        for step in &script[position..position + CHUNK] {
            let place = &mut blocks[usize::from(step.index)];
            if let Some(old) = place.take() {
                heap.free(old, step.index.into());
                verified += 1;
            }
            *place = Some(heap.allocate(step.size.into(), step.index.into()));
        }
        position = (position + CHUNK) % SCRIPT;
        Done { operations: CHUNK as u64, verified }
    });
    for (index, block) in blocks.into_iter().enumerate() {
        if let Some(block) = block {
            heap.free(block, index as u64);
        }
    }
    window
}

/// A size with a logarithm that is uniform between those of [`SMALLEST`] and `largest`: as many
/// small blocks as programs have, and a few large ones that hold most of the memory.
fn draw_size(random: &mut StdRng, largest: usize) -> u16 {
    let (low, high) = ((SMALLEST as f64).ln(), (largest as f64).ln());
    let size = random.random_range(low..=high).exp().round() as usize;
    size.clamp(SMALLEST, largest) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_spread_over_the_whole_range() {
        let mut random = StdRng::seed_from_u64(1);
        let sizes: Vec<u16> = (0..10_000).map(|_| draw_size(&mut random, 32768)).collect();
        assert!(sizes.iter().all(|size| (16..=32768).contains(size)));
        // 11 doublings from 16 to 32768: each holds one in eleven.
        for doubling in 4..15 {
            let of = sizes.iter().filter(|size| size.ilog2() == doubling).count();
            assert!((750..1100).contains(&of), "{of} sizes from 2^{doubling}");
        }
    }
}
