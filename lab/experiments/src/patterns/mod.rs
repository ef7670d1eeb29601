//! Workloads on malloc and free. Apart from these calls they are the same for all allocators. The
//! first word of each block is written when it is allocated and checked when it is freed.
//!
//! A new pattern is a file here and a table in `data/patterns.toml`.

mod batch;
pub(crate) mod churn;
pub(crate) mod empty;
pub(crate) mod fleet;
mod fork;
pub(crate) mod growth;
mod handover;
pub(crate) mod heap;
pub(crate) mod idle;
pub(crate) mod latency;
mod mixed;
mod others;
mod pair;
mod phases;
mod resize;
mod ring;
mod server;
pub(crate) mod watched;
pub(crate) mod window;
mod working_set;

use batch::FreeOrder;
use heap::Heap;
use others::Others;
use pair::Form;
use quarry_harness::affinity;
use resize::Steps;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Barrier, LazyLock};
use std::thread;
use window::{Budget, Window};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Pattern {
    /// Allocates a block or a few and frees them, again and again. Operation: a pair of calls.
    Pair {
        size: usize,
        #[serde(default)]
        form: Form,
    },
    /// Allocates 1,000 blocks, then frees them. Operation: one block.
    Batch { size: usize, order: FreeOrder },
    /// Replaces a random one of 10,000 blocks by one of a random size, logarithmically uniform from
    /// 16 bytes to `largest`. Operation: one replacement, on one of `threads` threads.
    WorkingSet { largest: usize, threads: usize },
    /// One thread allocates a head of 256 bytes and a payload, another frees both. They pass
    /// through a bounded queue in bursts of 64. Operation: one head with its payload.
    Handover { payload: usize },
    /// `Handover` in a ring of threads, each to the next one, less the cost of passing blocks on.
    Ring { payload: usize },
    /// An acceptor hands requests to threads, which serve 64 each and end. Operation: one request.
    Server,
    /// Threads end and leave their blocks to successors. Operation: one replacement.
    Larson,
    /// Blocks of all sizes and lifetimes, freed by any thread. Operation: one replacement.
    Mixed,
    /// Two threads alternate between small sets, handovers and long bursts. Operation: one block.
    Phases,
    /// A block grows step by step. Operation: one realloc.
    Realloc { steps: Steps },
    /// A zeroed block is read, written and freed. Operation: one block.
    Calloc { size: usize },
    /// One of `live` blocks of 5 to 25 MiB is replaced, and each page of the new one is written.
    /// Operation: one replacement.
    Large { live: usize },
    /// A thread allocates 100 blocks, frees them and ends. Operation: one thread.
    ShortLives,
    /// A process with a small heap forks; the child allocates, frees and ends. Operation: one fork.
    Fork,
    /// Quantiles of the time of one free and one malloc. Operation: one replacement.
    Latency,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Family {
    Pairs,
    PairForms,
    Batches,
    WorkingSets,
    Handovers,
    Servers,
    Phases,
    Reallocs,
    Callocs,
    LargeBlocks,
    ShortLives,
    Forks,
    Latency,
}

impl Family {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|of| of.family)
    }

    pub(crate) fn name(self) -> &'static str {
        TABLE.iter().find(|of| of.family == self).map_or("", |of| &of.name)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Patterns {
    name: String,
    family: Family,
    patterns: Vec<Row>,
}

/// All patterns. Samples never read the table, because reading it allocates memory.
static TABLE: LazyLock<Vec<Patterns>> =
    LazyLock::new(|| crate::tables::tables(include_str!("../../data/patterns.toml"), "family"));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    work: Pattern,
    #[serde(default = "yes")]
    quick: bool,
}

fn yes() -> bool {
    true
}

/// Maximum number of threads of a ring. It has one for each CPU, but at least two.
const RING_MOST: usize = 4;

#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) window: Window,
    pub(crate) figures: Vec<(&'static str, f64)>,
}

impl From<Window> for Outcome {
    fn from(window: Window) -> Self {
        Self { window, figures: Vec::new() }
    }
}

impl Pattern {
    pub(crate) fn all() -> Vec<Self> {
        TABLE.iter().flat_map(|of| &of.patterns).map(|row| row.work).collect()
    }

    fn row(self) -> (Family, &'static Row) {
        let row_in = |of: &'static Patterns| {
            Some((of.family, of.patterns.iter().find(|row| row.work == self)?))
        };
        TABLE.iter().find_map(row_in).expect("every pattern that runs is in the table")
    }

    pub(crate) fn is_quick(self) -> bool {
        self.row().1.quick
    }

    pub(crate) fn family(self) -> Family {
        self.row().0
    }

    /// Returns whether the pattern has further threads or processes. Such a pattern also waits, so
    /// only the wall clock shows how long an operation takes.
    pub(crate) fn is_threaded(self) -> bool {
        match self {
            Self::WorkingSet { threads, .. } => threads > 1,
            Self::Pair { .. } | Self::Batch { .. } => false,
            Self::Realloc { .. } | Self::Calloc { .. } | Self::Large { .. } => false,
            _ => true,
        }
    }

    /// Runs the pattern on `heap`. The caller has bound this thread to the first of `cpus`; the
    /// pattern binds its further threads to the other CPUs in turn.
    pub(crate) fn run(self, heap: Heap, budget: Budget, cpus: &[usize]) -> Outcome {
        let one = Others { count: 1, cpus };
        match self {
            Self::Pair { size, form } => pair::run(heap, budget, size, form).into(),
            Self::Batch { size, order } => batch::run(heap, budget, size, order).into(),
            Self::WorkingSet { largest, threads } => {
                let others = Others { count: threads - 1, cpus };
                working_set::run(heap, budget, largest, others).into()
            }
            Self::Handover { payload } => handover::run(heap, budget, payload, one).into(),
            Self::Ring { payload } => {
                let others = Others { count: cpus.len().clamp(2, RING_MOST) - 1, cpus };
                ring::run(heap, budget, payload, others).into()
            }
            Self::Server => server::run(heap, budget, one).into(),
            Self::Larson => server::run_larson(heap, budget, one).into(),
            Self::Phases => phases::run(heap, budget, one).into(),
            Self::Mixed => mixed::run(heap, budget, one).into(),
            Self::Realloc { steps } => resize::run_realloc(heap, budget, steps).into(),
            Self::Calloc { size } => resize::run_calloc(heap, budget, size).into(),
            Self::Large { live } => resize::run_large(heap, budget, live).into(),
            Self::ShortLives => server::run_short_lives(heap, budget).into(),
            Self::Fork => fork::run(heap, budget).into(),
            Self::Latency => {
                let (window, figures) = latency::run(heap, budget, one);
                Outcome { window, figures }
            }
        }
    }

    /// Runs the pattern on `tasks` threads that begin together, each on the next CPU in turn; a
    /// task's further threads take the CPUs after its own. Returns the windows of all tasks, put
    /// [`together`](window::together).
    ///
    /// # Panics
    /// If a CPU is not allowed, or a task finds that memory was handed out twice.
    pub(crate) fn run_side_by_side(
        self,
        heap: Heap,
        budget: Budget,
        tasks: usize,
        cpus: &[usize],
    ) -> (Window, u64) {
        let own_cpus = |index: usize| {
            let mut own = cpus.to_vec();
            own.rotate_left(index % cpus.len().max(1));
            own
        };
        let start = Barrier::new(tasks);
        let windows: Vec<Window> = thread::scope(|scope| {
            let task = |index: usize| {
                let (start, own_cpus) = (&start, &own_cpus);
                scope.spawn(move || {
                    let cpus = own_cpus(index);
                    if let Some(&cpu) = cpus.first() {
                        affinity::pin(cpu).expect("the CPU is one of those allowed");
                    }
                    start.wait();
                    self.run(heap, budget, &cpus).window
                })
            };
            let threads: Vec<_> = (0..tasks).map(task).collect();
            threads.into_iter().map(|it| it.join().expect("a task found every mark")).collect()
        });
        window::together(&windows)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.row().1.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn names_and_parameters_tell_patterns_apart() {
        let all = Pattern::all();
        for (index, pattern) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|it| it.to_string() != pattern.to_string()));
            let text = serde_json::to_string(pattern).unwrap();
            assert_eq!(serde_json::from_str::<Pattern>(&text).unwrap(), *pattern);
        }
    }

    #[test]
    fn every_family_has_members() {
        for family in Family::all() {
            assert!(Pattern::all().iter().any(|pattern| pattern.family() == family), "{family:?}");
        }
    }

    #[test]
    fn every_pattern_runs_and_counts_operations() {
        let budget = Budget { warm_up: Duration::ZERO, measured: Duration::from_micros(100) };
        for pattern in Pattern::all() {
            let Outcome { window, figures } = pattern.run(Heap::of_this_process(), budget, &[]);
            assert!(window.operations > 0 && window.wall_ns > 0, "{pattern}");
            assert_eq!(window.verified, window.operations, "{pattern}");
            assert_eq!(figures.is_empty(), pattern != Pattern::Latency, "{pattern}");
        }
    }

    #[test]
    fn the_work_of_all_tasks_is_counted() {
        let budget = Budget { warm_up: Duration::ZERO, measured: Duration::from_micros(300) };
        let pair = Pattern::Pair { size: 64, form: Form::One };
        for pattern in [pair, Pattern::Handover { payload: 64 }] {
            let heap = Heap::of_this_process();
            let (window, time_ns) = pattern.run_side_by_side(heap, budget, 3, &[]);
            assert!(window.operations > 0, "{pattern}");
            assert_eq!(window.verified, window.operations, "{pattern}");
            assert!(
                time_ns >= 3 * 300_000 && time_ns >= window.wall_ns,
                "{pattern}: three windows"
            );
        }
    }
}
