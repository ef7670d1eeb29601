//! The figures of a sample, and the targets.

use super::program::{Cache, Work};
use quarry_harness::results::{Against, Direction, Metric, Over, Relation, Target};

pub(super) const LOOKUP: &str = "lookup";
pub(super) const HIT: &str = "hit";
pub(super) const RATE: &str = "hits";
pub(super) const MISSES: &str = "misses";
pub(super) const EVICTION: &str = "eviction";
pub(super) const RESIDENT: &str = "resident";

/// General-purpose caches. A hit on Quarry may take at most `MOST_HIT` times that on the fastest.
const GENERAL: [&str; 3] = ["quick_cache", "moka", "foyer"];
const MOST_HIT: f64 = 0.7;
/// Simulated policies. Quarry's miss ratio may exceed the best by `MOST_POINTS` percentage points.
const POLICIES: [&str; 2] = ["lru", "s3-fifo"];
const MOST_POINTS: f64 = 2.0;

/// All metrics. Simulated policies have only the miss ratio.
pub(super) fn all() -> Vec<Metric> {
    let lower = |name, unit, of| Metric::new(name, unit, Direction::Lower, of);
    let mib = 1.0 / f64::from(1 << 20);
    vec![
        lower(LOOKUP, "ns per lookup", "lookup_ns").per("operations").digits(1).primary(),
        lower(HIT, "ns per hit", "hit_ns").per("hits").digits(1),
        Metric::new(RATE, "million per second and core", Direction::Higher, "hits")
            .per("lookup_ns")
            .times(1e3)
            .digits(2),
        lower(MISSES, "%", "misses").per("operations").times(100.0).digits(2),
        lower(EVICTION, "ns per miss beside the fill", "overhead_ns").per("misses").digits(0),
        lower(RESIDENT, "MiB", "resident_bytes").times(mib).digits(1),
    ]
}

pub(super) fn targets(workloads: &[Work], variants: &[Cache]) -> Vec<Target> {
    let each = |names: &[&str]| {
        let is_there = |name: &&&str| variants.iter().any(|it| it.name == **name);
        Against::Each(names.iter().filter(is_there).map(|it| (*it).to_owned()).collect())
    };
    let target = |work: &Work, metric: &str, against, relation, at_most| Target {
        work: format!("{metric}, {}", work.name),
        workloads: vec![work.name.clone()],
        metric: metric.to_owned(),
        against,
        over: Over::EachWorkload,
        relation,
        at_most,
    };
    let of = |work: &Work| match work.fits {
        true => target(work, HIT, each(&GENERAL), Relation::Ratio, MOST_HIT),
        false => target(work, MISSES, each(&POLICIES), Relation::Difference, MOST_POINTS),
    };
    workloads.iter().map(of).collect()
}
