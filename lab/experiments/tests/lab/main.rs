//! The command `quarry-lab` as a user of `quarry lab` meets it.

mod golden_kernels;
mod kernel;
mod peers;
mod programs;
mod real_programs;
mod replay;
mod report;
mod runs;
mod scaling;
mod sharding;
mod support;
mod traces;
mod usage;
