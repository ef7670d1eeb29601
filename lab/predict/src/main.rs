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
//! truncation    document 001, of which there is no figure to predict
//! bulk          what others have published of Linux's frame allocator
//! fit           fitted constants, with each cell left out
//! counters      counts of two CPUs, to compare with real ones
//! predict       the command line
//! ```
//!
//! A document's machine is a file in `data/machines`, in which every constant says where it comes
//! from, and its line in `machine`; the document's cells are a file here, and its arm in `predict`.

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
