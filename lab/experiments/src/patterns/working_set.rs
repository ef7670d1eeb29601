//! Replaces random blocks of a working set of mixed sizes and lifetimes.

use super::heap::{Heap, Places};
use super::others::Others;
use super::window::{Budget, Done, Window};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const BLOCKS: usize = 10_000;
const SMALLEST: usize = 16;
/// Replacements that are drawn before the clock starts, and then repeated.
const SCRIPT: usize = 32_768;
/// Replacements per chunk. A chunk takes about 20 us on a fast allocator.
const CHUNK: usize = 2048;

const _: () = assert!(SCRIPT.is_multiple_of(CHUNK));

/// Replaces the block at `index` by one of `size` bytes.
#[derive(Clone, Copy)]
struct Replacement {
    index: u16,
    size: u16,
}

pub(super) struct WorkingSet {
    script: Vec<Replacement>,
    places: Places,
    position: usize,
}

impl WorkingSet {
    pub(super) fn new(heap: Heap, largest: usize, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let script = (0..SCRIPT)
            .map(|_| Replacement {
                index: random.random_range(0..BLOCKS as u16),
                size: draw_size(&mut random, largest),
            })
            .collect();
        let sizes = (0..BLOCKS).map(|_| draw_size(&mut random, largest).into());
        Self { script, places: Places::new(heap, sizes), position: 0 }
    }

    #[inline(always)]
    fn replace(&mut self, step: Replacement) -> u64 {
        self.places.replace(step.index.into(), step.size.into())
    }

    pub(super) fn chunk(&mut self) -> Done {
        self.chunk_with(|set, step| set.replace(step))
    }

    /// Runs a chunk whose replacements happen inside `observe`.
    pub(super) fn observed_chunk(&mut self, mut observe: impl FnMut(&mut dyn FnMut())) -> Done {
        self.chunk_with(|set, step| {
            let mut freed = 0;
            observe(&mut || freed += set.replace(step));
            freed
        })
    }

    fn chunk_with(&mut self, mut replace: impl FnMut(&mut Self, Replacement) -> u64) -> Done {
        let mut verified = 0;
        for position in self.position..self.position + CHUNK {
            let step = self.script[position];
            verified += replace(self, step);
        }
        self.position = (self.position + CHUNK) % SCRIPT;
        Done { operations: CHUNK as u64, verified }
    }
}

/// Measures one thread, while `others` do the same with their own blocks.
pub(super) fn run(heap: Heap, budget: Budget, largest: usize, others: Others<'_>) -> Window {
    let make = |number| WorkingSet::new(heap, largest, 10_000 + number);
    others.alike(budget, make, WorkingSet::chunk)
}

/// A random size, logarithmically uniform from [`SMALLEST`] to `largest`: many small blocks, as in
/// programs, and few large ones that hold most of the memory.
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
        // Each of the 11 doublings from 16 to 32768 has one size in eleven.
        for doubling in 4..15 {
            let of = sizes.iter().filter(|size| size.ilog2() == doubling).count();
            assert!((750..1100).contains(&of), "{of} sizes from 2^{doubling}");
        }
    }
}
