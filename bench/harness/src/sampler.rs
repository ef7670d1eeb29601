//! One sample: which one is wanted, what it brings, and who takes it.

use crate::results::{Measurement, Timeline};
use anyhow::Error;

/// Identifies the sample that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleKey {
    /// Round; 0 is the warm-up.
    pub round: u32,
    /// Index of the workload.
    pub workload: usize,
    /// Number of tasks that run it at once.
    pub tasks: u32,
    /// Index of the variant.
    pub variant: usize,
}

/// The outcome of a sample.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Its measurement.
    pub measurement: Measurement,
    /// Its parent's observations, where the parent watched.
    pub timeline: Option<Timeline>,
}

impl From<Measurement> for Taken {
    fn from(measurement: Measurement) -> Self {
        Self { measurement, timeline: None }
    }
}

/// Why there is no sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSample {
    /// The run was told to end before the sample was complete. It leaves no trace and ends the run.
    Interrupted,
    /// The experiment does not want it: the warm-up of something that needs none, for example. It
    /// leaves no trace.
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

/// Takes samples, one at a time.
///
/// The engine decides which sample is next, verifies and records what comes back, and shows
/// progress; a sampler knows nothing of rounds to come. Three kinds are in use: a pattern of calls
/// in a fresh process of the own executable, a replayed kernel path, and a supervised program.
/// None of this is required: a simulated machine that computes its samples in this process, without
/// starting one, is a sampler as well. Every function of a key is.
pub trait Sampler {
    /// Takes the sample of `key`.
    ///
    /// # Errors
    /// The reason why no sample was taken.
    fn sample(&self, key: SampleKey) -> Result<Taken, NoSample>;
}

impl<F: Fn(SampleKey) -> Result<Taken, NoSample>> Sampler for F {
    fn sample(&self, key: SampleKey) -> Result<Taken, NoSample> {
        self(key)
    }
}
