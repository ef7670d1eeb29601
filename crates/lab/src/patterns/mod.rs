//! Workloads on malloc and free. Everything but these calls is the same for all allocators and
//! fixed here: each block has its first word written when it is allocated and checked when it is
//! freed.

mod batch;
pub(crate) mod churn;
pub(crate) mod empty;
pub(crate) mod growth;
mod handover;
pub(crate) mod heap;
pub(crate) mod idle;
mod pair;
pub(crate) mod side_by_side;
pub(crate) mod watched;
pub(crate) mod window;
mod working_set;

use heap::Heap;
use std::fmt;
use std::str::FromStr;
use window::{Budget, Window};

/// In which order a batch is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeOrder {
    /// Last allocated, first freed.
    Lifo,
    /// First allocated, first freed.
    Fifo,
}

/// One workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Allocate a block, free it, again and again. Operation: a pair of calls.
    Pair { size: usize },
    /// Allocate 1,000 blocks, free them all. Operation: one block.
    Batch { size: usize, order: FreeOrder },
    /// Replace a random one of 10,000 blocks by one of a random size (logarithmically uniform from
    /// 16 bytes to `largest`). Operation: one replacement.
    WorkingSet { largest: usize },
    /// One thread allocates a head of 256 bytes and a payload, another frees them; they pass
    /// through a bounded queue in bursts of 64. Operation: one head with its payload.
    Handover { payload: usize },
}

/// A family of workloads, for summaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Pairs,
    Batches,
    WorkingSets,
    Handovers,
}

impl Family {
    /// All of them, in the order of tables.
    pub(crate) const ALL: [Self; 4] =
        [Self::Pairs, Self::Batches, Self::WorkingSets, Self::Handovers];

    /// What it is called in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Batches => "batches of 1,000",
            Self::WorkingSets => "working set of 10,000",
            Self::Handovers => "producer / consumer",
        }
    }
}

const SIZES: [usize; 6] = [16, 64, 256, 1024, 4096, 32768];
const LARGEST: [usize; 2] = [1024, 32768];
const PAYLOADS: [usize; 4] = [64, 512, 4096, 16384];

impl Pattern {
    /// Every workload of the experiment, in the order of tables.
    pub(crate) fn all() -> Vec<Self> {
        let mut all: Vec<Self> = SIZES.map(|size| Self::Pair { size }).to_vec();
        for order in [FreeOrder::Lifo, FreeOrder::Fifo] {
            all.extend(SIZES.map(|size| Self::Batch { size, order }));
        }
        all.extend(LARGEST.map(|largest| Self::WorkingSet { largest }));
        all.extend(PAYLOADS.map(|payload| Self::Handover { payload }));
        all
    }

    /// The family that it belongs to.
    pub(crate) fn family(self) -> Family {
        match self {
            Self::Pair { .. } => Family::Pairs,
            Self::Batch { .. } => Family::Batches,
            Self::WorkingSet { .. } => Family::WorkingSets,
            Self::Handover { .. } => Family::Handovers,
        }
    }

    /// Whether it has a second thread, so that time is spent waiting and only the wall clock tells
    /// what an operation took.
    pub(crate) fn is_threaded(self) -> bool {
        matches!(self, Self::Handover { .. })
    }

    /// Runs it on `heap`. A second thread, where there is one, is bound to `second_cpu`.
    pub(crate) fn run(self, heap: Heap, budget: Budget, second_cpu: Option<usize>) -> Window {
        match self {
            Self::Pair { size } => pair::run(heap, budget, size),
            Self::Batch { size, order } => batch::run(heap, budget, size, order),
            Self::WorkingSet { largest } => working_set::run(heap, budget, largest),
            Self::Handover { payload } => handover::run(heap, budget, payload, second_cpu),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pair { size } => write!(f, "pair-{size}"),
            Self::Batch { size, order: FreeOrder::Lifo } => write!(f, "batch-lifo-{size}"),
            Self::Batch { size, order: FreeOrder::Fifo } => write!(f, "batch-fifo-{size}"),
            Self::WorkingSet { largest } => write!(f, "random-{largest}"),
            Self::Handover { payload } => write!(f, "handover-{payload}"),
        }
    }
}

/// A name that stands for no workload.
#[derive(Debug)]
pub(crate) struct UnknownPattern(String);

impl fmt::Display for UnknownPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let accepted: Vec<String> = Pattern::all().iter().map(ToString::to_string).collect();
        write!(f, "no pattern {}; accepted: {}", self.0, accepted.join(", "))
    }
}

impl std::error::Error for UnknownPattern {}

impl FromStr for Pattern {
    type Err = UnknownPattern;

    fn from_str(name: &str) -> Result<Self, UnknownPattern> {
        let known = Self::all().into_iter().find(|pattern| pattern.to_string() == name);
        known.ok_or_else(|| UnknownPattern(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn names_lead_back_to_their_patterns() {
        for pattern in Pattern::all() {
            assert_eq!(pattern.to_string().parse::<Pattern>().unwrap(), pattern);
        }
        let error = "pair-17".parse::<Pattern>().unwrap_err().to_string();
        assert!(error.starts_with("no pattern pair-17; accepted: pair-16, "), "{error}");
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
            let window = pattern.run(Heap::of_this_process(), budget, None);
            assert!(window.operations > 0 && window.wall_ns > 0, "{pattern}");
            assert_eq!(window.verified, window.operations, "{pattern}");
        }
    }
}
