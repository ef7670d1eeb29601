//! Every raw sample of a run, in a file that later runs and other programs can read.

use crate::environment::Environment;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Version of the layout; grows with every change that a reader would notice.
pub(crate) const SCHEMA: &str = "quarry-lab/1";

/// What one sample measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measurement {
    /// Operations in the measured window; what counts as one is the workload's matter.
    pub(crate) operations: u64,
    /// What the operations took, on the clock that the workload chose.
    pub(crate) time_ns: u64,
    /// Length of the window on the wall clock.
    pub(crate) wall_ns: u64,
    /// CPU time of the whole process in the window.
    pub(crate) cpu_ns: u64,
    /// File that the process's `malloc` belongs to, as its loader says.
    pub(crate) served_by: String,
    /// Further figures by name.
    #[serde(default)]
    pub(crate) counters: BTreeMap<String, u64>,
}

impl Measurement {
    /// Nanoseconds per operation.
    pub(crate) fn ns_per_operation(&self) -> f64 {
        self.time_ns as f64 / self.operations as f64
    }

    /// A further figure, 0 where there is none of this name.
    pub(crate) fn counter(&self, name: &str) -> f64 {
        self.counters.get(name).copied().unwrap_or(0) as f64
    }
}

/// A sample in its place in the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Round, from 0; round 0 is the warm-up and enters no statistics.
    pub(crate) round: u32,
    /// What ran.
    pub(crate) workload: String,
    /// What it ran on.
    pub(crate) variant: String,
    /// `None` where it failed.
    pub(crate) measurement: Option<Measurement>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
}

/// One of the things compared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Variant {
    /// Its name in the tables.
    pub(crate) name: String,
    /// What it is exactly: file, version, options.
    pub(crate) description: String,
}

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Recording {
    /// [`SCHEMA`].
    pub(crate) schema: String,
    /// Name of the experiment.
    pub(crate) experiment: String,
    /// Seed of the order of the samples.
    pub(crate) seed: u64,
    /// Rounds after the warm-up.
    pub(crate) rounds: u32,
    /// Name of the variant that the others are compared with.
    pub(crate) baseline: String,
    /// The machine.
    pub(crate) environment: Environment,
    /// The things compared.
    pub(crate) variants: Vec<Variant>,
    /// In the order in which they were taken.
    pub(crate) samples: Vec<Sample>,
}

impl Recording {
    /// One value per counted round of a workload on a variant, `None` where the sample failed.
    pub(crate) fn rounds_of(
        &self,
        workload: &str,
        variant: &str,
        value: impl Fn(&Measurement) -> f64,
    ) -> Vec<Option<f64>> {
        let mut values = vec![None; self.rounds as usize];
        for sample in &self.samples {
            if sample.round > 0 && sample.workload == workload && sample.variant == variant {
                values[sample.round as usize - 1] = sample.measurement.as_ref().map(&value);
            }
        }
        values
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string(self)?;
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A recording of one workload `w` with a value in ns per operation for each round and variant.
    pub(crate) fn recording(baseline: &str, columns: &[(&str, &[Option<f64>])]) -> Recording {
        let mut samples = Vec::new();
        for (variant, values) in columns {
            for (index, value) in values.iter().enumerate() {
                samples.push(Sample {
                    round: index as u32 + 1,
                    workload: "w".to_owned(),
                    variant: (*variant).to_owned(),
                    measurement: value.map(measurement),
                    failure: None,
                });
            }
        }
        let variants = columns
            .iter()
            .map(|(name, _)| Variant { name: (*name).to_owned(), description: String::new() });
        Recording {
            schema: SCHEMA.to_owned(),
            experiment: "test".to_owned(),
            seed: 1,
            rounds: columns[0].1.len() as u32,
            baseline: baseline.to_owned(),
            environment: Environment::capture(),
            variants: variants.collect(),
            samples,
        }
    }

    fn measurement(ns: f64) -> Measurement {
        Measurement {
            operations: 1000,
            time_ns: (ns * 1000.0) as u64,
            wall_ns: 0,
            cpu_ns: 0,
            served_by: "libc.so.6".to_owned(),
            counters: BTreeMap::new(),
        }
    }

    #[test]
    fn rounds_leave_out_the_warm_up_and_keep_gaps() {
        let mut recording = recording("a", &[("a", &[Some(2.0), None, Some(3.0)])]);
        let mut warm_up = recording.samples[0].clone();
        warm_up.round = 0;
        recording.samples.insert(0, warm_up);
        let values = recording.rounds_of("w", "a", Measurement::ns_per_operation);
        assert_eq!(values, [Some(2.0), None, Some(3.0)]);
        assert_eq!(recording.rounds_of("w", "b", Measurement::ns_per_operation), [None; 3]);
    }

    #[test]
    fn survives_a_round_trip_through_a_file() {
        let recording = recording("a", &[("a", &[Some(2.0)]), ("b", &[None])]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        recording.write(&path).unwrap();
        let read: Recording = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(read.schema, SCHEMA);
        assert_eq!(read.samples[0].measurement, recording.samples[0].measurement);
        assert_eq!(read.samples[1].measurement, None);
        assert!(recording.write(&folder.path().join("no/such/folder")).is_err());
    }
}
