//! A recorded program on many CPUs: its threads, copied until every CPU has one, on one heap of
//! Quarry.
//!
//! `program` has what each thread does, `pattern` some programs without a trace, and `play` does
//! it.

mod pattern;
#[cfg(quarry_sim)]
mod play;
mod program;

pub use pattern::{PATTERNS, Pattern};
#[cfg(quarry_sim)]
pub use play::answer;
pub use program::{Op, Program, Step};

use crate::costs::Costs;
use crate::topology::Topology;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The work of each copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// A trace of `quarry record`.
    Trace(PathBuf),
    /// The pattern of this name.
    Pattern(String),
}

/// A load, a heap and a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The work of each copy.
    pub load: Load,
    /// The machine.
    pub topology: Topology,
    /// Its costs.
    pub costs: Costs,
    /// The slab policy.
    pub slab: String,
    /// The page policy.
    pub pages: String,
    /// Calls that each copy of a recorded program plays, from the middle of the trace; all calls if
    /// the trace has fewer.
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
    /// The locks for which threads waited, each with the share of all CPU time in which they did;
    /// the longest wait comes first.
    pub lock_waits: Vec<(String, f64)>,
    /// The cache lines that came from other cores, each with the nanoseconds per call that tasks
    /// waited for it; the longest wait comes first. The name is that of the line's lock, or the
    /// place of other code that waited longest.
    pub line_waits: Vec<(String, f64)>,
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

impl Answer {
    /// Nanoseconds of CPU time per call, with the program's own work, waits and idle CPUs.
    #[must_use]
    pub fn cpu_ns(&self) -> f64 {
        self.time_ns as f64 * f64::from(self.cpus) / self.calls.max(1) as f64
    }
}
