//! Taking one sample.

use crate::results::{Measurement, Timeline};
use anyhow::Error;

/// Identifies a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleKey {
    /// Round; 0 is the warm-up.
    pub round: u32,
    /// Index of the workload.
    pub workload: usize,
    /// Number of concurrent tasks.
    pub tasks: u32,
    /// Index of the variant.
    pub variant: usize,
}

/// The outcome of a sample.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The measurement.
    pub measurement: Measurement,
    /// The parent's observations, if the parent watched.
    pub timeline: Option<Timeline>,
}

impl From<Measurement> for Taken {
    fn from(measurement: Measurement) -> Self {
        Self { measurement, timeline: None }
    }
}

/// The reason why there is no sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSample {
    /// The run was interrupted within the sample. Nothing is recorded, and the run ends.
    Interrupted,
    /// The experiment does not need this sample, for example as a warm-up. Nothing is recorded.
    LeftOut,
    /// The sample failed. The text is recorded in its place.
    Failed(String),
}

impl From<String> for NoSample {
    fn from(failure: String) -> Self {
        Self::Failed(failure)
    }
}

impl From<&str> for NoSample {
    fn from(failure: &str) -> Self {
        Self::Failed(failure.to_owned())
    }
}

impl From<Error> for NoSample {
    fn from(error: Error) -> Self {
        Self::Failed(format!("{error:#}"))
    }
}

/// Takes samples, one at a time. The engine chooses the next sample, verifies and records the
/// result, and shows progress. Any function from a key to a sample is a sampler: it may run a fresh
/// process of this executable, a replayed kernel path, a supervised program or a simulated machine.
pub trait Sampler {
    /// Takes the sample of `key`.
    fn sample(&self, key: SampleKey) -> Result<Taken, NoSample>;
}

impl<F: Fn(SampleKey) -> Result<Taken, NoSample>> Sampler for F {
    fn sample(&self, key: SampleKey) -> Result<Taken, NoSample> {
        self(key)
    }
}
