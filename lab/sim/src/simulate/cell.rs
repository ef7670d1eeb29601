//! One question to the simulated machine, and its answer: a policy on so many CPUs.

use crate::costs::Costs;
use crate::topology::Topology;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A trace, a heap and a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The trace of `quarry record`.
    pub trace: PathBuf,
    /// The machine.
    pub topology: Topology,
    /// Its costs.
    pub costs: Costs,
    /// The slab policy.
    pub slab: String,
    /// The page policy.
    pub pages: String,
    /// Calls that each copy of the program plays, from the middle of the trace; all, if it has
    /// fewer.
    pub calls: usize,
    /// Decides when the copies begin.
    pub seed: u64,
}

/// The result. Times are simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// CPUs that had a thread.
    pub cpus: u32,
    /// Copies of the program.
    pub copies: usize,
    /// Calls that were made.
    pub calls: u64,
    /// Nanoseconds from the first to the last.
    pub time_ns: u64,
    /// Calls a second.
    pub calls_per_s: f64,
    /// Nanoseconds of a call, waiting for other threads' blocks and for a CPU included.
    pub call_ns: f64,
    /// The part of all CPU time in which threads waited for locks, 0 to 1.
    pub waiting: f64,
    /// Times that a lock was taken, per thousand calls.
    pub locks_per_1000: f64,
    /// The lock that threads waited for longest, and the part of all CPU time.
    pub worst_lock: Option<(String, f64)>,
    /// Cache lines that came from another CPU, per call.
    pub lines_per_call: f64,
    /// The most memory that was in use or held, in bytes, at some 64 looks.
    pub peak_bytes: u64,
    /// Of that, freed objects in arrays, lists and barns, at the same time.
    pub parked_bytes: u64,
    /// The most that the copies had in use by their own counts, in bytes: the sum over all, which
    /// need not be at their highest at once.
    pub live_bytes: u64,
}
