//! A heap that only grows.

use super::heap::Heap;
use super::watched;
use super::window::Done;
use anyhow::Result;
use nix::sys::resource::{UsageWho, getrusage};
use quarry_harness::launch::Work;
use quarry_harness::proc;
use quarry_harness::results::Measurement;
use serde::{Deserialize, Serialize};
use std::time::Instant;

#[derive(Serialize, Deserialize)]
pub(crate) struct GrowthSample {
    pub(crate) size: usize,
    pub(crate) mib: u64,
}

impl Work for GrowthSample {
    const NAME: &'static str = "growth";

    fn measure(self) -> Result<Measurement> {
        let heap = Heap::of_this_process();
        let bytes = (self.mib as usize) << 20;
        let (objects, mut verified) = ((bytes / self.size) as u64, 0);
        let start = Instant::now();
        for _ in 0..objects {
            // Never freed: the process ends after the measurement.
            let word = heap.allocate(self.size, 1).into_word();
            for at in (64..self.size).step_by(64) {
                // SAFETY: the block has `size` bytes, and only this loop uses it.
                unsafe { ((word + at) as *mut u8).write_volatile(1) };
            }
            verified += 1;
        }
        let wall = start.elapsed();
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let counters = [
            ("objects", objects),
            ("faults", usage.minor_page_faults() as u64),
            ("huge", proc::huge(std::process::id()).unwrap_or(0)),
            ("resident", watched::resident()),
        ];
        let done = Done { operations: (bytes >> 12) as u64, verified };
        watched::answer(heap, done, wall, &counters)
    }
}
