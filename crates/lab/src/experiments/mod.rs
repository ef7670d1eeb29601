//! The experiments, one file each.

pub(crate) mod churn;
pub(crate) mod empty;
pub(crate) mod growth;
pub(crate) mod idle_return;
pub(crate) mod malloc_patterns;
pub(crate) mod peers;
pub(crate) mod programs;
pub(crate) mod real_programs;
pub(crate) mod replay;
pub(crate) mod start_up;

use self::replay::Replaying;
use anyhow::Result;
use clap::{Command, Subcommand};
use quarry_compare::FindLibrary;
use std::io::Write;

/// An experiment with its options.
#[derive(Subcommand)]
pub enum Experiment {
    /// malloc and free under four patterns, against other allocators.
    MallocPatterns(malloc_patterns::MallocPatterns),
    /// All that Quarry is to reach against other allocators, in one run and one table.
    Peers(peers::Peers),
    /// Eight real programs, each with a fixed amount of work, on several allocators.
    RealPrograms(real_programs::RealPrograms),
    /// Servers, runtimes and tools beside glibc: time, memory and results of each.
    Programs(programs::Programs),
    /// What a program that has freed everything still holds while it is idle.
    IdleReturn(idle_return::IdleReturn),
    /// What it costs a heap to grow to a size, with populating and huge pages on and off.
    Growth(growth::Growth),
    /// What an allocator adds to the start of small programs, in time and memory.
    StartUp(start_up::StartUp),
    /// Whether memory grows over phases of different sizes and threads that come and go.
    Churn(churn::Churn),
    NetperfUdpStream(Replaying<replay::NetperfUdpStream>),
    NetperfTcpStream(Replaying<replay::NetperfTcpStream>),
    #[command(name = "udp-u-1k")]
    UdpU1k(Replaying<replay::UdpU1k>),
    #[command(name = "udp-u-4k")]
    UdpU4k(Replaying<replay::UdpU4k>),
    SockperfUdpThroughput(Replaying<replay::SockperfUdpThroughput>),
    SockperfTcpThroughput(Replaying<replay::SockperfTcpThroughput>),
    SockperfUnderLoad(Replaying<replay::SockperfUnderLoad>),
    TcpRr(Replaying<replay::TcpRr>),
    Hackbench(Replaying<replay::Hackbench>),
    Fsmark(Replaying<replay::Fsmark>),
    #[command(name = "page-fault1")]
    PageFault1(Replaying<replay::PageFault1>),
    ListFree(Replaying<replay::ListFree>),
    /// What the harness itself costs: no allocator is involved.
    Empty(empty::Empty),
}

impl Experiment {
    /// Runs it and prints its tables to `out`.
    pub(crate) fn run(self, find_library: FindLibrary<'_>, out: &mut dyn Write) -> Result<()> {
        match self {
            Self::MallocPatterns(experiment) => experiment.run(find_library, out),
            Self::Peers(experiment) => experiment.run(find_library, out),
            Self::RealPrograms(experiment) => experiment.run(find_library, out),
            Self::Programs(experiment) => experiment.run(find_library, out),
            Self::IdleReturn(experiment) => experiment.run(find_library, out),
            Self::Growth(experiment) => experiment.run(find_library, out),
            Self::StartUp(experiment) => experiment.run(find_library, out),
            Self::Churn(experiment) => experiment.run(find_library, out),
            Self::NetperfUdpStream(experiment) => experiment.run(out),
            Self::NetperfTcpStream(experiment) => experiment.run(out),
            Self::UdpU1k(experiment) => experiment.run(out),
            Self::UdpU4k(experiment) => experiment.run(out),
            Self::SockperfUdpThroughput(experiment) => experiment.run(out),
            Self::SockperfTcpThroughput(experiment) => experiment.run(out),
            Self::SockperfUnderLoad(experiment) => experiment.run(out),
            Self::TcpRr(experiment) => experiment.run(out),
            Self::Hackbench(experiment) => experiment.run(out),
            Self::Fsmark(experiment) => experiment.run(out),
            Self::PageFault1(experiment) => experiment.run(out),
            Self::ListFree(experiment) => experiment.run(out),
            Self::Empty(experiment) => experiment.run(out),
        }
    }
}

/// One line per experiment.
pub(crate) fn list() -> String {
    let command = Experiment::augment_subcommands(Command::new("run"));
    let line = |experiment: &Command| {
        let about = experiment.get_about().map(ToString::to_string).unwrap_or_default();
        format!("{:<24} {about}\n", experiment.get_name())
    };
    command.get_subcommands().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_says_what_it_is() {
        let text = list();
        assert!(text.contains("malloc-patterns          malloc and free"), "{text}");
        assert!(text.lines().all(|line| line.len() > 20), "{text}");
    }
}
