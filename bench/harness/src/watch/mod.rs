//! Processes whose memory their parent watches while they run.
//!
//! A watched process is a sample process that does a workload and says on standard output where it
//! is: one line `NAME VALUE..` per phase. It writes without allocating, so that what the allocator
//! does by itself can be seen. At the end it waits for its standard input to close and prints its
//! measurement, which proves who served it.

mod control_group;
mod parent;

pub use parent::{GROUP_VARIABLE, Watched, watch};
