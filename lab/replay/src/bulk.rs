//! Allocation of blocks in bulk: all tasks at the same time allocate their blocks, and then free
//! them. LLFree's benchmark `bulk` compares frame allocators in this way.

use crate::host::{self, Barrier, Moment, spawn};
use crate::memory::{Buffer, KernelMemory, Pages};

/// The tasks, and the blocks that each takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// The kind of block.
    pub pages: Pages,
    /// Number of tasks.
    pub tasks: usize,
    /// Number of blocks of each task.
    pub blocks: u32,
    /// Nanoseconds of computing per block, besides the calls to the allocator.
    pub work_ns: u64,
}

impl Bulk {
    /// Runs the benchmark twice and measures the second round, because the first one brings the
    /// memory in. Returns the nanoseconds per block, as a mean over all tasks. O(tasks * blocks).
    ///
    /// # Panics
    /// If there is no memory left, or a CPU is not ours to use.
    pub fn run<M: KernelMemory>(self, memory: &M, cpus: &[usize]) -> f64 {
        let barrier = Barrier::new(self.tasks);
        let took: Vec<u64> = host::scope(|scope| {
            let tasks: Vec<_> = (0..self.tasks)
                .map(|index| {
                    let barrier = &barrier;
                    spawn(scope, cpus, index, move || {
                        self.round(memory, barrier);
                        self.round(memory, barrier)
                    })
                })
                .collect();
            tasks.into_iter().map(|it| it.join().expect("tasks end well")).collect()
        });
        let all = self.tasks as u64 * u64::from(self.blocks);
        took.iter().sum::<u64>() as f64 / all as f64
    }

    /// Allocates all blocks, waits until all tasks have theirs, and frees them. Returns the
    /// nanoseconds that the allocation took.
    fn round<M: KernelMemory>(self, memory: &M, barrier: &Barrier) -> u64 {
        barrier.wait();
        let start = Moment::now();
        let take = |_| {
            host::work(self.work_ns);
            memory.alloc_pages(self.pages).expect("there is memory for all tasks")
        };
        let blocks: Vec<Buffer> = (0..self.blocks).map(take).collect();
        let took = start.elapsed().as_nanos() as u64;
        barrier.wait();
        blocks.into_iter().for_each(|block| memory.free_pages(self.pages, block));
        took
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::Uncached;

    #[test]
    fn all_blocks_come_back() {
        let memory = Uncached::default();
        let pages = Pages { order: 0, movable: true };
        let bulk = Bulk { pages, tasks: 2, blocks: 100, work_ns: 0 };
        assert!(bulk.run(&memory, &[]) > 0.0);
        assert_eq!(memory.check_at_end(), Ok(()));
    }
}
