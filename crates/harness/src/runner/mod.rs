//! Takes the samples of a run: each is a fresh process of this executable.
//!
//! What others use: an experiment describes itself as a [`Design`] and calls
//! [`conduct`](Design::conduct) with a function that takes one sample of a [`Spot`]: it gives a
//! [`Taken`] (a [`Measurement`](crate::results::Measurement), perhaps with a timeline) or says why
//! there is none. Order, progress, verification and the results directory are the runner's matter.
//! Who decides after each round whether another is needed begins a
//! [`Session`](design::Session), calls `round` as often
//! as they like, looks at its `run`, and ends it.
//!
//! [`sample`] starts a sample process of the own executable: a hidden subcommand, which prints its
//! measurement as one line of JSON.

mod design;
mod process;

pub use design::{Design, INTERRUPTED, LEFT_OUT, Session, Spot, Taken};
pub use process::{
    SAMPLE_COMMAND, SAMPLE_LIMIT_SECONDS, cleared_variables, command, end_of, preload_into, sample,
    sample_with,
};
