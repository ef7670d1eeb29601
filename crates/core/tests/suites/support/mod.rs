//! What the suites share: stacks over systems that can fail, virtual CPUs, patterns and an oracle.

mod bed;
mod oracle;
pub(crate) mod pattern;
mod random;
mod system;

pub(crate) use bed::{Bed, VirtualConfig, on_cpu, small};
pub(crate) use oracle::Oracle;
pub(crate) use random::check;
pub(crate) use system::{Backing, TestOs};
