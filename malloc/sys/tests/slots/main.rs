//! The per-CPU slots: one suite for every backend, many threads, signals, aborts at each
//! instruction, and processes without restartable sequences.
#![cfg(not(quarry_model))]

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(quarry_no_rseq)))]
mod abort;
mod oracle;
mod room;
mod signals;
mod suite;
mod support;
mod surroundings;
mod threads;
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(quarry_no_rseq)))]
mod tracer;
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(quarry_no_rseq)))]
mod walk;
mod walks;
