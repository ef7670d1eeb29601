//! Workloads on malloc and free. Everything but these calls is the same for all allocators and
//! fixed here: each block has its first word written when it is allocated and checked when it is
//! freed.

mod batch;
pub(crate) mod churn;
pub(crate) mod empty;
mod fork;
pub(crate) mod growth;
mod handover;
pub(crate) mod heap;
pub(crate) mod idle;
mod larson;
pub(crate) mod latency;
mod mixed;
mod others;
mod pair;
mod resize;
mod ring;
mod server;
pub(crate) mod side_by_side;
pub(crate) mod watched;
pub(crate) mod window;
mod working_set;

use batch::FreeOrder;
use heap::Heap;
use others::Others;
use resize::Steps;
use serde::{Deserialize, Serialize};
use std::fmt;
use window::{Budget, Window};

/// One workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Pattern {
    /// Allocate a block, free it, again and again. Operation: a pair of calls.
    Pair { size: usize },
    /// Allocate 1,000 blocks, free them all. Operation: one block.
    Batch { size: usize, order: FreeOrder },
    /// Replace a random one of 10,000 blocks by one of a random size (logarithmically uniform from
    /// 16 bytes to `largest`). Operation: one replacement, on one of `threads` threads.
    WorkingSet { largest: usize, threads: usize },
    /// One thread allocates a head of 256 bytes and a payload, another frees them; they pass
    /// through a bounded queue in bursts of 64. Operation: one head with its payload.
    Handover { payload: usize },
    /// Threads in a ring do the same, each to the next; what passing on costs is subtracted.
    Ring { payload: usize },
    /// An acceptor hands requests to threads that serve 64 and end. Operation: one request.
    Server,
    /// Threads end and leave their blocks to successors. Operation: one replacement.
    Larson,
    /// All sizes, lives and owners. Operation: one replacement.
    Mixed,
    /// A block grows. Operation: one realloc.
    Realloc { steps: Steps },
    /// A zeroed block is looked at, written and freed. Operation: one block.
    Calloc { size: usize },
    /// A thread allocates 100 blocks, frees them and ends. Operation: one thread.
    ShortLives,
    /// A process with a small heap forks; the child allocates, frees and ends. Operation: one fork.
    Fork,
    /// The longest times of one free and malloc. Operation: one replacement.
    Latency,
}

/// A family of workloads, for summaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Pairs,
    Batches,
    WorkingSets,
    Handovers,
    Servers,
    Reallocs,
    Callocs,
    ShortLives,
    Forks,
    Latency,
}

impl Family {
    /// All of them, in the order of tables.
    pub(crate) const ALL: [Self; 10] = [
        Self::Pairs,
        Self::Batches,
        Self::WorkingSets,
        Self::Handovers,
        Self::Servers,
        Self::Reallocs,
        Self::Callocs,
        Self::ShortLives,
        Self::Forks,
        Self::Latency,
    ];

    /// Returns its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Batches => "batches of 1,000",
            Self::WorkingSets => "working set of 10,000",
            Self::Handovers => "producer / consumer",
            Self::Servers => "servers and mixed stress",
            Self::Reallocs => "realloc",
            Self::Callocs => "calloc",
            Self::ShortLives => "short-lived threads",
            Self::Forks => "forks",
            Self::Latency => "latency",
        }
    }
}

const SIZES: [usize; 6] = [16, 64, 256, 1024, 4096, 32768];
const LARGEST: [usize; 2] = [1024, 32768];
const PAYLOADS: [usize; 4] = [64, 512, 4096, 16384];
/// Most threads of a ring; it has as many as there are CPUs.
const RING_MOST: usize = 4;
const ZEROED: [usize; 4] = [1 << 10, 32 << 10, 1 << 20, 64 << 20];

/// The outcome of a sample of a pattern: its window, and further figures by name.
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
    /// Every workload of the experiment, in the order of tables.
    pub(crate) fn all() -> Vec<Self> {
        let mut all: Vec<Self> = SIZES.map(|size| Self::Pair { size }).to_vec();
        for order in [FreeOrder::Lifo, FreeOrder::Fifo, FreeOrder::Shuffled] {
            all.extend(SIZES.map(|size| Self::Batch { size, order }));
        }
        for threads in [1, 2] {
            all.extend(LARGEST.map(|largest| Self::WorkingSet { largest, threads }));
        }
        all.extend(PAYLOADS.map(|payload| Self::Handover { payload }));
        all.extend(PAYLOADS.map(|payload| Self::Ring { payload }));
        all.extend([Self::Server, Self::Larson, Self::Mixed]);
        let steps = [Steps::Small, Steps::Geometric, Steps::Pages];
        all.extend(steps.map(|steps| Self::Realloc { steps }));
        all.extend(ZEROED.map(|size| Self::Calloc { size }));
        all.extend([Self::ShortLives, Self::Fork, Self::Latency]);
        all
    }

    /// Returns whether a quick run has it: of several sizes it has the ends or one, and it lacks
    /// the one that takes longer than all others.
    pub(crate) fn is_quick(self) -> bool {
        match self {
            Self::Pair { size } | Self::Batch { size, .. } => size == 16 || size == 32768,
            Self::Handover { payload } | Self::Ring { payload } => payload == 512,
            Self::WorkingSet { largest, .. } => largest == 32768,
            Self::Realloc { steps } => steps != Steps::Pages,
            Self::Calloc { size } => size == 1 << 10 || size == 1 << 20,
            _ => true,
        }
    }

    /// The family that it belongs to.
    pub(crate) fn family(self) -> Family {
        match self {
            Self::Pair { .. } => Family::Pairs,
            Self::Batch { .. } => Family::Batches,
            Self::WorkingSet { .. } => Family::WorkingSets,
            Self::Handover { .. } | Self::Ring { .. } => Family::Handovers,
            Self::Server | Self::Larson | Self::Mixed => Family::Servers,
            Self::Realloc { .. } => Family::Reallocs,
            Self::Calloc { .. } => Family::Callocs,
            Self::ShortLives => Family::ShortLives,
            Self::Fork => Family::Forks,
            Self::Latency => Family::Latency,
        }
    }

    /// Returns whether it has further threads or processes, so that it spends time waiting and only
    /// the wall clock tells how long an operation took.
    pub(crate) fn is_threaded(self) -> bool {
        match self {
            Self::WorkingSet { threads, .. } => threads > 1,
            Self::Pair { .. } | Self::Batch { .. } => false,
            Self::Realloc { .. } | Self::Calloc { .. } => false,
            _ => true,
        }
    }

    /// Runs it on `heap`, on the first of `cpus`; further threads are bound to the others.
    pub(crate) fn run(self, heap: Heap, budget: Budget, cpus: &[usize]) -> Outcome {
        let one = Others { count: 1, cpus };
        match self {
            Self::Pair { size } => pair::run(heap, budget, size).into(),
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
            Self::Larson => larson::run(heap, budget, one).into(),
            Self::Mixed => mixed::run(heap, budget, one).into(),
            Self::Realloc { steps } => resize::run_realloc(heap, budget, steps).into(),
            Self::Calloc { size } => resize::run_calloc(heap, budget, size).into(),
            Self::ShortLives => server::run_short_lives(heap, budget).into(),
            Self::Fork => fork::run(heap, budget).into(),
            Self::Latency => {
                let (window, figures) = latency::run(heap, budget, one);
                Outcome { window, figures }
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pair { size } => write!(f, "pair-{size}"),
            Self::Batch { size, order: FreeOrder::Lifo } => write!(f, "batch-lifo-{size}"),
            Self::Batch { size, order: FreeOrder::Fifo } => write!(f, "batch-fifo-{size}"),
            Self::Batch { size, order: FreeOrder::Shuffled } => write!(f, "batch-shuffled-{size}"),
            Self::WorkingSet { largest, threads: 1 } => write!(f, "random-{largest}"),
            Self::WorkingSet { largest, threads } => {
                write!(f, "random-{threads}-threads-{largest}")
            }
            Self::Handover { payload } => write!(f, "handover-{payload}"),
            Self::Ring { payload } => write!(f, "ring-{payload}"),
            Self::Server => write!(f, "server"),
            Self::Larson => write!(f, "larson"),
            Self::Mixed => write!(f, "mixed"),
            Self::Realloc { steps: Steps::Small } => write!(f, "realloc-small"),
            Self::Realloc { steps: Steps::Geometric } => write!(f, "realloc-geometric"),
            Self::Realloc { steps: Steps::Pages } => write!(f, "realloc-pages"),
            Self::Calloc { size } => write!(f, "calloc-{size}"),
            Self::ShortLives => write!(f, "thread"),
            Self::Fork => write!(f, "fork"),
            Self::Latency => write!(f, "latency"),
        }
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
        for family in Family::ALL {
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
}
