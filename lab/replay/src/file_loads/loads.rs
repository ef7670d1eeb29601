//! The loads by name, read from `lab/documents`, and the tasks that run one.

use super::aim::Aim;
use super::bonnie::Bonnie;
use super::dbench::Dbench;
use super::device::{Device, PAGE_BYTES};
use super::sparse::Sparse;
use super::system::FileSystem;
use super::tally::Tally;
use super::varmail::Varmail;
use crate::documents;
use crate::file_cache::FileCache;
use crate::host::{Mutex, scope, spawn};
use crate::memory::Counters;
use crate::stage::{Replayed, Scale, Stage};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The work of the tasks.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Kind {
    Sparse(Sparse),
    Bonnie(Bonnie),
    Varmail(Varmail),
    Dbench(Dbench),
    Aim(Aim),
}

/// A load as a document's `loads.toml` has it; `lab/documents/README.md` explains the fields.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct FileLoad {
    /// The stack's budget: this many MiB, plus the part of the files' pages that the next field
    /// gives in per cent. If both fields are 0, there is no limit.
    #[serde(default)]
    budget_mib: u64,
    #[serde(default)]
    budget_percent: u64,
    directories: u64,
    #[serde(default)]
    device: Device,
    #[serde(flatten)]
    kind: Kind,
}

static LOADS: LazyLock<BTreeMap<String, FileLoad>> =
    LazyLock::new(|| documents::tables(|document| document.loads));

/// The result of a load.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The work of all tasks together.
    pub tally: Tally,
    /// Wall-clock time of the work, in nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the work, in nanoseconds.
    pub cpu_ns: u64,
    /// Counts of the memory during the work.
    pub counters: Counters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Prepare,
    Run,
}

impl FileLoad {
    /// The names of all loads.
    pub fn names() -> impl Iterator<Item = &'static str> {
        LOADS.keys().map(String::as_str)
    }

    /// The load of this name.
    ///
    /// # Panics
    /// If there is none.
    pub fn of(name: &str) -> Self {
        *LOADS.get(name).unwrap_or_else(|| panic!("no load {name}"))
    }

    /// The stack's budget in bytes for this amount of work; 0 = no limit.
    pub fn budget(&self, amount: u32) -> u64 {
        let pages = match self.kind {
            Kind::Sparse(Sparse { pages, .. }) | Kind::Bonnie(Bonnie { pages, .. }) => pages,
            _ => 0,
        };
        let of_files = u64::from(amount) * pages * PAGE_BYTES as u64;
        (self.budget_mib << 20) + of_files * self.budget_percent / 100
    }

    /// Runs the load with this many tasks. The load's kind defines what `amount` counts.
    ///
    /// # Panics
    /// If there is no memory left, or a CPU is not ours to use.
    pub fn run<M: FileCache>(&self, memory: &M, scale: Scale<'_>, amount: u32) -> Loaded {
        // As with vm.dirty_ratio of Linux 4.14, a fifth of the memory may be dirty.
        let most_dirty = match self.budget(amount) {
            0 => u64::MAX,
            budget => budget / PAGE_BYTES as u64 / 5,
        };
        let system = FileSystem::new(memory, self.directories, self.device, most_dirty);
        let tally = Mutex::new(Tally::default());
        let stage = Stage::new(scale.tasks);
        let replayed = scope(|scope| {
            for index in 0..scale.tasks {
                let (stage, system, tally) = (&stage, &system, &tally);
                let place = (index as u32, scale.tasks as u32);
                spawn(scope, scale.cpus, index, move || {
                    stage.follow(|order| {
                        let done = self.carry_out(order, system, amount, place);
                        if order == Order::Run {
                            tally.lock().add(&done);
                        }
                    });
                });
            }
            stage.conduct(memory, Order::Prepare);
            let replayed = stage.conduct(memory, Order::Run);
            stage.end();
            replayed
        });
        system.end();
        let Replayed { wall_ns, cpu_ns, counters, .. } = replayed;
        Loaded { tally: tally.into_inner(), wall_ns, cpu_ns, counters }
    }

    fn carry_out<M: FileCache>(
        &self,
        order: Order,
        system: &FileSystem<'_, M>,
        amount: u32,
        place: (u32, u32),
    ) -> Tally {
        match (order, self.kind) {
            (Order::Prepare, Kind::Sparse(load)) => load.prepare(system, amount),
            (Order::Prepare, Kind::Bonnie(load)) => load.prepare(system, amount),
            (Order::Prepare, Kind::Varmail(load)) => load.prepare(system, place),
            (Order::Prepare, Kind::Dbench(load)) => load.prepare(system, place),
            (Order::Prepare, Kind::Aim(load)) => drop(load.run(system, 1, place)),
            (Order::Run, Kind::Sparse(load)) => return load.run(system, amount),
            (Order::Run, Kind::Bonnie(load)) => return load.run(system, amount),
            (Order::Run, Kind::Varmail(load)) => return load.run(system, amount, place),
            (Order::Run, Kind::Dbench(load)) => return load.run(system, amount, place),
            (Order::Run, Kind::Aim(load)) => return load.run(system, amount, place),
        }
        Tally::default()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::file_cache::tests::Naive;
    use crate::memory::KernelMemory;
    use crate::policies::Policies;
    use crate::stack::{Machine, Replay};
    use quarry_cache::page_cache::TruncationPolicy;
    use std::time::Duration;

    /// Runs a small amount of a load on a memory, and checks that the load found all its bytes.
    fn run_some<M: FileCache>(name: &str, memory: &M, tasks: usize, amount: u32) -> Loaded {
        let mut load = FileLoad::of(name);
        load.device = Device::default();
        let still = Duration::ZERO;
        let scale = Scale { tasks, cpus: &[], warm_up: still, measured: still };
        let loaded = load.run(memory, scale, amount);
        assert!(loaded.tally.operations > 0, "{name}");
        assert_eq!(loaded.tally.verified, loaded.tally.operations, "{name}");
        assert_eq!(memory.check_at_end(), Ok(()), "{name}");
        loaded
    }

    #[test]
    fn every_load_finds_its_bytes_and_gives_everything_back() {
        for name in FileLoad::names() {
            let tasks = match FileLoad::of(name).kind {
                Kind::Sparse(_) | Kind::Bonnie(_) => 1,
                _ => 2,
            };
            run_some(name, &Naive::default(), tasks, 2);
        }
    }

    /// A load and its amount, to be run on a stack.
    struct OnStack(&'static str, u32);

    impl Replay for OnStack {
        type Output = Loaded;

        fn on<M: FileCache>(self, memory: &M) -> Loaded {
            run_some(self.0, memory, 1, self.1)
        }
    }

    /// Runs a small amount of a load on a stack, within the load's budget.
    fn on_stack(policies: &str, name: &'static str, amount: u32) -> Loaded {
        let budget = FileLoad::of(name).budget(amount);
        let machine = Machine { cpus: 16, memory: 0, nodes: 1, budget };
        let policies: Policies = policies.parse().unwrap();
        policies.replay(machine, OnStack(name, amount)).unwrap()
    }

    #[test]
    fn every_load_runs_on_every_rung() {
        for (rung, _) in TruncationPolicy::ALL {
            for name in FileLoad::names() {
                for policies in [rung.to_owned(), format!("{rung}+cold+batched")] {
                    on_stack(&policies, name, 2);
                }
            }
        }
    }

    /// Half of the pages of the files that a load unlinks were evicted; shadow entries are left.
    #[test]
    fn files_of_twice_the_memory_are_evicted() {
        for rung in ["vanilla", "mel"] {
            let loaded = on_stack(rung, "sparsetruncate-large", 16);
            let dropped = loaded.counters.pages_truncated;
            assert!((4 << 10..11 << 10).contains(&dropped), "{rung}: {dropped} of 16,384 pages");
        }
        let loaded = on_stack("jan", "bonnie-rand-read", 40);
        assert!(loaded.counters.evicted > 500, "{:?}", loaded.counters);
    }

    #[test]
    fn a_small_cache_loses_nothing() {
        for name in ["varmail", "dbench4", "reaim", "bonnie-seq-read"] {
            // Fewer pages than the files of these loads have, but more than may be dirty at once.
            let memory = Naive::of(3_000);
            let mut load = FileLoad::of(name);
            load.device = Device::default();
            load.budget_mib = 1;
            let still = Duration::ZERO;
            let scale = Scale { tasks: 1, cpus: &[], warm_up: still, measured: still };
            let loaded = load.run(&memory, scale, 8);
            assert_eq!(loaded.tally.verified, loaded.tally.operations, "{name}");
            assert_eq!(memory.check_at_end(), Ok(()), "{name}");
        }
    }

    #[test]
    fn every_unlink_is_timed_and_drops_the_whole_file() {
        let loaded = run_some("sparsetruncate-tiny", &Naive::default(), 1, 2);
        assert_eq!((loaded.tally.operations, loaded.tally.each_us.len()), (2, 2));
        assert_eq!(loaded.counters.pages_truncated, 2 * 1024);
    }
}
