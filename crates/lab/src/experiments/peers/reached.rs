//! What a run has reached of a target, and whether that is enough.
//!
//! Of ratios the logarithms are compared, so that every comparison is a difference of two figures
//! of one round; a centre is that of Hodges and Lehmann over the rounds, an interval Wilcoxon's.
//! The best peer of a workload is the one that the baseline lies furthest above, by the same
//! samples: chance can only flatter the peer.

use super::part::Part;
use super::target::{Against, Over, Relation, Target};
use quarry_harness::results::{Cell, Metric, Run};
use quarry_harness::statistics::{self, Interval, Shift};
use quarry_harness::targets::Outcome;

/// A workload with its peer, and how far above that the baseline lies there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spot {
    /// Name of the workload.
    pub(crate) workload: String,
    /// Name of the peer.
    pub(crate) peer: String,
    /// The centre.
    pub(crate) value: f64,
}

/// What was reached. Values are ratios or differences as the target has them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reached {
    /// Whether it is enough.
    pub(crate) outcome: Outcome,
    /// Of the peer that decides; `None` where there is no figure.
    pub(crate) value: Option<f64>,
    /// Its 95 % interval; `None` with too few samples.
    pub(crate) interval: Option<Interval>,
    /// The peer that decides; `None` where every workload has its own best.
    pub(crate) peer: Option<String>,
    /// Where it is worst, of several workloads.
    pub(crate) worst: Option<Spot>,
    /// The same of the A/A copy and the baseline, with its interval.
    pub(crate) noise: Option<(f64, Option<Interval>)>,
}

impl Reached {
    fn nothing(outcome: Outcome) -> Self {
        Self { outcome, value: None, interval: None, peer: None, worst: None, noise: None }
    }
}

/// Judges a run, whose baseline is what the target is for.
pub(crate) fn judge(target: &Target, run: &Run) -> Reached {
    let expected: Vec<String> =
        Part::all().iter().filter(|it| (target.has)(it)).map(ToString::to_string).collect();
    let is_there = |name: &&String| run.meta.workload(name).is_some();
    let workloads: Vec<&str> = expected.iter().filter(is_there).map(String::as_str).collect();
    let Ok(metric) = run.meta.metric(target.metric) else {
        return Reached::nothing(Outcome::NotRun);
    };
    if workloads.is_empty() || run.rounds() == 0 {
        return Reached::nothing(Outcome::NotRun);
    }
    let field = Field { run, metric, target, workloads };
    let (peers, absent) = field.peers();
    if peers.is_empty() {
        return Reached::nothing(Outcome::Unclear(format!("no {}", absent.join(", "))));
    }
    let mut reached = field.judge(&peers);
    if field.workloads.len() < expected.len() && !field.is_decided(&reached.outcome) {
        let said = format!("{} of {} workloads", field.workloads.len(), expected.len());
        reached.outcome = Outcome::Unclear(said);
    } else if reached.outcome == Outcome::Met && !absent.is_empty() {
        reached.outcome = Outcome::Unclear(format!("no {}", absent.join(", ")));
    }
    reached
}

/// The figures that a target is about.
struct Field<'a> {
    run: &'a Run,
    metric: &'a Metric,
    target: &'a Target,
    workloads: Vec<&'a str>,
}

/// A comparison that the target asks for.
struct Item<'a> {
    /// `None`: the best of each workload.
    peer: Option<&'a str>,
    /// Its workloads with the peer of each.
    pairs: Vec<(&'a str, &'a str)>,
    /// `None` where a workload or a peer has no figure.
    shift: Option<Shift>,
}

impl<'a> Field<'a> {
    /// Those to compare with, and the names that nobody has. Without any peer: "peer".
    fn peers(&self) -> (Vec<&'a str>, Vec<&'static str>) {
        let meta = &self.run.meta;
        let is_peer = |name: &&str| {
            let variant = meta.variant(name).filter(|it| it.copy_of.is_none());
            variant.is_some() && *name != meta.baseline
        };
        let all = meta.variants.iter().map(|it| it.name.as_str()).filter(is_peer);
        let all: Vec<&str> = all.collect();
        let wanted = match self.target.against {
            Against::Best | Against::Each([]) if all.is_empty() => return (all, vec!["peer"]),
            Against::Best | Against::Each([]) => return (all, Vec::new()),
            Against::Each(wanted) => wanted,
        };
        let is_one = |name: &str, wanted: &str| name.starts_with(wanted);
        let present = |it: &&&str| all.iter().any(|name| is_one(name, it));
        let absent = wanted.iter().filter(|it| !present(it)).copied().collect();
        let is_wanted = |name: &&&str| wanted.iter().any(|it| is_one(name, it));
        (all.iter().filter(is_wanted).copied().collect(), absent)
    }

    /// Whether workloads that did not run cannot change it.
    fn is_decided(&self, outcome: &Outcome) -> bool {
        self.target.over == Over::EachWorkload && *outcome == Outcome::Missed
    }

    /// Figures that can be compared, one per round; ratios as logarithms.
    fn column(&self, workload: &str, variant: &str) -> Vec<Option<f64>> {
        let values = self.run.values(Cell { workload, tasks: 1, variant }, self.metric);
        let comparable = |value: f64| match self.target.relation {
            Relation::Ratio => Some(value.ln()).filter(|it| it.is_finite()),
            Relation::Difference(_) => Some(value),
        };
        values.into_iter().map(|value| comparable(value?)).collect()
    }

    /// How far one lies above another, one per round.
    fn distances(&self, workload: &str, one: &str, other: &str) -> Vec<Option<f64>> {
        let (one, other) = (self.column(workload, one), self.column(workload, other));
        one.into_iter().zip(other).map(|(one, other)| Some(one? - other?)).collect()
    }

    /// How far `one` lies above the peer of each workload: their mean in every round, where a round
    /// with a gap is left out.
    fn shift(&self, one: &str, pairs: &[(&str, &str)]) -> Option<Shift> {
        let columns: Vec<Vec<Option<f64>>> =
            pairs.iter().map(|(workload, peer)| self.distances(workload, one, peer)).collect();
        let mean = |round: usize| {
            let of_round: Option<Vec<f64>> = columns.iter().map(|column| column[round]).collect();
            Some(of_round?.iter().sum::<f64>() / columns.len() as f64)
        };
        let means: Vec<f64> = (0..self.run.rounds()).filter_map(mean).collect();
        statistics::shift_of_pairs(&means)
    }

    /// The peer that the baseline lies furthest above.
    fn best(&self, workload: &'a str, peers: &[&'a str]) -> Option<&'a str> {
        let above = |peer: &&'a str| {
            let shift = self.shift(&self.run.meta.baseline, &[(workload, peer)])?;
            Some((shift.centre, *peer))
        };
        peers.iter().filter_map(above).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, peer)| peer)
    }

    fn item(&self, peer: Option<&'a str>, pairs: Vec<(&'a str, &'a str)>) -> Item<'a> {
        let shift = self.shift(&self.run.meta.baseline, &pairs);
        Item { peer, pairs, shift }
    }

    /// Everything that has to reach the target.
    fn items(&self, peers: &[&'a str]) -> Vec<Item<'a>> {
        let with_best: Vec<Option<(&str, &str)>> = match self.target.against {
            Against::Best => {
                let pair = |workload: &&'a str| Some((*workload, self.best(workload, peers)?));
                self.workloads.iter().map(pair).collect()
            }
            Against::Each(_) => Vec::new(),
        };
        let nothing = || Item { peer: None, pairs: Vec::new(), shift: None };
        match (self.target.over, self.target.against) {
            (Over::Mean, Against::Best) => {
                match with_best.into_iter().collect::<Option<Vec<_>>>() {
                    Some(pairs) if pairs.len() == 1 => vec![self.item(Some(pairs[0].1), pairs)],
                    Some(pairs) => vec![self.item(None, pairs)],
                    None => vec![nothing()],
                }
            }
            (Over::Mean, Against::Each(_)) => {
                let all = |peer: &'a str| self.workloads.iter().map(|it| (*it, peer)).collect();
                peers.iter().map(|peer| self.item(Some(peer), all(peer))).collect()
            }
            (Over::EachWorkload, Against::Best) => {
                let one = |(workload, peer)| self.item(Some(peer), vec![(workload, peer)]);
                with_best.into_iter().map(|pair| pair.map_or_else(nothing, one)).collect()
            }
            (Over::EachWorkload, Against::Each(_)) => {
                let pairs =
                    peers.iter().flat_map(|peer| self.workloads.iter().map(|it| (*it, *peer)));
                pairs.map(|pair| self.item(Some(pair.1), vec![pair])).collect()
            }
        }
    }

    /// The target is met where every item is, and missed where one is; shown is the one that
    /// decides, of several alike the one furthest above.
    fn judge(&self, peers: &[&'a str]) -> Reached {
        let items = self.items(peers);
        let rank = |item: &Item<'_>| match self.outcome(item.shift) {
            Outcome::Met | Outcome::NotRun => 0,
            Outcome::Unclear(_) if item.shift.is_none() => 1,
            Outcome::Unclear(_) => 2,
            Outcome::Missed => 3,
        };
        let centre = |item: &Item<'_>| item.shift.map_or(f64::NEG_INFINITY, |it| it.centre);
        let decides =
            items.iter().max_by(|a, b| rank(a).cmp(&rank(b)).then(centre(a).total_cmp(&centre(b))));
        match decides {
            Some(item) => self.reached(item),
            None => Reached::nothing(Outcome::NotRun),
        }
    }

    fn outcome(&self, shift: Option<Shift>) -> Outcome {
        let aim = match self.target.relation {
            Relation::Ratio => self.target.at_most.ln(),
            Relation::Difference(_) => self.target.at_most,
        };
        let Some(Shift { interval, .. }) = shift else {
            return Outcome::Unclear("no figure".to_owned());
        };
        match interval {
            None => Outcome::Unclear("too few samples".to_owned()),
            Some(Interval { high, .. }) if high <= aim => Outcome::Met,
            Some(Interval { low, .. }) if low > aim => Outcome::Missed,
            Some(_) => Outcome::Unclear(String::new()),
        }
    }

    fn reached(&self, item: &Item<'_>) -> Reached {
        let baseline = &self.run.meta.baseline;
        let copy = self.run.meta.copy().map(|it| it.name.as_str());
        let with_baseline: Vec<(&str, &str)> =
            item.pairs.iter().map(|(workload, _)| (*workload, baseline.as_str())).collect();
        let noise = copy.and_then(|copy| self.shift(copy, &with_baseline));
        let spot = |pair: &(&str, &str)| {
            let centre = self.shift(baseline, &[*pair])?.centre;
            let (workload, peer) = (pair.0.to_owned(), pair.1.to_owned());
            Some(Spot { workload, peer, value: self.shown(centre) })
        };
        let spots = item.pairs.iter().filter_map(spot);
        Reached {
            outcome: self.outcome(item.shift),
            value: item.shift.map(|it| self.shown(it.centre)),
            interval: item.shift.and_then(|it| self.shown_interval(it)),
            peer: item.peer.map(str::to_owned),
            worst: spots.max_by(|a, b| a.value.total_cmp(&b.value)).filter(|_| self.has_several()),
            noise: noise.map(|it| (self.shown(it.centre), self.shown_interval(it))),
        }
    }

    fn has_several(&self) -> bool {
        self.workloads.len() > 1
    }

    /// As it is printed, from what was compared.
    fn shown(&self, value: f64) -> f64 {
        match self.target.relation {
            Relation::Ratio => value.exp(),
            Relation::Difference(_) => value,
        }
    }

    fn shown_interval(&self, shift: Shift) -> Option<Interval> {
        let Interval { low, high } = shift.interval?;
        Some(Interval { low: self.shown(low), high: self.shown(high) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::TIME;
    use super::super::target::TARGETS;
    use super::*;
    use quarry_harness::results::examples::{Cells, run_of};
    use quarry_harness::results::{Direction, Variant};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use std::collections::BTreeMap;

    const ROUNDS: usize = 8;
    const PAIRS: [&str; 6] =
        ["pair-16", "pair-64", "pair-256", "pair-1024", "pair-4096", "pair-32768"];

    fn pairs() -> Target {
        TARGETS[0]
    }

    fn against(wanted: &'static [&'static str]) -> Target {
        Target { against: Against::Each(wanted), ..pairs() }
    }

    /// A run of `workloads` in which every variant takes what `of` says, times a drift that hits a
    /// whole round; `quarry` comes first and has a copy.
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
        let metric = Metric::new(TIME, "ns", Direction::Lower, "value").primary();
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

    fn unclear(why: &str) -> Outcome {
        Outcome::Unclear(why.to_owned())
    }

    #[test]
    fn what_is_as_fast_as_the_best_has_met_it() {
        let reached = judge(&pairs(), &run_with(&["glibc", "snmalloc"], &PAIRS, ROUNDS, steady));
        assert_eq!(reached.outcome, Outcome::Met);
        assert!((reached.value.unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(reached.peer, None, "each workload has its own");
        let (noise, interval) = reached.noise.unwrap();
        assert!((noise - 1.0).abs() < 1e-9 && interval.is_some());
    }

    #[test]
    fn the_best_is_chosen_for_each_workload() {
        // Half as long as quarry: glibc on the small ones, snmalloc on the large ones.
        let of = |variant: &str, workload: &str, _: usize| {
            let is_large = ["pair-4096", "pair-32768", "pair-1024"].contains(&workload);
            match variant {
                "glibc" if !is_large => 5.0,
                "snmalloc" if is_large => 5.0,
                "quarry" if workload == "pair-4096" => 15.0,
                _ => 10.0,
            }
        };
        let reached = judge(&pairs(), &run_with(&["glibc", "snmalloc"], &PAIRS, ROUNDS, of));
        assert_eq!(reached.outcome, Outcome::Missed);
        let expected = (3.0_f64 * 2.0_f64.powi(5)).powf(1.0 / 6.0);
        assert!((reached.value.unwrap() - expected).abs() < 1e-9, "{:?}", reached.value);
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
        let reached = judge(&pairs(), &run_with(&["glibc"], &PAIRS, ROUNDS, of));
        assert_eq!(reached.outcome, unclear(""));
        let Interval { low, high } = reached.interval.unwrap();
        assert!(low < 1.03 && 1.03 < high, "{low}..{high}");
        let few = judge(&pairs(), &run_with(&["glibc"], &PAIRS, 5, steady));
        assert_eq!((few.outcome, few.interval), (unclear("too few samples"), None));
    }

    #[test]
    fn of_several_peers_the_worst_decides() {
        let of = |variant: &str, workload: &str, _: usize| match variant {
            "mimalloc2" => 9.0,
            "mimalloc3" if workload == "pair-64" => 4.0,
            _ => 10.0,
        };
        let run = run_with(&["mimalloc2", "mimalloc3", "snmalloc"], &PAIRS, ROUNDS, of);
        let reached = judge(&against(&["mimalloc", "snmalloc"]), &run);
        assert_eq!(reached.outcome, Outcome::Missed);
        assert_eq!(reached.peer.as_deref(), Some("mimalloc3"), "2.5^(1/6) against 10/9");
        assert_eq!(reached.worst.unwrap().workload, "pair-64");
        let reached = judge(&against(&["snmalloc"]), &run);
        assert_eq!(reached.outcome, Outcome::Met);
    }

    #[test]
    fn a_peer_that_did_not_run_leaves_a_target_unmet_but_not_a_miss_unseen() {
        let run = run_with(&["glibc"], &PAIRS, ROUNDS, steady);
        let target = against(&["glibc", "snmalloc", "jemalloc"]);
        assert_eq!(judge(&target, &run).outcome, unclear("no snmalloc, jemalloc"));
        let out_of_reach = Target { at_most: 0.9, ..target };
        assert_eq!(judge(&out_of_reach, &run).outcome, Outcome::Missed);
        let alone = run_with(&[], &PAIRS, ROUNDS, steady);
        assert_eq!(judge(&pairs(), &alone).outcome, unclear("no peer"));
        assert_eq!(judge(&against(&["snmalloc"]), &alone).outcome, unclear("no snmalloc"));
    }

    #[test]
    fn a_part_that_did_not_run_is_told() {
        let run = run_with(&["glibc"], &PAIRS[1..], ROUNDS, steady);
        assert_eq!(judge(&pairs(), &run).outcome, unclear("5 of 6 workloads"));
        let each = Target { over: Over::EachWorkload, ..pairs() };
        assert_eq!(judge(&each, &run).outcome, unclear("5 of 6 workloads"));
        // One miss is enough.
        let each = Target { at_most: 0.9, ..each };
        assert_eq!(judge(&each, &run).outcome, Outcome::Missed);
        let elsewhere = run_with(&["glibc"], &["server"], ROUNDS, steady);
        assert_eq!(judge(&pairs(), &elsewhere), Reached::nothing(Outcome::NotRun));
        let unmeasured = Target { metric: "peak RSS", ..pairs() };
        assert_eq!(judge(&unmeasured, &run).outcome, Outcome::NotRun);
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
        assert_eq!(judge(&pairs(), &run).outcome, Outcome::Met, "six rounds are left");
        fails(&mut run, "glibc", |round| round < 4);
        assert_eq!(judge(&against(&[]), &run).outcome, unclear("too few samples"));
        fails(&mut run, "glibc", |_| true);
        assert_eq!(judge(&against(&[]), &run).outcome, unclear("no figure"));
        fails(&mut run, "snmalloc", |_| true);
        assert_eq!(judge(&pairs(), &run).outcome, unclear("no figure"), "nobody is the best there");
    }

    /// `docs/methodology.md` says so of the best of several that are equal.
    #[test]
    fn the_best_of_equal_peers_is_flattered_by_half_the_noise() {
        let mut random = StdRng::seed_from_u64(7);
        let thread = *TARGETS.iter().find(|it| it.work.contains("thread")).unwrap();
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
            reached.value.unwrap().ln()
        });
        let mean = (logs.sum::<f64>() / f64::from(runs)).exp();
        assert!((1.007..1.014).contains(&mean), "{mean}");
    }

    /// Nearly normal, with a spread of 1.
    fn normal(random: &mut StdRng) -> f64 {
        (0..12).map(|_| random.random_range(0.0..1.0)).sum::<f64>() - 6.0
    }

    #[test]
    fn differences_are_in_units_and_of_the_worst_workload() {
        let target = Target {
            relation: Relation::Difference("KiB"),
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
        assert_eq!(reached.outcome, Outcome::Missed);
        assert!((reached.value.unwrap() - 7.0).abs() < 1e-9, "{:?}", reached.value);
        assert_eq!(reached.worst.unwrap().workload, "pair-256");
        assert_eq!(judge(&Target { at_most: 7.5, ..target }, &run).outcome, Outcome::Met);
    }
}
