//! Compiles the programs of `tests/c`, runs them with the library in front, and says what happened.

mod compile;
mod library;
mod run;
mod stats;

pub(crate) use compile::{plugin, program};
pub(crate) use library::{library, testing_a_peer};
pub(crate) use run::{Outcome, Run, Running, scratch};
pub(crate) use stats::Stats;
