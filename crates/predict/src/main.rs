//! `quarry-predict`: the replays of the documents on the documents' machines, in simulated time.
//!
//! It is built with `--cfg quarry_sim`, because what stands behind the seam of `quarry-sys` is
//! chosen when a binary is built; `quarry lab predict` starts it.
//!
//! ```text
//! machine    CPUs, cache lines, memory and a scheduler
//! run        one replay on a machine
//! cell       a prediction beside the document's figure
//! documents  the figures of the documents
//! faults     document 004
//! transactions  document 002
//! messages   document 000
//! counters   counts of two CPUs, to compare with real ones
//! predict      the command line
//! ```

#[cfg(quarry_sim)]
mod cell;
#[cfg(quarry_sim)]
mod counters;
#[cfg(quarry_sim)]
mod documents;
#[cfg(quarry_sim)]
mod faults;
#[cfg(quarry_sim)]
mod machine;
#[cfg(quarry_sim)]
mod messages;
#[cfg(quarry_sim)]
mod predict;
#[cfg(quarry_sim)]
mod run;
#[cfg(quarry_sim)]
mod transactions;

#[cfg(quarry_sim)]
fn main() -> std::process::ExitCode {
    predict::main()
}

#[cfg(not(quarry_sim))]
fn main() -> std::process::ExitCode {
    eprintln!("quarry-predict needs the simulated machine: build it with --cfg quarry_sim");
    std::process::ExitCode::from(2)
}
