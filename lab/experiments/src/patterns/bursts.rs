//! A heap that is filled and emptied again and again, with rests in between.

use super::heap::Heap;
use super::watched::{self, Entry, Table};
use super::window::Done;
use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use quarry_harness::launch::Work;
use quarry_harness::results::Measurement;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

#[derive(Serialize, Deserialize)]
pub(crate) struct BurstsSample {
    /// Number of bursts; only the last is measured.
    pub(crate) bursts: u64,
    /// MiB of each burst.
    pub(crate) mib: u64,
    pub(crate) largest: usize,
    /// Milliseconds from the end of a burst to the next, and to the last reading of memory.
    pub(crate) rest: u64,
}

const SMALLEST: usize = 16;

impl Work for BurstsSample {
    const NAME: &'static str = "bursts";

    fn measure(self) -> Result<Measurement> {
        let heap = Heap::of_this_process();
        let most = (self.mib as usize) << 20;
        let mean = usize::midpoint(SMALLEST, self.largest);
        // The mean of the drawn sizes is near the expected one: half as many entries more suffice.
        let mut table = Table::<Entry>::new(most / mean * 3 / 2 + 1024);
        // Brings the table into memory before the first burst.
        table.iter_mut().for_each(|entry| *entry = Entry::EMPTY);
        let mut random = StdRng::seed_from_u64(1);
        for _ in 1..self.bursts {
            let count = self.fill(heap, most, &mut table, &mut random)?;
            empty(heap, &mut table[..count]);
            thread::sleep(Duration::from_millis(self.rest));
        }
        let faults_before = faults()?;
        let start = Instant::now();
        let count = self.fill(heap, most, &mut table, &mut random)?;
        let filled = start.elapsed();
        let (faults, huge) = (faults()? - faults_before, huge_bytes()?);
        let start = Instant::now();
        let verified = empty(heap, &mut table[..count]);
        let wall = filled + start.elapsed();
        thread::sleep(Duration::from_millis(self.rest));
        let counters = [
            ("objects", count as u64),
            ("faults", faults),
            ("huge", huge),
            ("resident", watched::resident()),
        ];
        let done = Done { operations: count as u64, verified };
        watched::answer(heap, done, wall, &counters)
    }
}

impl BurstsSample {
    /// Allocates and writes objects of random sizes up to `most` bytes. Returns their number.
    fn fill(
        &self,
        heap: Heap,
        most: usize,
        table: &mut [Entry],
        random: &mut StdRng,
    ) -> Result<usize> {
        let (mut count, mut bytes) = (0, 0);
        while bytes < most {
            let size = random.random_range(SMALLEST..=self.largest);
            *table.get_mut(count).context("smaller objects than expected")? =
                Entry::allocate(heap, size);
            count += 1;
            bytes += size;
        }
        Ok(count)
    }
}

fn empty(heap: Heap, entries: &mut [Entry]) -> u64 {
    entries.iter_mut().filter_map(|entry| entry.free(heap)).count() as u64
}

fn faults() -> Result<u64> {
    Ok(getrusage(UsageWho::RUSAGE_SELF)?.minor_page_faults() as u64)
}

fn huge_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup").context("no smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")).unwrap_or("0");
    Ok(kib.parse::<u64>().context("AnonHugePages is no number")? << 10)
}
