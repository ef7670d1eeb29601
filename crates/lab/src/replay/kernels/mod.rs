//! The kernel paths of the documents' benchmarks: tables of what they allocate and free, and by
//! which threads. Sizes of kernel objects are those of 64-bit kernels of the document's year, from
//! general knowledge of them; statements of the documents themselves take precedence.

pub(crate) mod files;
pub(crate) mod hackbench;
pub(crate) mod network;
pub(crate) mod pages;

use super::crew::{self, Crew, Length, Load, Replayed};
use super::memory::KernelMemory;
use super::path::Path;
use super::solo::{self, Solo, Space, Timed};
use std::time::Duration;

/// A path with those who walk it.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// The allocations and frees.
    pub(crate) path: Path,
    /// The threads or tasks that make them.
    pub(crate) cast: Cast,
}

/// The walkers of a path. A task is a group or a single process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cast {
    /// Groups of senders and receivers, see [`Crew`].
    Crew {
        senders: usize,
        receivers: usize,
        burst: u32,
        capacity: u32,
        pipe: bool,
        shared_files: bool,
        load: Option<Load>,
        /// A fixed amount of work instead of a fixed time: turns of each sender.
        turns: Option<u64>,
    },
    /// Processes by themselves, see [`Solo`].
    Solo { round: u32, timed: Timed, space: Space },
}

/// A sender and a receiver that the scheduler runs in turn: a full queue each.
pub(super) const fn pair(burst: u32) -> Cast {
    Cast::Crew {
        senders: 1,
        receivers: 1,
        burst,
        capacity: burst,
        pipe: false,
        shared_files: false,
        load: None,
        turns: None,
    }
}

/// The scale of a replay, and its CPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale<'a> {
    /// Tasks at once.
    pub(crate) tasks: usize,
    /// CPUs that are used in turn.
    pub(crate) cpus: &'a [usize],
    /// Length of the warm-up.
    pub(crate) warm_up: Duration,
    /// Length of the measurement, where there is no fixed amount of work.
    pub(crate) measured: Duration,
}

impl Scenario {
    /// Runs it.
    ///
    /// # Panics
    /// If there is no memory left, or a CPU is not ours to use.
    pub(crate) fn run<M: KernelMemory>(&self, memory: &M, scale: Scale<'_>) -> Replayed {
        let Scale { tasks, cpus, warm_up, measured } = scale;
        match self.cast {
            Cast::Crew { senders, receivers, burst, capacity, pipe, shared_files, load, turns } => {
                let crew = Crew {
                    groups: tasks,
                    senders,
                    receivers,
                    burst,
                    capacity,
                    pipe,
                    shared_files,
                    load,
                    cpus,
                };
                let lengths = match turns {
                    Some(turns) => (Length::Turns(turns.div_ceil(10)), Length::Turns(turns)),
                    None => (Length::Time(warm_up), Length::Time(measured)),
                };
                crew::run(memory, &self.path, crew, lengths)
            }
            Cast::Solo { round, timed, space } => {
                let solo = Solo { tasks, round, timed, space, cpus };
                solo::run(memory, &self.path, solo, (warm_up, measured))
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::memory::tests::Uncached;
    use super::*;

    /// Runs a scenario for a moment; everything sent must arrive, and all memory come back.
    pub(in super::super) fn run_briefly(scenario: &Scenario, tasks: usize) -> Replayed {
        let memory = Uncached::default();
        let moment = Duration::from_millis(1);
        let scale = Scale { tasks, cpus: &[], warm_up: Duration::ZERO, measured: moment };
        let replayed = scenario.run(&memory, scale);
        assert!(replayed.sent > 0);
        assert_eq!(replayed.verified, replayed.sent);
        assert_eq!(memory.check_at_end(), Ok(()));
        replayed
    }

    /// Allocations per message, of a scenario on a memory that caches nothing.
    pub(in super::super) fn allocs_per_message(scenario: &Scenario) -> f64 {
        let replayed = run_briefly(scenario, 1);
        replayed.counters.zone_allocs as f64 / replayed.sent as f64
    }
}
