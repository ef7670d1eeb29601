//! Judges whether a run met its targets, by estimates of the baseline relative to its peers.
//!
//! The best peer of a workload is the one to which the baseline's ratio or difference is highest.
//! The samples that choose this peer also judge the target, so chance can only favour the peer.
//! Where a peer crashes so often that too few samples are left, its other workloads judge it.

use super::decision;
use super::{Column, Reason, Row, Selection};
use crate::results::{Against, Metric, Over, Relation, Run, Target};
use crate::statistics::{Estimate, Interval};
use serde_json::{Value, json};
use std::fmt;

/// The verdict on a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Success {
    /// The whole interval lies at or below the aim.
    Met,
    /// The whole interval lies above the aim.
    Missed,
    /// Undecided, for this reason.
    Unclear(String),
    /// The run has no sample for the target.
    NotRun,
}

impl fmt::Display for Success {
    /// In words, with the reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::Unclear(why) if why.is_empty() => "unclear",
            Self::Unclear(why) => return write!(f, "unclear: {why}"),
            Self::NotRun => "not run",
        })
    }
}

/// Of several workloads, the one that is furthest from the target.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    /// Name of the workload.
    pub workload: String,
    /// Name of the peer.
    pub peer: String,
    /// The ratio or difference to that peer on that workload: the centre of the estimate.
    pub value: f64,
}

/// The judgement on one target. Its values are ratios or differences, as the target defines.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached<'a> {
    /// The target.
    pub target: &'a Target,
    /// The verdict.
    pub success: Success,
    /// The baseline relative to the deciding peer; `None` without a figure.
    pub estimate: Option<Estimate>,
    /// The deciding peer; `None` if the workloads have different best peers.
    pub peer: Option<String>,
    /// The worst of several workloads.
    pub worst: Option<Worst>,
    /// The A/A copy relative to the baseline.
    pub noise: Option<Estimate>,
}

impl<'a> Reached<'a> {
    /// Judges every target of a run, in order.
    pub fn all(run: &'a Run) -> Vec<Self> {
        run.meta.targets.iter().map(|target| Self::of(target, run)).collect()
    }

    /// Returns the judgement as JSON.
    pub fn json(&self) -> Value {
        let (success, reason) = match &self.success {
            Success::Unclear(why) => ("unclear".to_owned(), Some(why)),
            other => (other.to_string(), None),
        };
        let estimate = |it: Option<Estimate>| {
            let ends = |it: Interval| [it.low, it.high];
            it.map(|it| json!({"centre": it.centre, "interval": it.interval.map(ends)}))
        };
        json!({
            "target": self.target,
            "success": success,
            "reason": reason,
            "estimate": estimate(self.estimate),
            "noise": estimate(self.noise),
            "peer": self.peer,
            "worst": self.worst.as_ref().map(|it| json!({
                "workload": it.workload, "peer": it.peer, "centre": it.value,
            })),
        })
    }

    fn of(target: &'a Target, run: &'a Run) -> Self {
        let selection = Selection::of(run);
        let is_meant = |row: &&Row<'a>| target.workloads.iter().any(|name| name == row.workload);
        let rows: Vec<Row<'a>> = selection.rows.iter().filter(is_meant).copied().collect();
        let nothing = |success| Self {
            target,
            success,
            estimate: None,
            peer: None,
            worst: None,
            noise: None,
        };
        let Ok(metric) = run.meta.metric(&target.metric) else { return nothing(Success::NotRun) };
        if rows.is_empty() || run.rounds() == 0 {
            return nothing(Success::NotRun);
        }
        let (peers, absent) = peers(target, &selection);
        let lacking = || Success::Unclear(format!("no {}", absent.join(", ")));
        if peers.is_empty() {
            return nothing(lacking());
        }
        let contest = Contest { selection: &selection, metric, target, rows: &rows };
        let items = contest.items(&peers).into_iter();
        let top = items.max_by(|one, other| {
            one.rank().cmp(&other.rank()).then(one.centre().total_cmp(&other.centre()))
        });
        let mut reached = top.map_or_else(|| nothing(Success::NotRun), |it| contest.reached(it));
        let has_run = |name: &&String| run.meta.workload(name).is_some();
        let (all, run) = (target.workloads.len(), target.workloads.iter().filter(has_run).count());
        // If every workload has to reach the target, one miss decides.
        let is_decided = target.over == Over::EachWorkload && reached.success == Success::Missed;
        if run < all && !is_decided {
            reached.success = Success::Unclear(format!("{run} of {all} workloads"));
        } else if reached.success == Success::Met && !absent.is_empty() {
            reached.success = lacking();
        }
        reached
    }
}

/// Returns the peers of the baseline, and the names of required peers that the run lacks.
fn peers<'a, 's>(
    target: &'a Target,
    selection: &'s Selection<'a>,
) -> (Vec<&'s Column<'a>>, Vec<&'a str>) {
    let all: Vec<&Column<'_>> =
        selection.originals().filter(|it| it.label != selection.baseline().label).collect();
    let wanted = match &target.against {
        Against::Each(wanted) if !wanted.is_empty() => wanted,
        _ if all.is_empty() => return (all, vec!["peer"]),
        _ => return (all, Vec::new()),
    };
    let is_one = |column: &Column<'_>, wanted: &String| column.label.starts_with(wanted);
    let is_absent = |wanted: &&String| !all.iter().any(|column| is_one(column, wanted));
    let absent = wanted.iter().filter(is_absent).map(String::as_str).collect();
    let is_wanted = |column: &&Column<'_>| wanted.iter().any(|wanted| is_one(column, wanted));
    (all.into_iter().filter(is_wanted).collect(), absent)
}

type Pair<'a, 's> = (Row<'a>, &'s Column<'a>);
type Pairs<'a, 's> = Vec<Pair<'a, 's>>;

struct Item<'a, 's> {
    pairs: Pairs<'a, 's>,
    success: Success,
    /// The baseline's difference from the peer, or the logarithm of its ratio to the peer.
    estimate: Option<Estimate>,
}

impl Item<'_, '_> {
    /// The item with the highest rank decides; among equal ranks, the one with the largest centre.
    fn rank(&self) -> u8 {
        match self.success {
            Success::Met | Success::NotRun => 0,
            Success::Unclear(_) if self.estimate.is_none() => 1,
            Success::Unclear(_) => 2,
            Success::Missed => 3,
        }
    }

    fn centre(&self) -> f64 {
        self.estimate.map_or(f64::NEG_INFINITY, |it| it.centre)
    }
}

struct Contest<'a, 's> {
    selection: &'s Selection<'a>,
    metric: &'a Metric,
    target: &'a Target,
    rows: &'s [Row<'a>],
}

impl<'a, 's> Contest<'a, 's> {
    fn estimate(&self, one: &'s Column<'a>, pairs: &Pairs<'a, 's>) -> Result<Estimate, Reason> {
        let (metric, relation) = (self.metric, self.target.relation);
        let of = |cells: &Pairs<'a, 's>| self.selection.figures(cells, metric, relation);
        let own: Pairs<'a, 's> = pairs.iter().map(|(row, _)| (*row, one)).collect();
        Ok(decision::estimate(&of(&own)?, &of(pairs)?, true).ok_or(Reason::NoFigure)?.0)
    }

    fn alone(&self, pair: Pair<'a, 's>) -> Option<Estimate> {
        self.estimate(self.selection.baseline(), &vec![pair]).ok()
    }

    fn best(&self, row: Row<'a>, peers: &[&'s Column<'a>]) -> &'s Column<'a> {
        let above = |peer: &'s Column<'a>| self.alone((row, peer)).map_or(f64::MIN, |it| it.centre);
        peers.iter().copied().max_by(|a, b| above(a).total_cmp(&above(b))).expect("there are peers")
    }

    /// Returns whether the peer failed on the workload, so often that too few samples are left.
    fn has_failed(&self, (row, peer): Pair<'a, 's>) -> bool {
        peer.run.samples_of(peer.cell(row)).any(|it| it.failure.is_some())
            && self.alone((row, peer)).is_none_or(|it| it.interval.is_none())
    }

    fn items(&self, peers: &[&'s Column<'a>]) -> Vec<Item<'a, 's>> {
        let against = |peer: &'s Column<'a>| -> Pairs<'a, 's> {
            let pairs = self.rows.iter().map(|row| (*row, peer));
            let (failed, lasting): (Vec<_>, _) = pairs.partition(|pair| self.has_failed(*pair));
            if lasting.is_empty() { failed } else { lasting }
        };
        let best = |row: &Row<'a>| (*row, self.best(*row, peers));
        let all: Vec<Pairs<'a, 's>> = match self.target.against {
            Against::Best => vec![self.rows.iter().map(best).collect()],
            Against::Each(_) => peers.iter().copied().map(against).collect(),
        };
        let all = match self.target.over {
            Over::Mean => all,
            Over::EachWorkload => all.into_iter().flatten().map(|pair| vec![pair]).collect(),
        };
        all.into_iter().map(|pairs| self.item(pairs)).collect()
    }

    fn item(&self, pairs: Pairs<'a, 's>) -> Item<'a, 's> {
        let estimate = self.estimate(self.selection.baseline(), &pairs);
        let aim = match self.target.relation {
            Relation::Ratio => self.target.at_most.ln(),
            Relation::Difference => self.target.at_most,
        };
        let unclear = |why: &str| Success::Unclear(why.to_owned());
        let success = match estimate {
            Err(reason) => unclear(super::Outcome::NoVerdict(reason).word()),
            Ok(Estimate { interval: None, .. }) => unclear("too few samples"),
            Ok(Estimate { interval: Some(Interval { low, high }), .. }) => match () {
                () if high <= aim => Success::Met,
                () if low > aim => Success::Missed,
                () => unclear(""),
            },
        };
        Item { pairs, success, estimate: estimate.ok() }
    }

    fn reached(&self, item: Item<'a, 's>) -> Reached<'a> {
        let shown = |estimate| decision::shown(self.target.relation, estimate);
        let baseline = self.selection.baseline();
        let own: Pairs<'a, 's> = item.pairs.iter().map(|(row, _)| (*row, baseline)).collect();
        let noise = self.selection.copy().and_then(|copy| self.estimate(copy, &own).ok());
        let worst = |&(row, peer): &Pair<'a, 's>| {
            let value = shown(self.alone((row, peer))?).centre;
            let (workload, peer) = (row.workload.to_owned(), peer.label.clone());
            Some(Worst { workload, peer, value })
        };
        let several = item.pairs.iter().filter(|_| self.rows.len() > 1);
        let worst = several.filter_map(worst).max_by(|a, b| a.value.total_cmp(&b.value));
        let has_one = (self.target.against != Against::Best || item.pairs.len() == 1)
            && item.estimate.is_some();
        Reached {
            target: self.target,
            success: item.success,
            estimate: item.estimate.map(shown),
            peer: has_one.then(|| item.pairs[0].1.label.clone()),
            worst,
            noise: noise.map(shown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::examples::{Cells, run_of};
    use crate::results::{Direction, Variant};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use std::collections::BTreeMap;

    const ROUNDS: usize = 8;
    const PAIRS: [&str; 6] =
        ["pair-16", "pair-64", "pair-256", "pair-1024", "pair-4096", "pair-32768"];

    fn target(workloads: &[&str], against: Against, at_most: f64) -> Target {
        Target {
            work: "a test".to_owned(),
            workloads: workloads.iter().map(|it| (*it).to_owned()).collect(),
            metric: "time".to_owned(),
            against,
            over: Over::Mean,
            relation: Relation::Ratio,
            at_most,
        }
    }

    fn pairs() -> Target {
        target(&PAIRS, Against::Best, 1.03)
    }

    fn against(wanted: &[&str]) -> Target {
        let wanted = wanted.iter().map(|it| (*it).to_owned()).collect();
        Target { against: Against::Each(wanted), ..pairs() }
    }

    fn judge<'a>(target: &'a Target, run: &'a Run) -> Reached<'a> {
        Reached::of(target, run)
    }

    fn centre(estimate: Option<Estimate>) -> f64 {
        estimate.unwrap().centre
    }

    /// A run in which every variant takes the time that `of` returns, multiplied by a drift that is
    /// the same for a whole round. `quarry` comes first and has a copy.
    fn run_with(
        variants: &[&str],
        workloads: &[&str],
        rounds: usize,
        of: impl Fn(&str, &str, usize) -> f64,
    ) -> Run {
        let mut cells = Cells::new();
        for workload in workloads {
            for variant in std::iter::once(&"quarry").chain(variants).chain([&"quarry A/A"]) {
                let drift = |round: usize| 1.0 + (round % 3) as f64;
                let values = (0..rounds).map(|it| drift(it) * of(variant, workload, it));
                cells.push(((*workload).to_owned(), 1, (*variant).to_owned(), values.collect()));
            }
        }
        let metric = Metric::new("time", "ns", Direction::Lower, "value").primary();
        let mut run = run_of("peers", metric, &cells);
        let copy = run.meta.variants.last_mut().unwrap();
        *copy = Variant::new("quarry", "").copy();
        run
    }

    fn steady(variant: &str, _: &str, _: usize) -> f64 {
        match variant {
            "snmalloc" => 20.0,
            _ => 10.0,
        }
    }

    fn unclear(why: &str) -> Success {
        Success::Unclear(why.to_owned())
    }

    #[test]
    fn what_is_as_fast_as_the_best_has_met_it() {
        let (target, run) = (pairs(), run_with(&["glibc", "snmalloc"], &PAIRS, ROUNDS, steady));
        let reached = judge(&target, &run);
        assert_eq!(reached.success, Success::Met);
        assert!((centre(reached.estimate) - 1.0).abs() < 1e-9);
        assert_eq!(reached.peer, None, "each workload has its own");
        let noise = reached.noise.unwrap();
        assert!((noise.centre - 1.0).abs() < 1e-9 && noise.interval.is_some());
    }

    #[test]
    fn the_best_is_chosen_for_each_workload() {
        // glibc takes half of quarry's time on the small workloads, snmalloc on the large ones.
        let of = |variant: &str, workload: &str, _: usize| {
            let is_large = ["pair-4096", "pair-32768", "pair-1024"].contains(&workload);
            match variant {
                "glibc" if !is_large => 5.0,
                "snmalloc" if is_large => 5.0,
                "quarry" if workload == "pair-4096" => 15.0,
                _ => 10.0,
            }
        };
        let (target, run) = (pairs(), run_with(&["glibc", "snmalloc"], &PAIRS, ROUNDS, of));
        let reached = judge(&target, &run);
        assert_eq!(reached.success, Success::Missed);
        let expected = (3.0_f64 * 2.0_f64.powi(5)).powf(1.0 / 6.0);
        assert!((centre(reached.estimate) - expected).abs() < 1e-9, "{:?}", reached.estimate);
        let worst = reached.worst.unwrap();
        assert_eq!((worst.workload.as_str(), worst.peer.as_str()), ("pair-4096", "snmalloc"));
        assert!((worst.value - 3.0).abs() < 1e-9);
    }

    #[test]
    fn an_interval_that_spans_the_aim_says_nothing() {
        let of = |variant: &str, _: &str, round: usize| match variant {
            "quarry" => [9.0, 12.0][round % 2],
            _ => 10.0,
        };
        let (target, run) = (pairs(), run_with(&["glibc"], &PAIRS, ROUNDS, of));
        let reached = judge(&target, &run);
        assert_eq!(reached.success, unclear(""));
        let Interval { low, high } = reached.estimate.unwrap().interval.unwrap();
        assert!(low < 1.03 && 1.03 < high, "{low}..{high}");
        let run = run_with(&["glibc"], &PAIRS, 5, steady);
        let few = judge(&target, &run);
        assert_eq!(few.success, unclear("too few samples"));
        assert_eq!(few.estimate.unwrap().interval, None);
    }

    #[test]
    fn of_several_peers_the_worst_decides() {
        let of = |variant: &str, workload: &str, _: usize| match variant {
            "mimalloc2" => 9.0,
            "mimalloc3" if workload == "pair-64" => 4.0,
            _ => 10.0,
        };
        let run = run_with(&["mimalloc2", "mimalloc3", "snmalloc"], &PAIRS, ROUNDS, of);
        let target = against(&["mimalloc", "snmalloc"]);
        let reached = judge(&target, &run);
        assert_eq!(reached.success, Success::Missed);
        assert_eq!(reached.peer.as_deref(), Some("mimalloc3"), "2.5^(1/6) against 10/9");
        assert_eq!(reached.worst.unwrap().workload, "pair-64");
        assert_eq!(judge(&against(&["snmalloc"]), &run).success, Success::Met);
    }

    #[test]
    fn a_peer_that_did_not_run_leaves_a_target_unmet_but_not_a_miss_unseen() {
        let run = run_with(&["glibc"], &PAIRS, ROUNDS, steady);
        let target = against(&["glibc", "snmalloc", "jemalloc"]);
        assert_eq!(judge(&target, &run).success, unclear("no snmalloc, jemalloc"));
        let out_of_reach = Target { at_most: 0.9, ..target };
        assert_eq!(judge(&out_of_reach, &run).success, Success::Missed);
        let alone = run_with(&[], &PAIRS, ROUNDS, steady);
        assert_eq!(judge(&pairs(), &alone).success, unclear("no peer"));
        assert_eq!(judge(&against(&["snmalloc"]), &alone).success, unclear("no snmalloc"));
    }

    #[test]
    fn a_part_that_did_not_run_is_told() {
        let run = run_with(&["glibc"], &PAIRS[1..], ROUNDS, steady);
        assert_eq!(judge(&pairs(), &run).success, unclear("5 of 6 workloads"));
        let each = Target { over: Over::EachWorkload, ..pairs() };
        assert_eq!(judge(&each, &run).success, unclear("5 of 6 workloads"));
        let each = Target { at_most: 0.9, ..each };
        assert_eq!(judge(&each, &run).success, Success::Missed);
        let elsewhere = run_with(&["glibc"], &["server"], ROUNDS, steady);
        let nothing = pairs();
        let nothing = judge(&nothing, &elsewhere);
        assert_eq!((nothing.success, nothing.estimate), (Success::NotRun, None));
        let unmeasured = Target { metric: "peak RSS".to_owned(), ..pairs() };
        assert_eq!(judge(&unmeasured, &run).success, Success::NotRun);
    }

    #[test]
    fn failures_leave_out_their_rounds_and_are_no_success() {
        let fails = |run: &mut Run, variant: &str, is_hit: fn(u32) -> bool| {
            let hit = run.samples.iter_mut().filter(|it| it.variant == variant);
            for sample in hit.filter(|it| it.workload == "pair-64" && is_hit(it.round)) {
                sample.measurement = None;
            }
        };
        let mut run = run_with(&["glibc", "snmalloc"], &PAIRS, ROUNDS, steady);
        fails(&mut run, "glibc", |round| round < 3);
        assert_eq!(judge(&pairs(), &run).success, Success::Met, "six rounds are left");
        fails(&mut run, "glibc", |round| round < 4);
        assert_eq!(judge(&against(&[]), &run).success, unclear("too few samples"));
        fails(&mut run, "glibc", |_| true);
        assert_eq!(judge(&against(&[]), &run).success, unclear("no figure"));
        fails(&mut run, "snmalloc", |_| true);
        assert_eq!(judge(&pairs(), &run).success, unclear("no figure"), "no peer has a figure");
    }

    #[test]
    fn a_workload_on_which_a_peer_crashes_is_left_out_for_this_peer() {
        let of = |variant: &str, workload: &str, _: usize| match (variant, workload) {
            ("snmalloc", "pair-64") => 5.0,
            _ => 10.0,
        };
        let mut run = run_with(&["glibc", "snmalloc"], &PAIRS, ROUNDS, of);
        let crash = |run: &mut Run, workloads: &[&str], rounds: u32| {
            let hit = run.samples.iter_mut().filter(|it| it.variant == "snmalloc");
            let hit = hit.filter(|it| workloads.contains(&it.workload.as_str()));
            for sample in hit.filter(|it| it.round <= rounds) {
                (sample.measurement, sample.failure) = (None, Some("signal 11".to_owned()));
            }
        };
        crash(&mut run, &["pair-64"], 2);
        assert_eq!(judge(&against(&[]), &run).success, Success::Missed, "six rounds are left");
        crash(&mut run, &["pair-64"], 3);
        let target = against(&[]);
        let reached = judge(&target, &run);
        assert_eq!(reached.success, Success::Met, "5 of 6 workloads judge snmalloc");
        assert!((centre(reached.estimate) - 1.0).abs() < 1e-9);
        crash(&mut run, &PAIRS, 3);
        assert_eq!(judge(&against(&[]), &run).success, unclear("too few samples"));
    }

    /// `docs/methodology.md` warns of the best of several equal peers.
    #[test]
    fn the_best_of_equal_peers_is_flattered_by_half_the_noise() {
        let mut random = StdRng::seed_from_u64(7);
        let thread = target(&["thread"], Against::Best, 1.0);
        let peers = ["a", "b", "c", "d", "e", "f", "g"];
        let runs = 200;
        let logs = (0..runs).map(|_| {
            let noise: BTreeMap<&str, Vec<f64>> = std::iter::once(&"quarry")
                .chain(&peers)
                .chain([&"quarry A/A"])
                .map(|name| (*name, (0..7).map(|_| 1.0 + 0.02 * normal(&mut random)).collect()))
                .collect();
            let run = run_with(&peers, &["thread"], 7, |name, _, round| noise[name][round]);
            let reached = judge(&thread, &run);
            assert_ne!(reached.peer, None, "one workload has one best");
            centre(reached.estimate).ln()
        });
        let mean = (logs.sum::<f64>() / f64::from(runs)).exp();
        assert!((1.007..1.014).contains(&mean), "{mean}");
    }

    fn normal(random: &mut StdRng) -> f64 {
        (0..12).map(|_| random.random_range(0.0..1.0)).sum::<f64>() - 6.0
    }

    #[test]
    fn differences_are_in_units_and_of_the_worst_workload() {
        let target = Target {
            relation: Relation::Difference,
            over: Over::EachWorkload,
            at_most: 5.0,
            ..against(&["glibc"])
        };
        let of = |variant: &str, workload: &str, round: usize| {
            let drift = 1.0 + (round % 3) as f64;
            match (variant, workload) {
                ("glibc", _) => 10.0,
                (_, "pair-256") => 10.0 + 7.0 / drift,
                _ => 10.0 + 4.0 / drift,
            }
        };
        let run = run_with(&["glibc"], &PAIRS, ROUNDS, of);
        let reached = judge(&target, &run);
        assert_eq!(reached.success, Success::Missed);
        assert!((centre(reached.estimate) - 7.0).abs() < 1e-9, "{:?}", reached.estimate);
        assert_eq!(reached.worst.unwrap().workload, "pair-256");
        assert_eq!(judge(&Target { at_most: 7.5, ..target }, &run).success, Success::Met);
    }
}
