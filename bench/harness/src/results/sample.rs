//! One sample: its measurement, or the reason why it has none.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The measurement of one sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Operations in the measured window; the workload defines an operation.
    pub operations: u64,
    /// Time of the operations, on the clock of the workload's choice.
    pub time_ns: u64,
    /// Length of the window on the wall clock.
    pub wall_ns: u64,
    /// CPU time of the whole process in the window.
    pub cpu_ns: u64,
    /// Number of proofs that the work was done, counted apart from `operations`: of blocks that
    /// came back with their mark, or of packets that arrived. The workload's
    /// [`Verify`](super::Verify) checks this number.
    #[serde(default)]
    pub verified: u64,
    /// The object that contains the serving `malloc`, or the policies of the stack.
    pub served_by: String,
    /// Further counts by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// Further figures by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
    /// Single values, such as the time of each file, by the name of the counter or figure that is
    /// their sum.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, Vec<u64>>,
}

impl Measurement {
    /// A measurement of a window, without further figures; the caller sets `verified`.
    pub fn of_window(
        operations: u64,
        time_ns: u64,
        wall_ns: u64,
        cpu_ns: u64,
        served_by: &str,
    ) -> Self {
        let served_by = served_by.to_owned();
        Self { operations, time_ns, wall_ns, cpu_ns, served_by, ..Self::default() }
    }

    /// Adds counters.
    pub fn with(mut self, counters: &[(&str, u64)]) -> Self {
        self.counters.extend(counters.iter().map(|(name, count)| ((*name).to_owned(), *count)));
        self
    }

    /// A figure by name: a field, a counter or a further figure.
    pub fn figure(&self, name: &str) -> Option<f64> {
        match name {
            "operations" => Some(self.operations as f64),
            "time_ns" => Some(self.time_ns as f64),
            "wall_ns" => Some(self.wall_ns as f64),
            "cpu_ns" => Some(self.cpu_ns as f64),
            _ => {
                let count = self.counters.get(name).map(|count| *count as f64);
                count.or_else(|| self.figures.get(name).copied())
            }
        }
    }
}

/// Memory of a watched process at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Time since the start of the process.
    pub ms: f64,
    /// Resident bytes (`statm`).
    pub resident: u64,
    /// Bytes charged to the control group; without one, the decrease of the machine's free memory.
    pub charged: i64,
}

/// A process's memory and phases while it ran, recorded by its parent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Readings, in the order of time.
    pub readings: Vec<Reading>,
    /// For each phase the time of its announcement in ms since the start, and the announced line.
    pub phases: Vec<(f64, String)>,
    /// True if `charged` is from a control group.
    pub in_group: bool,
}

impl Timeline {
    /// The time in ms when `phase` was announced, and the announced numbers.
    pub fn phase(&self, phase: &str) -> Option<(f64, Vec<u64>)> {
        self.phases.iter().find_map(|(ms, line)| {
            let mut words = line.split(' ');
            (words.next() == Some(phase))
                .then(|| (*ms, words.filter_map(|word| word.parse().ok()).collect()))
        })
    }

    /// The last reading at or before `ms`.
    pub fn at(&self, ms: f64) -> Option<Reading> {
        self.readings.iter().rev().find(|reading| reading.ms <= ms).copied()
    }
}

/// A line of `samples.jsonl`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Round; 0 is the warm-up and enters no statistics.
    pub round: u32,
    /// The workload.
    pub workload: String,
    /// Number of concurrent tasks.
    pub tasks: u32,
    /// The variant.
    pub variant: String,
    /// Time at which the sample ended, in milliseconds since the run began.
    pub at_ms: u64,
    /// `None` for a failed sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measurement: Option<Measurement>,
    /// Memory over time, if the parent watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// The reason why the sample failed; `None` if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}
