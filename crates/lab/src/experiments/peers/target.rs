//! What is to be reached against the peers: the table's rows, as data.

use super::part::Part;
use super::{HELD_AFTER, PEAK, TIME};
use crate::patterns::{Family, Pattern};
use quarry_compare::allocators::GLIBC;

/// With whom one is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Against {
    /// On every workload the peer that is best there.
    Best,
    /// Every peer, or every peer whose name begins with one of these: `jemalloc` is also
    /// `jemalloc-new`.
    Each(&'static [&'static str]),
}

/// How the workloads of a target come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Their mean has to reach it: of ratios the geometric one.
    Mean,
    /// Every one of them has to.
    EachWorkload,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The figure divided by the peer's.
    Ratio,
    /// The figure less the peer's, in this unit.
    Difference(&'static str),
}

/// One row: `at_most` in relation to those it is `against`.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    /// What is done.
    pub(crate) work: &'static str,
    /// Which workloads that is.
    pub(crate) has: fn(&Part) -> bool,
    /// Name of the metric; of all of them less is better.
    pub(crate) metric: &'static str,
    /// With whom it is compared.
    pub(crate) against: Against,
    /// What of the workloads has to reach it.
    pub(crate) over: Over,
    /// What is compared.
    pub(crate) relation: Relation,
    /// What is to be reached.
    pub(crate) at_most: f64,
}

const ANY: Against = Against::Each(&[]);

const fn ratio(
    work: &'static str,
    has: fn(&Part) -> bool,
    metric: &'static str,
    against: Against,
    at_most: f64,
) -> Target {
    Target { work, has, metric, against, over: Over::Mean, relation: Relation::Ratio, at_most }
}

const fn time(
    work: &'static str,
    has: fn(&Part) -> bool,
    against: Against,
    at_most: f64,
) -> Target {
    ratio(work, has, TIME, against, at_most)
}

fn is_of(part: &Part, family: Family) -> bool {
    matches!(part, Part::Pattern(pattern) if pattern.family() == family)
}

fn is_pair(part: &Part) -> bool {
    is_of(part, Family::Pairs)
}

fn is_latency(part: &Part) -> bool {
    is_of(part, Family::Latency)
}

/// The rows, in their order.
pub(crate) const TARGETS: &[Target] = &[
    time("pairs, 16 B to 32 KiB", is_pair, Against::Best, 1.03),
    time("batches of 1,000, 16 B to 32 KiB", |it| is_of(it, Family::Batches), Against::Best, 1.03),
    time("batches of 4 KiB and 32 KiB", is_large_batch, Against::Best, 0.5),
    time("replacement in 10,000", |it| is_of(it, Family::WorkingSets), ANY, 0.85),
    time("producer / consumer, ring", |it| is_of(it, Family::Handovers), ANY, 0.7),
    time("server, larson, mixed", |it| is_of(it, Family::Servers), ANY, 0.95),
    time("realloc", |it| is_of(it, Family::Reallocs), ANY, 1.0),
    time("calloc", |it| is_of(it, Family::Callocs), ANY, 1.0),
    time("growth", |it| matches!(it, Part::Growth(_)), Against::Each(&[GLIBC]), 0.6),
    time("real programs, mean", is_program, ANY, 0.97),
    Target {
        over: Over::EachWorkload,
        ..time("real programs, each", is_program, Against::Best, 1.03)
    },
    ratio("peak RSS, mean of all above", Part::has_peak, PEAK, LEAN, 1.0),
    Target {
        over: Over::EachWorkload,
        relation: Relation::Difference("KiB"),
        ..ratio("RSS of small processes", is_small, PEAK, Against::Each(&[GLIBC]), 512.0)
    },
    ratio("p99 of a free and malloc", is_latency, "p99_ns", Against::Best, 1.0),
    ratio("p99.9", is_latency, "p99_9_ns", Against::Best, 1.0),
    ratio("p99.99", is_latency, "p99_99_ns", Against::Best, 1.0),
    Target {
        relation: Relation::Difference("MiB"),
        ..ratio("RSS 2 s after a burst", is_burst, HELD_AFTER, Against::Best, 0.0)
    },
    time("a short-lived thread", |it| is_of(it, Family::ShortLives), Against::Best, 1.0),
    time("a fork", |it| is_of(it, Family::Forks), Against::Each(&[GLIBC]), 1.1),
];

/// Whose peak memory counts.
const LEAN: Against = Against::Each(&["mimalloc", "snmalloc", "jemalloc", "tcmalloc"]);

fn is_large_batch(part: &Part) -> bool {
    matches!(part, Part::Pattern(Pattern::Batch { size: 4096.., .. }))
}

fn is_program(part: &Part) -> bool {
    matches!(part, Part::Program(_))
}

fn is_burst(part: &Part) -> bool {
    matches!(part, Part::Burst)
}

/// Those that hold next to nothing: what they have is the allocator's own.
fn is_small(part: &Part) -> bool {
    is_pair(part) || matches!(part, Part::SmallProcess)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_has_a_target_and_every_target_a_workload() {
        let all = Part::all();
        for target in TARGETS {
            assert!(all.iter().any(|part| (target.has)(part)), "{}", target.work);
        }
        for part in all {
            let is_judged = |target: &&Target| target.metric != PEAK && (target.has)(&part);
            let own = TARGETS.iter().filter(is_judged).count();
            assert!(own > 0 || matches!(part, Part::SmallProcess), "{part}");
        }
    }
}
