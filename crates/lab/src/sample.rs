//! What a sample process of the lab can be asked to measure.

use crate::experiments::empty::EmptySample;
use crate::experiments::malloc_patterns::PatternSample;
use crate::experiments::replay::ReplaySample;
use crate::patterns::churn::ChurnSample;
use crate::patterns::growth::GrowthSample;
use crate::patterns::idle::IdleSample;
use anyhow::Result;
use clap::Subcommand;
use quarry_harness::results::Measurement;
use quarry_harness::runner::SAMPLE_LIMIT_SECONDS;

/// Kinds of samples, as subcommands.
#[derive(Subcommand)]
pub(crate) enum SampleKind {
    /// A pattern of malloc and free calls.
    Pattern(PatternSample),
    /// A kernel path of the documents.
    Replay(ReplaySample),
    /// Mixed objects come and go, then nothing happens.
    Idle(IdleSample),
    /// A heap that grows.
    Growth(GrowthSample),
    /// Phases of objects and threads that come and go.
    Churn(ChurnSample),
    /// Nothing at all.
    Empty(EmptySample),
}

impl SampleKind {
    /// Measures, in this process.
    pub(crate) fn measure(self) -> Result<Measurement> {
        nix::unistd::alarm::set(SAMPLE_LIMIT_SECONDS);
        match self {
            Self::Pattern(sample) => sample.measure(),
            Self::Replay(sample) => sample.measure(),
            Self::Idle(sample) => sample.measure(),
            Self::Growth(sample) => sample.measure(),
            Self::Churn(sample) => sample.measure(),
            Self::Empty(sample) => sample.measure(),
        }
    }
}
