//! A heap that grows, for the first time or after it has grown and shrunk.

use super::heap::{Block, Heap};
use super::watched::{self, Table};
use super::window::Done;
use anyhow::Result;
use quarry_harness::launch::Work;
use quarry_harness::proc;
use quarry_harness::results::Measurement;
use serde::{Deserialize, Serialize};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Serialize, Deserialize)]
pub(crate) struct GrowthSample {
    pub(crate) size: usize,
    pub(crate) mib: u64,
    /// Which growth is measured, from 1 on.
    pub(crate) burst: u64,
    /// Milliseconds between the last free after a growth and the next growth.
    pub(crate) rest: u64,
}

impl Work for GrowthSample {
    const NAME: &'static str = "growth";

    fn measure(self) -> Result<Measurement> {
        let heap = Heap::of_this_process();
        let bytes = (self.mib as usize) << 20;
        let (objects, mut verified) = (bytes / self.size, 0);
        for _ in 1..self.burst {
            let mut words = Table::new(objects);
            words.iter_mut().for_each(|word| *word = self.written(heap));
            for word in words.iter() {
                // SAFETY: the word is that of a block that nothing else uses.
                heap.free(unsafe { Block::from_word(*word) }, 1);
            }
            thread::sleep(Duration::from_millis(self.rest));
        }
        let before = if self.burst > 1 { watched::minor_faults()? } else { 0 };
        let start = Instant::now();
        for _ in 0..objects {
            // Never freed: the process ends afterwards.
            self.written(heap);
            verified += 1;
        }
        let wall = start.elapsed();
        let counters = [
            ("objects", objects as u64),
            ("faults", watched::minor_faults()? - before),
            ("huge", proc::huge(std::process::id()).unwrap_or(0)),
            ("resident", watched::resident()),
        ];
        let done = Done { operations: (bytes >> 12) as u64, verified };
        watched::answer(heap, done, wall, &counters)
    }
}

impl GrowthSample {
    /// Allocates a block, writes to each of its cache lines, and returns the block as a word.
    fn written(&self, heap: Heap) -> usize {
        let word = heap.allocate(self.size, 1).into_word();
        for at in (64..self.size).step_by(64) {
            // SAFETY: the block has `size` bytes, and nothing else uses it yet.
            unsafe { ((word + at) as *mut u8).write_volatile(1) };
        }
        word
    }
}
