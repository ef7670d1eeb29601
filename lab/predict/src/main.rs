//! `quarry-predict`: the replays of the documents on the documents' machines, in simulated time.
//!
//! ```text
//! machine       the file of a machine: topology, costs, and work of the documents' programs
//! run           one replay on a machine
//! documents     the figures of the documents
//! faults        document 004
//! transactions  document 002
//! packets       document 003
//! messages      document 000: packets of netperf, and hackbench
//! sockets       document 000: sockperf
//! truncation    document 001, which gives no figure to predict
//! bulk          figures of Linux's frame allocator that others published
//! fit           constants fitted anew, with each cell left out in turn
//! counters      counts of two simulated CPUs, for comparison with real ones
//! predict       the command line
//! ```
//!
//! A document's machine needs a file in `data/machines`, in which every constant names its source,
//! and a line in `machine`. A document's cells need a file here and an arm in `predict`.

#[cfg(not(quarry_sim))]
compile_error!("quarry-predict needs RUSTFLAGS=\"--cfg quarry_sim\", as `make lab` sets it");

mod bulk;
mod counters;
mod documents;
mod faults;
mod fit;
mod machine;
mod messages;
mod packets;
mod predict;
mod run;
mod sockets;
mod transactions;
mod truncation;

fn main() -> std::process::ExitCode {
    predict::main()
}
