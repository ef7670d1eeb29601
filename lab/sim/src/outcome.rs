//! The outcome of a run.

/// The costs of all locks together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCosts {
    /// Number of times that a task took a lock.
    pub acquisitions: u64,
    /// Number of these acquisitions in which another task handed the lock to a spinning task.
    pub contended: u64,
    /// Time for which tasks waited for locks.
    pub waiting_ns: u64,
    /// Time for which tasks held locks.
    pub holding_ns: u64,
}

/// The result of a run. It is the same for the same tasks, machine and seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// When the last task ended.
    pub time_ns: u64,
    /// For each CPU, the time for which it had a task, including tasks that spin for a lock.
    pub busy_ns: Vec<u64>,
    /// The costs of the locks.
    pub locks: LockCosts,
    /// Cache lines that came from another core of the socket.
    pub lines_in_socket: u64,
    /// Cache lines that came from another socket.
    pub lines_remote: u64,
    /// Time for which tasks waited for cache lines from other cores, the longest first, by the name
    /// of the line (`task::name_lines`) or the code that accesses it.
    pub line_waits: Vec<(String, u64)>,
    /// Times that a CPU went from one task to another.
    pub switches: u64,
    /// Number of tasks that ended.
    pub tasks: u64,
    /// Events: points where a task made sure of its turn in simulated time, and queued events.
    pub events: u64,
}
