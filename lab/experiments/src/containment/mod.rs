//! Whole recorded jobs on one machine. Each runs in a group with its own limit, and the group pays
//! for pages of slabs, of large blocks and of files.
//!
//! ```text
//! charged  the frames of the machine, and which group pays for each block
//! machine  the caches of `kmalloc` under a slab policy, which all groups share
//! job      the steps of a recorded program, and a job that goes through them
//! sample   a sample: jobs are added until memory is refused
//! ```

mod charged;
mod job;
mod machine;
mod sample;

pub(crate) use sample::{ContainmentSample, FIGURES, Traced};
