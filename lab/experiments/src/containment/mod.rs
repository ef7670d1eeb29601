//! Whole recorded jobs on one machine, each in a group with a limit of its own that pays for the
//! pages of slabs, of large blocks and of files.
//!
//! ```text
//! charged  the frames of the machine, and which group pays for each block
//! machine  the caches of `kmalloc` under a slab policy, which all groups share
//! job      the steps of a recorded program, and a job that goes through them
//! sample   jobs are added until one is refused
//! ```

mod charged;
mod job;
mod machine;
mod sample;

pub(crate) use sample::{ContainmentSample, FIGURES, Traced};
