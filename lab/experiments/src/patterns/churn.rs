//! An imitation of a server's week: phases of different sizes, and threads that come and go.

use super::heap::Heap;
use super::watched::{self, Entry, Table};
use super::window::Done;
use anyhow::Result;
use quarry_harness::launch::Work;
use quarry_harness::results::Measurement;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::thread;
use std::time::{Duration, Instant};

const LIVE_BYTES: usize = 64 << 20;
const SLOTS: usize = 1 << 20;
/// Threads of a phase, and blocks that each of them allocates.
const THREADS: u64 = 4;
const BLOCKS_OF_THREAD: usize = 20_000;

#[derive(Serialize, Deserialize)]
pub(crate) struct ChurnSample {
    pub(crate) seconds: u64,
}

#[derive(Default)]
struct Churned {
    allocated: u64,
    /// Blocks that still had the mark of their allocation.
    freed: u64,
    live: usize,
}

/// Smallest and largest sizes of the families; each doubling of the size is equally likely.
const FAMILIES: [(usize, usize); 6] =
    [(16, 256), (256, 4096), (16, 65_536), (4096, 32_768), (65_536, 1 << 20), (64, 1024)];

fn size_of_family(random: &mut StdRng, (smallest, largest): (usize, usize)) -> usize {
    let doublings = (largest / smallest).ilog2();
    let least = smallest << random.random_range(0..doublings);
    least + random.random_range(0..least)
}

impl Work for ChurnSample {
    const NAME: &'static str = "churn";

    fn measure(self) -> Result<Measurement> {
        // The alarm that usually limits a sample would end a long run.
        nix::unistd::alarm::set(self.seconds as u32 * 3 + 60);
        watched::join_group()?;
        let heap = Heap::of_this_process();
        let mut table = Table::<Entry>::new(SLOTS);
        table.fill_with(Entry::default);
        let base = watched::resident();
        let mut random = StdRng::seed_from_u64(1);
        let (start, mut phase) = (Instant::now(), 0u64);
        let mut churned = Churned::default();
        let end = Duration::from_secs(self.seconds);
        while start.elapsed() < end {
            let family = FAMILIES[phase as usize % FAMILIES.len()];
            let threads: Vec<_> = (0..THREADS)
                .map(|number| thread::spawn(move || short_life(heap, phase, number)))
                .collect();
            replace(heap, &mut table, &mut churned, family, &mut random);
            for thread in threads {
                churned.allocated += BLOCKS_OF_THREAD as u64;
                churned.freed += thread.join().expect("a thread of the churn does not panic");
            }
            phase += 1;
            let resident = watched::resident().saturating_sub(base);
            watched::announce("phase", &[phase, churned.live as u64, resident]);
        }
        let wall = start.elapsed();
        watched::announce("idle", &[]);
        watched::wait_for_the_end();
        churned.freed += table.iter_mut().filter_map(|entry| entry.free(heap)).count() as u64;
        let done = Done { operations: phase, verified: churned.freed };
        watched::answer(heap, done, wall, &[("blocks", churned.allocated)])
    }
}

/// Frees a random half of the live blocks, and allocates blocks of `family` in their place.
fn replace(
    heap: Heap,
    table: &mut [Entry],
    churned: &mut Churned,
    family: (usize, usize),
    random: &mut StdRng,
) {
    for entry in table.iter_mut().filter(|entry| !entry.is_empty()) {
        if random.random_range(0..2) == 0 {
            churned.live -= entry.free(heap).unwrap_or(0);
            churned.freed += 1;
        }
    }
    for entry in table.iter_mut().filter(|entry| entry.is_empty()) {
        let size = size_of_family(random, family);
        if churned.live + size > LIVE_BYTES {
            break;
        }
        *entry = Entry::allocate(heap, size);
        churned.allocated += 1;
        churned.live += size;
    }
}

/// Runs a thread with a working set, which it frees at its end. Returns the number of freed blocks
/// that had kept their mark.
fn short_life(heap: Heap, phase: u64, number: u64) -> u64 {
    let mut random = StdRng::seed_from_u64(phase * THREADS + number);
    let mut own: [Entry; 256] = std::array::from_fn(|_| Entry::default());
    let mut freed = 0;
    for _ in 0..BLOCKS_OF_THREAD {
        let slot = &mut own[random.random_range(0..256)];
        freed += u64::from(slot.free(heap).is_some());
        *slot = Entry::allocate(heap, size_of_family(&mut random, (16, 8192)));
    }
    freed + own.iter_mut().filter_map(|slot| slot.free(heap)).count() as u64
}
