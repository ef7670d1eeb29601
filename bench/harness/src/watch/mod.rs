//! Sample processes whose memory their parent reads while they run.
//!
//! A watched process runs a workload and announces each phase on standard output by a line `NAME
//! VALUE..`. It writes without allocating, so that memory changes only because of the allocator. At
//! the end it waits until its standard input closes, and prints its measurement, which names the
//! object that served `malloc`.

mod control_group;
mod parent;

pub use parent::{GROUP_VARIABLE, Watched, watch};
