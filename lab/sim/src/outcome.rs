//! The outcome of a run.

use serde::Serialize;
use std::collections::BTreeMap;

/// The costs of the locks of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LockClass {
    /// Times one was taken.
    pub acquisitions: u64,
    /// Of these, after waiting for another task.
    pub contended: u64,
    /// Times that a task which does not wait found one held.
    pub refused: u64,
    /// Time that tasks waited.
    pub waiting_ns: u64,
    /// Time that one was held.
    pub holding_ns: u64,
    /// The most tasks that waited for one lock at a time.
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

/// The result of a run. The same for the same tasks, machine and seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// When the last task ended, daemons not counted.
    pub time_ns: u64,
    /// How long each CPU had a task, one that spins for a lock included.
    pub busy_ns: Vec<u64>,
    /// Locks by the name that `Simulation::name_locks` gave them, or `other`.
    pub locks: BTreeMap<String, LockClass>,
    /// Lines that came from another core of the socket.
    pub lines_in_socket: u64,
    /// Lines that came from another socket.
    pub lines_remote: u64,
    /// Lines that came from memory.
    pub lines_from_memory: u64,
    /// Bytes that went through memory by `memory`.
    pub memory_bytes: u64,
    /// Time that tasks waited for the bandwidth of a socket, beyond what their core takes.
    pub memory_waiting_ns: u64,
    /// Times that a CPU went from one task to another.
    pub switches: u64,
    /// Tasks that ended.
    pub tasks: u64,
    /// Places where a task waited for its turn in the order of time, or an event was queued.
    pub events: u64,
}
