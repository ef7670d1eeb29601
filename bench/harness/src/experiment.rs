//! An experiment as a value, and the engine that conducts it.

use crate::blocks::{self, Shape, Step};
use crate::doctor;
use crate::environment::Environment;
use crate::results::{
    self, Begun, Meta, Metric, Origin, PartDirectory, Run, RunDirectory, SCHEMA, Sample, Stdin,
    Variant, Workload,
};
use crate::sampler::{NoSample, SampleKey, Sampler, Taken};
use crate::shard::{Part, Shard};
use crate::usage::Usage;
use anyhow::{Result, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The definition of an experiment, complete before its first sample.
pub struct Experiment {
    /// One line on what a sample is, for the head of the tables.
    pub about: String,
    /// Its description in the results. `conduct` fills in its part and its environment.
    pub meta: Meta,
    /// True if a warm-up round comes first.
    pub warm_up: bool,
    /// May end the run before its last round.
    pub enough: Option<Stop>,
    /// The part that this process takes; `None`: the whole run. A shard needs a seed, a results
    /// directory, and a fixed number of rounds.
    pub shard: Option<Shard>,
    /// Results directory; for a shard, the one that all shards share. `None`: nothing is written.
    pub out: Option<PathBuf>,
    /// Takes the samples.
    pub sampler: Box<dyn Sampler>,
    /// Shows how far the run is; a sampler may add a message.
    pub progress: ProgressBar,
}

/// Decides after each round whether the run has enough rounds.
pub type Stop = Box<dyn Fn(&Run) -> Enough>;

/// The answer of a [`Stop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enough {
    /// The run ends.
    Yes,
    /// The run goes on; `expected` is the number of rounds that it will take, if known.
    No {
        /// Rounds without the warm-up.
        expected: Option<usize>,
    },
}

impl Experiment {
    /// Makes an experiment with a warm-up round and one counted round, with one task. Its metric is
    /// time per operation, its baseline is the first variant, its seed is from the clock, and it
    /// writes no results.
    pub fn new(
        name: &str,
        variants: Vec<Variant>,
        workloads: Vec<Workload>,
        sampler: impl Sampler + 'static,
    ) -> Self {
        Self {
            about: "a fresh process.".to_owned(),
            meta: Meta {
                schema: SCHEMA.to_owned(),
                experiment: name.to_owned(),
                seed: blocks::seed_from_clock(),
                rounds: 1,
                baseline: variants.first().map(|it| it.name.clone()).unwrap_or_default(),
                variants,
                workloads,
                tasks: vec![1],
                metrics: vec![Metric::time_per_operation().primary()],
                origin: Some(Origin::now()),
                ..Meta::default()
            },
            warm_up: true,
            enough: None,
            shard: None,
            out: None,
            sampler: Box::new(sampler),
            progress: progress_bar(),
        }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn option(mut self, name: &str, value: impl ToString) -> Self {
        self.meta.options.insert(name.to_owned(), value.to_string());
        self
    }

    /// Records the program that every sample runs, and its standard input.
    #[must_use]
    pub fn of_program(mut self, command: &[OsString], stdin: Stdin) -> Self {
        let origin = self.meta.origin.get_or_insert_default();
        origin.program = command.iter().map(|it| it.to_string_lossy().into_owned()).collect();
        origin.stdin = Some(stdin);
        self
    }

    /// Takes every sample, in randomised complete blocks: in a round, each workload with each
    /// number of tasks is a block, and each variant runs once in it.
    ///
    /// # Errors
    /// If the results directory cannot be used, or the experiment contradicts itself; for a shard
    /// also if it has no sample, or the directory has shards of another run.
    pub fn conduct(self) -> Result<Run> {
        let start = Instant::now();
        let part = self.shard.map(|shard| Part { shard, warm_up: self.warm_up });
        let environment = Environment { findings: doctor::brief(), ..Environment::capture() };
        let mut conductor = Conductor {
            sampler: self.sampler,
            start,
            progress: self.progress,
            directory: None,
            part: None,
            run: Run {
                meta: Meta { part, environment, ..self.meta },
                samples: Vec::new(),
                warnings: Vec::new(),
            },
        };
        let meta = &conductor.run.meta;
        meta.validate().map_err(|fault| anyhow!("{}: {fault}", meta.experiment))?;
        let shape = meta.shape(self.warm_up);
        if let (Some(shard), 0) = (self.shard, shape.counted()) {
            let runs = u64::from(shape.rounds) * shape.blocks as u64;
            bail!(Usage(format!("--shard {shard}: there is no more to share out than {runs}")));
        }
        match (&self.out, self.shard) {
            (None, None) => {}
            (None, Some(shard)) => bail!(Usage(format!(
                "--shard {shard}: a shard that is not recorded is of no use; say --out DIR"
            ))),
            (Some(place), _) => {
                if let Some(complete) = conductor.open(place)? {
                    return Ok(complete);
                }
            }
        }
        conductor.expect(shape, shape.rounds as usize);
        let mut goes_on = true;
        for (round, steps) in shape.schedule() {
            goes_on = conductor.round(round, steps)?;
            let enough = self.enough.as_ref().map(|enough| enough(&conductor.run));
            if let Some(Enough::No { expected: Some(expected) }) = enough {
                conductor.expect(shape, expected);
            }
            if !goes_on || enough == Some(Enough::Yes) {
                break;
            }
        }
        conductor.progress.finish_and_clear();
        if let (Some(part), Some(directory), true) = (conductor.part, conductor.directory, goes_on)
        {
            part.finish(&directory, conductor.run.samples.len())?;
        }
        Ok(conductor.run)
    }
}

struct Conductor {
    sampler: Box<dyn Sampler>,
    start: Instant,
    progress: ProgressBar,
    directory: Option<RunDirectory>,
    part: Option<PartDirectory>,
    run: Run,
}

impl Conductor {
    /// Opens the results directory. Returns the run of a shard that is complete there already.
    fn open(&mut self, place: &Path) -> Result<Option<Run>> {
        let meta = &self.run.meta;
        let Some(part) = meta.part else {
            self.directory = Some(RunDirectory::create(place, meta)?);
            return Ok(None);
        };
        match PartDirectory::begin(place, part.shard, meta)? {
            Begun::New(directory, part) => {
                (self.directory, self.part) = (Some(directory), Some(part));
                Ok(None)
            }
            Begun::There(place) => {
                let mut run = results::read(&place)?;
                run.warnings.push("taken before: nothing was measured now".to_owned());
                Ok(Some(run))
            }
        }
    }

    /// Takes one round. Returns false if it was interrupted.
    fn round(&mut self, round: u32, steps: Vec<Step>) -> Result<bool> {
        let tasks = self.run.meta.tasks.clone();
        for Step { block, variant } in steps {
            let (workload, tasks) = (block / tasks.len(), tasks[block % tasks.len()]);
            let key = SampleKey { round, workload, tasks, variant };
            match self.sampler.sample(key) {
                Err(NoSample::Interrupted) => return Ok(false),
                Err(NoSample::LeftOut) => {}
                Err(NoSample::Failed(failure)) => self.record(key, Err(failure))?,
                Ok(taken) => {
                    let checked = self.run.meta.workloads[workload].check(&taken.measurement);
                    self.record(key, checked.map(|()| taken))?;
                }
            }
            self.progress.inc(1);
        }
        Ok(true)
    }

    fn record(&mut self, key: SampleKey, taken: Result<Taken, String>) -> Result<()> {
        let Meta { workloads, variants, .. } = &self.run.meta;
        let (measurement, timeline, failure) = match taken {
            Ok(Taken { measurement, timeline }) => (Some(measurement), timeline, None),
            Err(failure) => (None, None, Some(failure)),
        };
        let sample = Sample {
            round: key.round,
            workload: workloads[key.workload].name.clone(),
            tasks: key.tasks,
            variant: variants[key.variant].name.clone(),
            at_ms: self.start.elapsed().as_millis() as u64,
            measurement,
            timeline,
            failure,
        };
        if let Some(directory) = &mut self.directory {
            directory.append(&sample)?;
        }
        self.run.samples.push(sample);
        Ok(())
    }

    fn expect(&self, shape: Shape, rounds: usize) {
        let all = (rounds + usize::from(shape.warm_up)) * shape.blocks * shape.variants;
        let shards = shape.shard.map_or(1, |shard| shard.of() as usize);
        self.progress.set_length(all.div_ceil(shards) as u64);
    }
}

/// A bar with the time left; invisible if standard error is no terminal.
pub fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} samples, {eta} left {wide_msg}")
        .expect("the template is constant and valid");
    ProgressBar::new(0).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::examples::cell;
    use crate::results::{Measurement, Verify, read};
    use std::cell::Cell;
    use std::rc::Rc;

    fn experiment(sampler: impl Sampler + 'static) -> Experiment {
        let variants = vec![Variant::new("good", ""), Variant::new("bad", "")];
        let workloads = vec![Workload::new("w", Verify::PerOperation(1))];
        let mut experiment = Experiment::new("test", variants, workloads, sampler);
        let Meta { origin, rounds, seed, .. } = &mut experiment.meta;
        (*origin, *rounds, *seed) = (Some(Origin::default()), 2, 3);
        experiment
    }

    fn measured(verified: u64) -> Taken {
        Measurement { verified, ..Measurement::of_window(2, 6, 6, 6, "x") }.into()
    }

    #[test]
    fn a_run_keeps_failures_beside_measurements() {
        let take = |key: SampleKey| match key.variant {
            0 => Ok(measured(2)),
            _ => Err("broken".into()),
        };
        let run = experiment(take).conduct().unwrap();
        assert_eq!(run.samples.len(), 6, "warm-up and two rounds of two variants");
        let time = run.meta.primary();
        assert_eq!(run.values(cell("good"), time), [Some(3.0), Some(3.0)]);
        assert_eq!(run.values(cell("bad"), time), [None, None]);
        assert_eq!(run.samples.iter().filter(|s| s.failure.is_some()).count(), 3);
    }

    #[test]
    fn work_that_did_not_happen_is_a_failure() {
        let take = |key: SampleKey| Ok(measured(2 - key.variant as u64));
        let run = experiment(take).conduct().unwrap();
        assert_eq!(run.values(cell("bad"), run.meta.primary()), [None, None]);
        assert!(run.failures()[0].starts_with("w on bad: verified 1 of 2"), "{:?}", run.failures());
    }

    #[test]
    fn every_sample_is_in_the_directory_when_the_next_one_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("run");
        let taken = Rc::new(Cell::new(0));
        let (counter, written) = (Rc::clone(&taken), place.clone());
        let take = move |_: SampleKey| {
            assert_eq!(read(&written).unwrap().samples.len(), counter.get());
            counter.set(counter.get() + 1);
            Ok(measured(2))
        };
        let mut experiment = Experiment { out: Some(place.clone()), ..experiment(take) };
        experiment.meta.tasks = vec![1, 4];
        let run = experiment.conduct().unwrap();
        assert_eq!(taken.get(), 3 * 2 * 2, "rounds and warm-up, numbers of tasks, variants");
        let back = read(&place).unwrap();
        assert_eq!((back.meta, back.samples), (run.meta, run.samples));
    }

    #[test]
    fn samples_that_were_not_taken_leave_no_trace() {
        let take = |key: SampleKey| match (key.round, key.variant) {
            (0, 1) => Err(NoSample::LeftOut),
            _ => Ok(measured(2)),
        };
        let run = experiment(take).conduct().unwrap();
        assert_eq!(run.samples.len(), 5);
        assert_eq!(run.failures(), [""; 0]);
    }

    #[test]
    fn an_interruption_ends_the_run_and_leaves_no_trace() {
        let taken = Rc::new(Cell::new(0));
        let counter = Rc::clone(&taken);
        let take = move |_: SampleKey| {
            counter.set(counter.get() + 1);
            if counter.get() == 4 { Err(NoSample::Interrupted) } else { Ok(measured(2)) }
        };
        let run = experiment(take).conduct().unwrap();
        assert_eq!((run.samples.len(), taken.get()), (3, 4), "nothing is asked for afterwards");
        assert_eq!(run.failures(), [""; 0]);
    }

    #[test]
    fn a_run_ends_when_there_is_enough() {
        let after_five = |run: &Run| match run.rounds() {
            5.. => Enough::Yes,
            _ => Enough::No { expected: Some(5) },
        };
        let mut endless = experiment(|_| Ok(measured(2)));
        (endless.meta.rounds, endless.warm_up) = (1000, false);
        endless.enough = Some(Box::new(after_five));
        let run = endless.conduct().unwrap();
        assert_eq!((run.rounds(), run.samples.len()), (5, 10));
    }

    #[test]
    fn contradictions_are_told_before_the_first_sample() {
        let take = |_: SampleKey| -> Result<Taken, NoSample> { panic!("no sample is to be taken") };
        let mut experiment = experiment(take);
        experiment.meta.baseline = "best".to_owned();
        let error = experiment.conduct().unwrap_err().to_string();
        assert_eq!(error, "test: no variant is called best");
    }

    struct SimulatedLock {
        hold_ns: [u64; 2],
    }

    impl Sampler for SimulatedLock {
        fn sample(&self, key: SampleKey) -> Result<Taken, NoSample> {
            let (tasks, hold) = (u64::from(key.tasks), self.hold_ns[key.variant]);
            let (mut free_at, mut ready) = (0, vec![0; tasks as usize]);
            let operations = 100 * tasks;
            for turn in 0..operations {
                let task = (turn % tasks) as usize;
                free_at = u64::max(free_at, ready[task]) + hold;
                ready[task] = free_at + 40;
            }
            let measurement = Measurement::of_window(operations, free_at, free_at, 0, "simulated");
            Ok(Measurement { verified: operations, ..measurement }.into())
        }
    }

    #[test]
    fn a_simulated_machine_is_a_sampler() {
        let mut experiment = experiment(SimulatedLock { hold_ns: [10, 20] });
        experiment.meta.tasks = vec![1, 64];
        let run = experiment.conduct().unwrap();
        let of = |variant, tasks| {
            let cell = crate::results::Cell { tasks, ..cell(variant) };
            run.values(cell, run.meta.primary())[0].unwrap()
        };
        assert!(of("good", 1) > 49.0 && of("good", 64) == 10.0, "the lock is the limit");
        assert_eq!(of("bad", 64), 20.0);
        assert_eq!(run.samples[0].measurement.as_ref().unwrap().served_by, "simulated");
    }
}
