//! A recorded program on many CPUs: its threads, copied until every CPU has one, on one heap of
//! Quarry.
//!
//! `program` has what each thread does, and `play` does it.

#[cfg(quarry_sim)]
mod play;
mod program;

#[cfg(quarry_sim)]
pub use play::answer;
pub use program::{Op, Program, Step};

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
    /// Calls that each copy of the program plays, from the middle of the trace; all calls if the
    /// trace has fewer.
    pub calls: usize,
    /// The seed that decides when the copies begin.
    pub seed: u64,
}

/// The result. Times are simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Number of CPUs that had a thread.
    pub cpus: u32,
    /// Number of copies of the program.
    pub copies: usize,
    /// Number of measured calls. The copies made as many before, to fill the caches.
    pub calls: u64,
    /// Nanoseconds from the start of the measured part until the last thread ended.
    pub time_ns: u64,
    /// Calls a second.
    pub calls_per_s: f64,
    /// Mean nanoseconds of a call, with its waits for a CPU and for other threads' earlier calls on
    /// the same block.
    pub call_ns: f64,
    /// The share of all CPU time in which threads waited for locks, 0 to 1.
    pub waiting: f64,
    /// Times that a lock was taken, per thousand calls.
    pub locks_per_1000: f64,
    /// The lock for which threads waited longest, and the share of all CPU time in which they did.
    pub worst_lock: Option<(String, f64)>,
    /// Cache lines that came from another core, per call.
    pub lines_per_call: f64,
    /// The largest amount of memory in use or held, in bytes, among some 128 readings.
    pub peak_bytes: u64,
    /// The part of `peak_bytes` that was parked objects and pages on pcp lists, at that reading.
    pub parked_bytes: u64,
    /// The largest number of bytes that the copies had requested and not freed: the sum of each
    /// copy's own maximum. The copies need not reach theirs at the same time.
    pub live_bytes: u64,
}
