//! The outcome of a run.

use std::collections::BTreeMap;

/// The costs of the locks of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockClass {
    /// Number of times that a task took a lock of the class.
    pub acquisitions: u64,
    /// Number of these acquisitions in which another task handed the lock to a spinning task.
    pub contended: u64,
    /// Number of times that a task found a lock held and did not wait for it (`try_lock`).
    pub refused: u64,
    /// Time for which tasks waited for locks of the class.
    pub waiting_ns: u64,
    /// Time for which tasks held locks of the class.
    pub holding_ns: u64,
    /// The maximum number of tasks that spun for one lock at the same time.
    pub longest_queue: u64,
}

impl std::ops::AddAssign for LockClass {
    fn add_assign(&mut self, other: Self) {
        self.acquisitions += other.acquisitions;
        self.contended += other.contended;
        self.refused += other.refused;
        self.waiting_ns += other.waiting_ns;
        self.holding_ns += other.holding_ns;
        self.longest_queue = self.longest_queue.max(other.longest_queue);
    }
}

/// The result of a run. It is the same for the same tasks, machine and seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// When the last task ended.
    pub time_ns: u64,
    /// For each CPU, the time for which it had a task, including tasks that spin for a lock.
    pub busy_ns: Vec<u64>,
    /// Locks by the name that `Simulation::name_locks` gave them, or `other`.
    pub locks: BTreeMap<String, LockClass>,
    /// Cache lines that came from another core of the socket.
    pub lines_in_socket: u64,
    /// Cache lines that came from another socket.
    pub lines_remote: u64,
    /// Times that a CPU went from one task to another.
    pub switches: u64,
    /// Number of tasks that ended.
    pub tasks: u64,
    /// Events: points where a task made sure of its turn in simulated time, and queued events.
    pub events: u64,
}
