//! A process with a small heap forks; the child allocates, frees and ends.
//!
//! An allocator influences two parts of the cost: the page tables and VMAs that `fork` copies,
//! and the pages that the kernel copies because parent or child writes to them afterwards.

use super::heap::{Block, Heap};
use super::window::{self, Budget, Done, Window};

/// Blocks that the process holds, of sizes from 16 bytes to 8 KiB.
const HELD: u64 = 200;
/// Blocks that parent and child allocate and free for each fork.
const OF_EACH: u64 = 20;

/// The size of block `number`; each power of two is equally frequent.
fn size(number: u64) -> usize {
    16 << (number % 10)
}

fn allocate_and_free(heap: Heap) -> u64 {
    let blocks: [Block; OF_EACH as usize] =
        std::array::from_fn(|number| heap.allocate(size(number as u64), number as u64));
    for (mark, block) in blocks.into_iter().enumerate() {
        heap.free(block, mark as u64);
    }
    OF_EACH
}

/// Returns whether the child was created, worked and ended without an error.
fn fork(heap: Heap) -> bool {
    // SAFETY: the child calls only malloc and free of this process, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = allocate_and_free(heap);
        // SAFETY: ends the child and runs no code of the parent.
        unsafe { libc::_exit(i32::from(done != OF_EACH)) };
    }
    let mut status = -1;
    // SAFETY: `status` is writable.
    child > 0 && unsafe { libc::waitpid(child, &raw mut status, 0) } == child && status == 0
}

pub(super) fn run(heap: Heap, budget: Budget) -> Window {
    let held: Vec<Block> = (0..HELD).map(|mark| heap.allocate(size(mark), mark)).collect();
    let window = window::measure(budget, || {
        let verified = u64::from(fork(heap));
        allocate_and_free(heap);
        Done { operations: 1, verified }
    });
    for (mark, block) in held.into_iter().enumerate() {
        heap.free(block, mark as u64);
    }
    window
}
