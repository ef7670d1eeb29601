//! Quarry's only door to the operating system and the CPU.
//!
//! Everything above this crate is arithmetic on frame numbers and words. Here live the calls that
//! reserve, commit, populate and purge memory ([`os`]), how memory is cleared ([`clear`]), the
//! per-CPU primitives ([`percpu`]), the counted lock ([`lock`]), the
//! gate that `fork` closes ([`gate`]), what is known of the machine
//! ([`topology`]), and the way an unrecoverable misuse is reported ([`report`]).
//!
//! Nothing here allocates through the global allocator.
#![cfg_attr(not(any(test, quarry_model)), no_std)]

pub mod cgroup;
pub mod clear;
pub mod clock;
pub mod confined;
pub mod errno;
pub mod file;
pub mod gate;
pub mod glibc;
pub mod local;
pub mod lock;
pub mod object;
pub mod os;
pub mod overcommit;
pub mod peek;
pub mod percpu;
pub mod primitive;
pub mod report;
pub mod statm;
pub mod thread;
pub mod topology;
