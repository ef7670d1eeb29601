//! Compiles the programs of `tests/c`, runs them with the library preloaded, checks the outcome.

mod compile;
mod group;
mod library;
mod modes;
mod run;
mod skip;
mod stats;
mod syscalls;

pub(crate) use compile::{
    compiled_with, example, example_with, fixed_program, linked_program, linked_with, plugin,
    program,
};
pub(crate) use group::Group;
pub(crate) use library::{
    DEFAULT_SLAB, archive, full_library, is_full, libraries, library, slab_policy, testing_a_peer,
};
pub(crate) use modes::{Mode, in_every_mode, modes, with_few_samples};
pub(crate) use run::{Outcome, Run, Running, scratch};
pub(crate) use skip::skipped;
pub(crate) use stats::Stats;
pub(crate) use syscalls::{Calls, calls_between_marks};
