//! The experiments, one file each.

pub(crate) mod churn;
pub(crate) mod growth;
pub(crate) mod idle_return;
pub(crate) mod malloc_patterns;
pub(crate) mod start_up;
pub(crate) mod udp_u_4k;

use crate::FindLibrary;
use anyhow::Result;
use clap::{Command, Subcommand};
use std::io::Write;

/// An experiment with its options.
#[derive(Subcommand)]
pub enum Experiment {
    /// malloc and free under four patterns, against other allocators.
    MallocPatterns(malloc_patterns::MallocPatterns),
    /// Packets of 4 KiB between processes: what the page allocator costs SLUB (document 003).
    #[command(name = "udp-u-4k")]
    UdpU4k(udp_u_4k::UdpU4k),
    /// What a program that has freed everything still holds while it is idle.
    IdleReturn(idle_return::IdleReturn),
    /// What it costs a heap to grow to a size, with populating and huge pages on and off.
    Growth(growth::Growth),
    /// What an allocator adds to the start of small programs, in time and memory.
    StartUp(start_up::StartUp),
    /// Whether memory grows over phases of different sizes and threads that come and go.
    Churn(churn::Churn),
}

impl Experiment {
    /// Runs it and prints its tables to `out`.
    pub(crate) fn run(self, find_library: FindLibrary<'_>, out: &mut dyn Write) -> Result<()> {
        match self {
            Self::MallocPatterns(experiment) => experiment.run(find_library, out),
            Self::UdpU4k(experiment) => experiment.run(out),
            Self::IdleReturn(experiment) => experiment.run(find_library, out),
            Self::Growth(experiment) => experiment.run(find_library, out),
            Self::StartUp(experiment) => experiment.run(find_library, out),
            Self::Churn(experiment) => experiment.run(find_library, out),
        }
    }
}

/// One line per experiment.
pub(crate) fn list() -> String {
    let command = Experiment::augment_subcommands(Command::new("run"));
    let line = |experiment: &Command| {
        let about = experiment.get_about().map(ToString::to_string).unwrap_or_default();
        format!("{:<16} {about}\n", experiment.get_name())
    };
    command.get_subcommands().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_says_what_it_is() {
        let text = list();
        assert!(text.contains("malloc-patterns  malloc and free"), "{text}");
        assert!(text.lines().all(|line| line.len() > 20), "{text}");
    }
}
