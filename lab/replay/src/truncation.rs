//! Truncation of a file whose pages another CPU has brought into the page cache. The cache lines of
//! the pages' descriptors, lists and index are then in the caches of that CPU or its node.

use crate::file_cache::FileCache;
use crate::host::{self, Moment, spawn};
use std::time::Duration;

/// The CPU that fills a file and the CPU that truncates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Pages of the file.
    pub pages: u64,
    /// Number of times that the file is filled and truncated before the measured truncation.
    pub warm_ups: u32,
    /// The CPU of the task that reads all pages.
    pub filler: usize,
    /// The CPU of the task that truncates the file.
    pub truncater: usize,
}

impl Truncation {
    /// Returns the time of the last truncation. O(pages), times the number of truncations.
    ///
    /// # Panics
    /// If there is no memory left, or a CPU is not ours to use.
    pub fn run<M: FileCache>(self, memory: &M) -> Duration {
        let mapping = memory.create_mapping();
        let mut took = Duration::ZERO;
        for _ in 0..=self.warm_ups {
            on_cpu(self.filler, || {
                for index in 0..self.pages {
                    let mut filled = false;
                    memory.read(mapping, index, &mut |_| filled = true, &mut |_| ());
                    assert!(filled, "page {index} is read again after a truncation");
                }
            });
            took = on_cpu(self.truncater, || {
                let start = Moment::now();
                memory.truncate(mapping, 0);
                start.elapsed()
            });
        }
        memory.destroy_mapping(mapping);
        took
    }
}

/// Runs `work` in a task on this CPU, and returns its result.
fn on_cpu<T: Send>(cpu: usize, work: impl FnOnce() -> T + Send) -> T {
    host::scope(|scope| spawn(scope, &[cpu], 0, work).join().expect("the task ends well"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_cache::tests::Naive;
    use crate::memory::KernelMemory;

    #[test]
    fn files_are_filled_anew_and_leave_nothing() {
        let memory = Naive::default();
        let work = Truncation { pages: 100, warm_ups: 2, filler: 0, truncater: 0 };
        work.run(&memory);
        assert_eq!(memory.check_at_end(), Ok(()));
    }
}
