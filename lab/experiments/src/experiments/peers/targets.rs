//! The targets: the figures that Quarry should reach compared with its peers.

use super::part::{HELD_AFTER, Part, TIME};
use crate::experiments::malloc_patterns::PEAK;
use crate::patterns::{Family, Pattern};
use quarry_compare::allocators::GLIBC;
use quarry_harness::results::{Against, Over, Relation, Target};

pub(super) fn all() -> Vec<Target> {
    let best = || Against::Best;
    let each = |names: &[&str]| Against::Each(names.iter().map(|it| (*it).to_owned()).collect());
    let any = || each(&[]);
    vec![
        time("everything, mean", Part::is_of_everything, any(), 0.9),
        time("pairs, mean", is_pair, best(), 1.0),
        time("pairs in other forms, mean", |it| is_of(it, Family::PairForms), best(), 1.0),
        each_one(time("pairs, each", is_any_pair, best(), 1.0)),
        time("batches of 1,000, 16 B to 32 KiB", |it| is_of(it, Family::Batches), best(), 1.03),
        time("batches of 4 KiB and 32 KiB", is_large_batch, best(), 0.5),
        time("replacement in 10,000", |it| is_of(it, Family::WorkingSets), any(), 0.85),
        time("producer / consumer, ring", |it| is_of(it, Family::Handovers), any(), 0.7),
        time("server, larson, mixed, phases", is_stress, any(), 0.95),
        time("realloc", |it| is_of(it, Family::Reallocs), any(), 1.0),
        time("calloc", |it| is_of(it, Family::Callocs), any(), 1.0),
        time("growth", |it| matches!(it, Part::Growth(_)), each(&[GLIBC]), 0.6),
        time("real programs, mean", is_program, any(), 0.97),
        each_one(time("real programs, each", is_program, best(), 1.03)),
        ratio("peak RSS, patterns", is_no_program, PEAK, any(), 0.8),
        ratio("peak RSS, real programs", is_program, PEAK, any(), 0.9),
        each_one(difference("RSS of small processes", is_small, PEAK, each(&[GLIBC]), 256.0)),
        ratio("p99 of a free and malloc", is_latency, "p99_ns", best(), 1.0),
        ratio("p99.9", is_latency, "p99_9_ns", best(), 1.0),
        ratio("p99.99", is_latency, "p99_99_ns", best(), 1.0),
        difference("RSS 2 s after a burst", is_burst, HELD_AFTER, best(), 0.0),
        time("a short-lived thread", |it| is_of(it, Family::ShortLives), best(), 1.0),
        time("a fork", |it| is_of(it, Family::Forks), best(), 1.05),
        time("a start of `true`", |it| matches!(it, Part::SmallProcess), best(), 1.05),
        each_one(time("a start of bash, of python3", is_start, best(), 1.05)),
    ]
}

fn ratio(
    work: &str,
    has: impl Fn(&Part) -> bool,
    metric: &str,
    against: Against,
    at_most: f64,
) -> Target {
    let workloads = Part::all().into_iter().filter(has).map(|it| it.to_string()).collect();
    Target {
        work: work.to_owned(),
        workloads,
        metric: metric.to_owned(),
        against,
        over: Over::Mean,
        relation: Relation::Ratio,
        at_most,
    }
}

fn time(work: &str, has: impl Fn(&Part) -> bool, against: Against, at_most: f64) -> Target {
    ratio(work, has, TIME, against, at_most)
}

fn difference(
    work: &str,
    has: impl Fn(&Part) -> bool,
    metric: &str,
    against: Against,
    at_most: f64,
) -> Target {
    Target { relation: Relation::Difference, ..ratio(work, has, metric, against, at_most) }
}

/// The same target for each workload by itself.
fn each_one(target: Target) -> Target {
    Target { over: Over::EachWorkload, ..target }
}

fn is_of(part: &Part, family: Family) -> bool {
    matches!(part, Part::Pattern(pattern) if pattern.family() == family)
}

fn is_pair(part: &Part) -> bool {
    is_of(part, Family::Pairs)
}

fn is_any_pair(part: &Part) -> bool {
    is_pair(part) || is_of(part, Family::PairForms)
}

fn is_stress(part: &Part) -> bool {
    is_of(part, Family::Servers) || is_of(part, Family::Phases)
}

fn is_latency(part: &Part) -> bool {
    is_of(part, Family::Latency)
}

fn is_large_batch(part: &Part) -> bool {
    matches!(part, Part::Pattern(Pattern::Batch { size: 4096.., .. }))
}

fn is_program(part: &Part) -> bool {
    matches!(part, Part::Program(_))
}

fn is_no_program(part: &Part) -> bool {
    part.is_of_everything() && !is_program(part)
}

fn is_burst(part: &Part) -> bool {
    matches!(part, Part::Burst)
}

fn is_start(part: &Part) -> bool {
    matches!(part, Part::Start(_))
}

/// Returns whether the process holds almost no objects, so that its memory is the allocator's own.
fn is_small(part: &Part) -> bool {
    is_pair(part) || matches!(part, Part::SmallProcess)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_has_a_target_and_every_target_a_workload() {
        let targets = all();
        for target in &targets {
            assert!(!target.workloads.is_empty(), "{}", target.work);
        }
        for part in Part::all() {
            let name = part.to_string();
            let is_judged = |it: &&Target| it.metric != PEAK && it.workloads.contains(&name);
            let own = targets.iter().filter(is_judged).count();
            assert!(own > 0, "{part}");
        }
    }
}
