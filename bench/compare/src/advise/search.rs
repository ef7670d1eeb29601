//! The search in stages: a first one with all candidates, a second one with the best of them, and a
//! test of the best candidate by runs that the other stages did not use.

use super::plan::{Plan, TESTED};
use super::request::Goal;
use crate::closing;
use crate::judgement::Judgements;
use anyhow::Result;
use quarry_harness::blocks;
use quarry_harness::experiment::{Enough, Experiment, Stop};
use quarry_harness::judge::MARGIN;
use quarry_harness::results::{Metric, Run, Variant, Verify, Workload};
use quarry_harness::sampler::{NoSample, SampleKey, Taken};
use quarry_harness::statistics::MIN_PAIRS;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// A gain must exceed this many times the loss that comes with it; [`score`] uses the factor too.
pub(super) const LOSS_WEIGHT: f64 = 5.0;

/// The source of samples: a machine, or a simulation of one.
pub(super) trait Samples {
    fn elapsed(&self) -> Duration;
    /// Takes a sample on the baseline (`None`) or on a candidate.
    fn sample(&self, candidate: Option<usize>, key: SampleKey) -> Result<Taken, NoSample>;
}

pub(super) struct Search<'a> {
    pub(super) baseline: Variant,
    pub(super) candidates: Vec<Variant>,
    pub(super) metrics: &'a [Metric],
    pub(super) goal: Goal,
    pub(super) plan: Plan,
    pub(super) deadline: Duration,
    pub(super) seed: Option<u64>,
    pub(super) samples: Rc<dyn Samples>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct StageResult {
    pub(super) candidate: usize,
    /// Time and memory as multiples of the baseline's, if they were measured.
    pub(super) time: Option<f64>,
    pub(super) memory: Option<f64>,
    /// See [`score`]; `None` if a run failed or nothing was measured.
    pub(super) score: Option<f64>,
    pub(super) failure: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Looked {
    pub(super) rounds: usize,
    /// The candidates, the best first.
    pub(super) seen: Vec<StageResult>,
    pub(super) baseline_failure: Option<String>,
}

pub(super) struct Outcome {
    pub(super) first: Looked,
    pub(super) second: Looked,
    /// The tested candidate, and the run of the test; `None` if every candidate failed.
    pub(super) test: Option<(usize, Run)>,
}

impl Search<'_> {
    /// Runs the search. An interruption ends the current stage and leaves later ones empty. Fails
    /// if the experiment of a stage fails (see [`Experiment::conduct`]).
    pub(super) fn conduct(&self) -> Result<Outcome> {
        let Plan { candidates, first, kept, second, test } = self.plan;
        let all: Vec<usize> = (0..candidates as usize).collect();
        let looked = self.look(&all, first, 0)?;
        let mut best = looked.best(kept as usize);
        let mut again = Looked::default();
        if second > 0 && best.len() > 1 {
            again = self.look(&best, second, 1)?;
            best = again.best(1);
        }
        let Some(&candidate) = best.first() else {
            return Ok(Outcome { first: looked, second: again, test: None });
        };
        let run = self.run(&[candidate], test, true, 2)?;
        Ok(Outcome { first: looked, second: again, test: Some((candidate, run)) })
    }

    fn look(&self, candidates: &[usize], rounds: u32, stage: u64) -> Result<Looked> {
        let run = self.run(candidates, rounds, false, stage)?;
        let judgements = Judgements::of(&run);
        let mut seen: Vec<StageResult> =
            candidates.iter().map(|candidate| self.seen(*candidate, &run, &judgements)).collect();
        let value = |seen: &StageResult| seen.score.unwrap_or(f64::NEG_INFINITY);
        seen.sort_by(|one, other| value(other).total_cmp(&value(one)));
        let baseline_failure = failure_of(&run, &self.baseline.name);
        Ok(Looked { rounds: run.rounds(), seen, baseline_failure })
    }

    fn seen(&self, candidate: usize, run: &Run, judgements: &Judgements) -> StageResult {
        let name = &self.candidates[candidate].name;
        let failure = failure_of(run, name);
        let workload = &run.meta.workloads[0].name;
        let judged = |metric: &Metric| judgements.get(workload, name, metric);
        let time = judged(run.meta.primary());
        let memory = closing::memory_of(&run.meta.metrics).and_then(judged);
        let gain = |it: Option<&_>| it.map_or(0.0, closing::gain);
        let is_known = time.is_some_and(|it| it.estimate.is_some());
        let score = score(self.goal, gain(time), gain(memory));
        StageResult {
            candidate,
            time: time.and_then(|it| it.ratio()),
            memory: memory.and_then(|it| it.ratio()),
            score: (failure.is_none() && is_known).then_some(score),
            failure,
        }
    }

    /// Takes complete rounds of the baseline, the candidates and, with `is_test`, a copy of the
    /// baseline: as many as are planned, or as the time allows. Results never decide how many.
    fn run(&self, candidates: &[usize], rounds: u32, is_test: bool, stage: u64) -> Result<Run> {
        let mut places = vec![None];
        places.extend(candidates.iter().map(|it| Some(*it)));
        let mut variants = vec![self.baseline.clone()];
        variants.extend(candidates.iter().map(|it| self.candidates[*it].clone()));
        if is_test {
            places.push(None);
            variants.push(self.baseline.copy());
        }
        let seed = self.seed.unwrap_or_else(blocks::seed_from_clock).wrapping_add(stage);
        let (samples, failed) = (Rc::clone(&self.samples), RefCell::new(BTreeSet::new()));
        let sample = move |key: SampleKey| {
            // A candidate is out after one failure, and a failing run may take long.
            if failed.borrow().contains(&key.variant) {
                return Err(NoSample::LeftOut);
            }
            let taken = samples.sample(places[key.variant], key);
            if let Err(NoSample::Failed(_)) = taken {
                failed.borrow_mut().insert(key.variant);
            }
            taken
        };
        let workloads = vec![Workload::new("program", Verify::PerOperation(1))];
        let mut experiment = Experiment::new("advise", variants, workloads, sample);
        experiment.warm_up = false;
        experiment.enough = Some(self.until_deadline(is_test));
        let meta = &mut experiment.meta;
        meta.baseline.clone_from(&self.baseline.name);
        meta.metrics = self.metrics.to_vec();
        (meta.strict, meta.rounds, meta.seed) = (true, rounds, seed);
        experiment.conduct()
    }

    /// Ends a stage if one more round would pass the deadline, or use time that the test must have.
    fn until_deadline(&self, is_test: bool) -> Stop {
        let (samples, deadline) = (Rc::clone(&self.samples), self.deadline);
        let began = samples.elapsed();
        let kept = if is_test { 0 } else { TESTED * MIN_PAIRS as u32 };
        Box::new(move |run: &Run| {
            let now = samples.elapsed();
            let each = now.saturating_sub(began) / run.rounds().max(1) as u32;
            let of_test = each / run.meta.variants.len() as u32 * kept;
            match now + each + of_test > deadline {
                true => Enough::Yes,
                false => Enough::No { expected: None },
            }
        })
    }
}

impl Looked {
    fn best(&self, count: usize) -> Vec<usize> {
        let good = self.seen.iter().filter(|it| it.score.is_some());
        good.take(count).map(|it| it.candidate).collect()
    }
}

fn failure_of(run: &Run, variant: &str) -> Option<String> {
    let mut samples = run.samples.iter().filter(|it| it.variant == variant);
    samples.find_map(|sample| sample.failure.clone())
}

/// Adds gains (logarithms of factors); subtracts [`LOSS_WEIGHT`] times a loss beyond [`MARGIN`].
fn score(goal: Goal, time: f64, memory: f64) -> f64 {
    let weighed = |gain: f64| gain + LOSS_WEIGHT * (gain + MARGIN.ln_1p()).min(0.0);
    match goal {
        Goal::Either => weighed(time) + weighed(memory),
        Goal::Time => time,
        Goal::Memory => memory,
    }
}

#[cfg(test)]
pub(super) mod simulated {
    //! A simulated machine: the time and memory of each candidate are given, and noise is added.

    use super::*;
    use crate::advise::plan::plan;
    use quarry_harness::results::{Direction, Measurement};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use std::cell::{Cell, RefCell};

    #[derive(Clone, Copy, Debug)]
    pub(in super::super) struct Nature {
        pub(in super::super) time: f64,
        pub(in super::super) memory: f64,
        pub(in super::super) failing: f64,
    }

    pub(in super::super) const EQUAL: Nature = Nature { time: 1.0, memory: 1.0, failing: 0.0 };

    pub(in super::super) struct Machine {
        natures: Vec<Nature>,
        /// Standard deviation of a sample's logarithm.
        noise: f64,
        run: Duration,
        clock: Cell<Duration>,
        random: RefCell<StdRng>,
        pub(in super::super) taken: RefCell<Vec<Option<usize>>>,
    }

    impl Machine {
        pub(in super::super) fn new(
            natures: &[Nature],
            noise: f64,
            run_ms: u64,
            seed: u64,
        ) -> Rc<Self> {
            Rc::new(Self {
                natures: natures.to_vec(),
                noise,
                run: Duration::from_millis(run_ms),
                clock: Cell::new(Duration::ZERO),
                random: RefCell::new(StdRng::seed_from_u64(seed)),
                taken: RefCell::default(),
            })
        }

        fn noise(&self) -> f64 {
            let mut random = self.random.borrow_mut();
            let sum: f64 = (0..12).map(|_| random.random_range(0.0..1.0)).sum();
            (self.noise * (sum - 6.0)).exp()
        }
    }

    impl Samples for Machine {
        fn elapsed(&self) -> Duration {
            self.clock.get()
        }

        fn sample(&self, candidate: Option<usize>, _key: SampleKey) -> Result<Taken, NoSample> {
            self.taken.borrow_mut().push(candidate);
            let nature = candidate.map_or(EQUAL, |it| self.natures[it]);
            let wall = self.run.mul_f64(nature.time * self.noise());
            self.clock.set(self.clock.get() + wall);
            if nature.failing > 0.0 && self.random.borrow_mut().random_bool(nature.failing) {
                return Err("signal 11".into());
            }
            // Memory has a tenth of the noise of time.
            let bytes = 1e8 * nature.memory * self.noise().powf(0.1);
            let wall_ns = wall.as_nanos() as u64;
            let mut measurement = Measurement::of_window(1, wall_ns, wall_ns, wall_ns, "simulated");
            measurement.verified = 1;
            Ok(measurement.with(&[("peak_bytes", bytes as u64)]).into())
        }
    }

    pub(in super::super) fn search(machine: &Rc<Machine>, goal: Goal) -> Outcome {
        let lower = |name: &str, of: &str| Metric::new(name, "", Direction::Lower, of);
        let metrics =
            [lower("wall", "wall_ns").primary(), lower("peak RSS", "peak_bytes").near_zero(1e5)];
        let deadline = Duration::from_secs(300);
        let count = machine.natures.len();
        let search = Search {
            baseline: Variant::new("glibc", ""),
            candidates: (0..count).map(|it| Variant::new(&format!("c{it}"), "")).collect(),
            metrics: &metrics,
            goal,
            plan: plan(count as u32, machine.run, deadline).unwrap(),
            deadline,
            seed: Some(1),
            samples: Rc::clone(machine) as Rc<dyn Samples>,
        };
        search.conduct().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::simulated::{EQUAL, Machine, Nature, search};
    use super::*;

    const GOOD: Nature = Nature { time: 0.85, ..EQUAL };

    fn with(good: Nature, at: usize) -> Vec<Nature> {
        let mut natures = vec![EQUAL; 12];
        natures[at] = good;
        natures
    }

    #[test]
    fn the_good_one_among_many_is_the_one_that_is_tested() {
        for seed in 0..20 {
            let at = seed as usize % 12;
            let machine = Machine::new(&with(GOOD, at), 0.03, 500, seed);
            let outcome = search(&machine, Goal::Either);
            assert_eq!(outcome.test.unwrap().0, at, "{seed}");
        }
    }

    #[test]
    fn the_samples_of_the_test_have_chosen_nothing() {
        let machine = Machine::new(&with(GOOD, 3), 0.03, 500, 1);
        let outcome = search(&machine, Goal::Either);
        let (_, run) = outcome.test.unwrap();
        let looked = outcome.first.rounds * 13 + outcome.second.rounds * 5;
        let taken = machine.taken.borrow();
        assert_eq!(taken.len(), looked + run.samples.len(), "each belongs to one stage");
        let names: Vec<&str> = run.meta.variants.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["glibc", "c3", "glibc A/A"]);
        assert!(run.samples.iter().all(|sample| sample.round > 0));
    }

    #[test]
    fn the_time_is_kept_whatever_a_run_takes() {
        for (ms, noise) in [(2, 0.3), (300, 0.5), (4000, 0.2), (12_000, 0.05)] {
            let machine = Machine::new(&[Nature { time: 3.0, ..EQUAL }; 12], noise, ms, 1);
            let outcome = search(&machine, Goal::Either);
            assert!(machine.elapsed() <= Duration::from_secs(360), "{ms}: {:?}", machine.elapsed());
            assert!(outcome.first.rounds >= 1);
        }
    }

    #[test]
    fn time_is_left_for_a_test_with_an_interval() {
        // The plan counts on runs of one second; each takes longer.
        for slower in [2.0, 3.0, 5.0] {
            let nature = Nature { time: slower, ..EQUAL };
            let machine = Machine::new(&[nature; 12], 0.05, 1000, 1);
            let (_, run) = search(&machine, Goal::Either).test.unwrap();
            assert!(run.rounds() >= MIN_PAIRS, "{slower}: {}", run.rounds());
            assert!(machine.elapsed() <= Duration::from_secs(310), "{:?}", machine.elapsed());
        }
    }

    #[test]
    fn those_that_fail_are_out_and_their_reason_is_kept() {
        let mut natures = with(GOOD, 0);
        natures[0].failing = 1.0;
        natures[1] = Nature { memory: 0.8, ..EQUAL };
        let machine = Machine::new(&natures, 0.02, 100, 1);
        let outcome = search(&machine, Goal::Either);
        assert_eq!(outcome.test.unwrap().0, 1);
        let last = outcome.first.seen.last().unwrap();
        assert_eq!((last.candidate, last.score), (0, None));
        assert_eq!(last.failure.as_deref(), Some("signal 11"));
        let failing = Nature { failing: 1.0, ..EQUAL };
        let outcome = search(&Machine::new(&[failing; 3], 0.02, 100, 1), Goal::Either);
        assert!(outcome.test.is_none() && outcome.second.rounds == 0);
    }

    #[test]
    fn the_goal_decides_what_a_gain_is_worth() {
        let natures = [
            Nature { time: 0.9, memory: 1.3, failing: 0.0 },
            Nature { time: 1.2, memory: 0.5, failing: 0.0 },
            Nature { time: 0.96, memory: 0.97, failing: 0.0 },
        ];
        let tested = |goal| {
            search(&Machine::new(&natures, 0.01, 100, 1), goal).test.map(|(candidate, _)| candidate)
        };
        assert_eq!(tested(Goal::Time), Some(0));
        assert_eq!(tested(Goal::Memory), Some(1));
        assert_eq!(tested(Goal::Either), Some(2));
    }
}
