//! A heap that only grows.

use super::heap::Heap;
use super::watched;
use crate::recording::Measurement;
use anyhow::Result;
use clap::Args;
use nix::sys::resource::{UsageWho, getrusage};
use std::time::Instant;

/// One sample, taken in a process of its own.
#[derive(Args)]
pub(crate) struct GrowthSample {
    #[arg(long)]
    size: usize,
    #[arg(long)]
    mib: u64,
}

impl GrowthSample {
    /// Grows.
    pub(crate) fn measure(self) -> Result<Measurement> {
        let heap = Heap::of_this_process();
        let count = (self.mib as usize) << 20;
        let start = Instant::now();
        for _ in 0..count / self.size {
            // Never freed: the process ends with it.
            let word = heap.allocate(self.size, 1).into_word();
            for at in (64..self.size).step_by(64) {
                // SAFETY: the block has `size` bytes and nobody else knows it.
                unsafe { ((word + at) as *mut u8).write_volatile(1) };
            }
        }
        let wall = start.elapsed();
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let counters =
            [("faults", usage.minor_page_faults() as u64), ("resident", watched::resident())];
        watched::answer(heap, (count >> 12) as u64, wall, &counters)
    }
}
