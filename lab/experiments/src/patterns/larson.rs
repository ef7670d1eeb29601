//! A server whose threads end and leave their blocks to successors, so that threads free memory
//! which others allocated (after the benchmark of Larson and Krishnan, 1998).

use super::heap::{Heap, Places};
use super::others::Others;
use super::window::{Budget, Done, Window};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::thread;

const BLOCKS: usize = 1000;
const SIZES: std::ops::Range<usize> = 8..1000;
const LIFE: usize = 10_000;

/// The blocks that a thread leaves to its successor.
struct Estate {
    places: Places,
    random: StdRng,
}

impl Estate {
    fn new(heap: Heap, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let sizes = (0..BLOCKS).map(|_| random.random_range(SIZES));
        Self { places: Places::new(heap, sizes), random }
    }

    fn replace(&mut self) -> Done {
        let mut verified = 0;
        for _ in 0..LIFE {
            let mark = self.random.random_range(0..BLOCKS);
            verified += self.places.replace(mark, self.random.random_range(SIZES));
        }
        Done { operations: LIFE as u64, verified }
    }
}

/// Runs every chunk in a new thread.
pub(super) fn run(heap: Heap, budget: Budget, others: Others<'_>) -> Window {
    let generation = |estate: &mut Estate| {
        thread::scope(|scope| scope.spawn(|| estate.replace()).join())
            .expect("every mark was found")
    };
    others.alike(budget, |number| Estate::new(heap, 1 + number), generation)
}
