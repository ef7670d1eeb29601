//! Quarry's only door to the operating system and the CPU.
//!
//! The layers above compute with frame numbers and words only. This crate has the calls that
//! reserve, map, populate and purge memory ([`os`]), the clearing of memory ([`clear`]), the
//! per-CPU primitives ([`percpu`]), the counted lock ([`lock`]), the gate that `fork` closes
//! ([`gate`]), the facts of the machine ([`topology`]), and the report of a misuse that ends the
//! process ([`report`]). All that threads share goes through one seam ([`primitive`]), where a
//! model checker or a simulated machine can replace the CPU and the kernel.
//!
//! Nothing here allocates through the global allocator.
//!
//! Order of the modules, each using only those before it: `counters`, `errno`, `glibc`,
//! `system_call`, `file_descriptor`; `primitive`; `known`; `confined`, `own_stack`, `report`;
//! `local`, `object`; `random`, `clock`, `clear`, `file`, `memfd`, `send_descriptor`, `peek`,
//! `record_page`, `seccomp`; `lock`, `gate`, `hooks`, `topology`, `placement`, `scheduling`; `os`;
//! `cgroup`, `psi`, `overcommit`, `statm`; `percpu`, `bare_thread`, `probe`; `thread_note`; on
//! their own, `fault`, `prefetch`, `same`.
#![cfg_attr(not(any(test, quarry_model, quarry_sim)), no_std)]
#[cfg(feature = "std")]
extern crate std;

pub mod bare_thread;
pub mod broken;
pub mod cgroup;
pub mod clear;
pub mod clock;
pub mod confined;
pub mod counters;
pub mod errno;
pub mod fault;
pub mod file;
pub mod file_descriptor;
pub mod gate;
pub mod glibc;
pub mod hooks;
mod known;
pub mod local;
pub mod lock;
pub mod locks;
pub mod memfd;
pub mod object;
pub mod os;
pub mod overcommit;
pub mod own_stack;
pub mod peek;
pub mod percpu;
pub mod placement;
pub mod prefetch;
pub mod primitive;
pub mod probe;
pub mod psi;
pub mod random;
pub mod record_page;
pub mod report;
pub mod same;
pub mod scheduling;
pub mod seccomp;
pub mod send_descriptor;
pub mod statm;
pub mod system_call;
pub mod thread_note;
pub mod topology;
pub mod unwind;
pub mod watchers;
