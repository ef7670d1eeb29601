//! The per-CPU slots: one suite over every backend, threads that hammer them, signals, aborts at
//! each instruction, and surroundings without restartable sequences.
#![cfg(not(quarry_model))]

mod oracle;
mod signals;
mod suite;
mod support;
mod surroundings;
mod threads;
