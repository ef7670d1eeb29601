//! The simulated machine, as the rest of the seam sees it: what it is told, and its decisions.

use core::panic::Location;

/// How an operation accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The operation reads.
    Read,
    /// The operation writes.
    Write,
    /// The operation reads and writes in one indivisible step.
    Update,
}

/// A kind of work that takes a known time on a simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A block that enters or leaves a zone's free lists, under the zone's lock.
    ZoneBlock,
    /// A page that enters or leaves an LRU list, under the list's lock.
    LruPage,
    /// An allocation or a free that takes the slow path of its slab policy.
    SlabSlow,
}

/// The next step of a task that waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The lock's own code waits: it spins, then sleeps.
    ByItself,
    /// The wait is over: the last holder has passed the lock on, still held.
    HandedOver,
    /// The lock may be free, and the task tries again.
    LookAgain,
}

/// A simulated machine. Each call may let other tasks run before it returns.
pub trait Machine {
    /// The running task, never 0.
    fn task(&self) -> usize;

    /// The time of the running task's CPU, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// The code at `place` makes the next `access` or `touch` of the running task.
    fn comes_from(&self, _place: &'static Location<'static>) {}

    /// The running task is about to access memory by an atomic operation.
    fn access(&self, address: usize, bytes: usize, access: Access);

    /// The running task is about to access memory by plain loads and stores.
    fn touch(&self, address: usize, bytes: usize, access: Access) {
        self.access(address, bytes, access);
    }

    /// The running task has done work without accesses to shared memory.
    fn effort(&self, _effort: Effort, _count: usize) {}

    /// The running task busily waits for another task: it reads the awaited word again at once.
    fn relax(&self);

    /// Suspends the running task until another task wakes `key`, or the time is over. No other task
    /// runs between the caller's read of its word and this call. No task wakes a `key` of 0.
    fn sleep(&self, key: usize, at_most_ns: Option<u64>);

    /// Wakes up to `most` tasks that sleep on `key`.
    fn wake(&self, key: usize, most: usize);

    /// The running task is about to check whether the lock at this address is free.
    fn lock_wanted(&self, lock: usize) {
        self.access(lock, size_of::<u32>(), Access::Update);
    }

    /// The running task has found the lock held. A machine with queues of waiting tasks suspends
    /// it; otherwise the lock's own code spins, and sleeps on its word.
    fn lock_waits(&self, _lock: usize) -> Waited {
        Waited::ByItself
    }

    /// The running task has taken the lock.
    fn lock_taken(&self, _lock: usize) {}

    /// The running task releases the lock. Returns whether the machine passed it to a waiting task.
    fn lock_released(&self, lock: usize) -> bool {
        self.access(lock, size_of::<u32>(), Access::Update);
        false
    }

    /// An array has an entry of `bytes` for each of `frames` frames of memory.
    fn frame_array(&self, _start: usize, _frames: usize, _bytes: usize, _grows_down: bool) {}

    /// A sequence begins on the slot with this control word. A machine may charge its time here,
    /// and nothing for the task's atomics until [`sequence_ends`](Self::sequence_ends).
    fn sequence_begins(&self, _slot: usize) {}

    /// The sequence that the running task began last ends.
    fn sequence_ends(&self) {}
}
