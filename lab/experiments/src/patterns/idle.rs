//! A heap that is filled with mixed objects, emptied, and then left idle.

use super::heap::Heap;
use super::watched::{self, Entry, Table};
use super::window::Done;
use anyhow::Result;
use clap::ValueEnum;
use quarry_harness::launch::Work;
use quarry_harness::results::Measurement;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::thread;
use std::time::{Duration, Instant};

/// The pause for a reading of the process's memory: before it allocates, and before it frees.
pub(crate) const BASE: Duration = Duration::from_millis(150);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub(crate) enum Sizes {
    /// As many objects of each power of two.
    Count,
    /// As many bytes of each power of two.
    Bytes,
    /// Those of [`PUBLISHED`], freed in the order in which they were made.
    Published,
}

/// Numbers of objects and their bytes in a test that other allocators publish
/// (zackees/mimalloc-pprof#334).
const PUBLISHED: [(usize, usize); 3] = [(150_000, 512), (100_000, 1024), (50_000, 2048)];

#[derive(Serialize, Deserialize)]
pub(crate) struct IdleSample {
    /// One object in this many survives; 0: no object does.
    pub(crate) survivors: usize,
    pub(crate) sizes: Sizes,
    pub(crate) mib: u64,
}

impl Work for IdleSample {
    const NAME: &'static str = "idle";

    fn measure(self) -> Result<Measurement> {
        watched::join_group()?;
        let heap = Heap::of_this_process();
        let most = self.mib << 20;
        watched::announce("base", &[]);
        thread::sleep(BASE);
        let start = Instant::now();
        // With `Sizes::Bytes` an object has at least 24 bytes on average.
        let mut table = Table::<Entry>::new((most / 24) as usize + (2 << 20));
        let count = self.fill(heap, most as usize, &mut table);
        let entries = &mut table[..count];
        if self.sizes != Sizes::Published {
            entries.shuffle(&mut StdRng::seed_from_u64(2));
        }
        let table_bytes = size_of_val(entries) as u64;
        watched::announce("full", &[table_bytes]);
        thread::sleep(BASE);
        let (mut live, mut verified) = (0, 0);
        for (number, entry) in entries.iter_mut().enumerate() {
            if self.survivors != 0 && number % self.survivors == 0 {
                live += entry.size as u64;
            } else {
                entry.free(heap);
            }
            verified += 1;
        }
        let wall = start.elapsed();
        watched::announce("idle", &[live, table_bytes]);
        watched::wait_for_the_end();
        let done = Done { operations: count as u64, verified };
        watched::answer(heap, done, wall, &[("live_bytes", live)])
    }
}

impl IdleSample {
    fn fill(&self, heap: Heap, most: usize, table: &mut Table<Entry>) -> usize {
        let mut random = StdRng::seed_from_u64(1);
        let (mut count, mut bytes) = (0, 0);
        if self.sizes == Sizes::Published {
            let all = PUBLISHED.iter().flat_map(|(count, size)| std::iter::repeat_n(*size, *count));
            for size in all {
                table[count] = Entry::allocate(heap, size);
                count += 1;
            }
            return count;
        }
        while bytes < most {
            let least = 16usize << random.random_range(0..16u32);
            let size = least + random.random_range(0..least);
            let pieces = if self.sizes == Sizes::Count { 1 } else { (1 << 20) / least };
            for _ in 0..pieces {
                table[count] = Entry::allocate(heap, size);
                count += 1;
                bytes += size;
            }
        }
        count
    }
}
