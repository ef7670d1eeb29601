//! A whole run: what is compared, over what, how often; and how it is conducted.

use crate::blocks::{self, Step};
use crate::environment::Environment;
use crate::results::{
    Measurement, Meta, Metric, Run, RunDirectory, SCHEMA, Sample, Timeline, Variant, Workload,
};
use anyhow::{Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

/// The failure of a sample that was not taken, or not to its end, because the run was told to end.
/// It leaves no trace.
pub const INTERRUPTED: &str = "interrupted";

/// The failure of a sample that its experiment does not want, such as the warm-up of something that
/// needs none. It leaves no trace either.
pub const LEFT_OUT: &str = "left out";

/// What an experiment is, before its first sample.
#[derive(Clone, Debug)]
pub struct Design {
    /// Name of the experiment.
    pub experiment: String,
    /// The things compared; the A/A copy of the baseline is one of them.
    pub variants: Vec<Variant>,
    /// The one that the others are compared with.
    pub baseline: String,
    /// What is run on each.
    pub workloads: Vec<Workload>,
    /// With how many tasks at once, in turn; `[1]` where that is no dimension.
    pub tasks: Vec<u32>,
    /// What the samples say; one of them is primary.
    pub metrics: Vec<Metric>,
    /// Parameters of the experiment, for the reader of the results.
    pub options: BTreeMap<String, String>,
    /// Rounds after the warm-up.
    pub rounds: u32,
    /// Whether there is a warm-up round.
    pub warm_up: bool,
    /// Seed of the order; `None` takes it from the clock.
    pub seed: Option<u64>,
    /// Results directory; `None` writes nothing.
    pub out: Option<PathBuf>,
}

/// Which sample is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Round; 0 is the warm-up.
    pub round: u32,
    /// Index of the workload.
    pub workload: usize,
    /// How many tasks.
    pub tasks: u32,
    /// Index of the variant.
    pub variant: usize,
}

/// What a sample brought.
#[derive(Clone, Debug)]
pub struct Taken {
    /// What was measured.
    pub measurement: Measurement,
    /// What the parent saw meanwhile, where it watched.
    pub timeline: Option<Timeline>,
}

impl From<Measurement> for Taken {
    fn from(measurement: Measurement) -> Self {
        Self { measurement, timeline: None }
    }
}

impl Design {
    /// With a parameter of the experiment.
    pub fn option(mut self, name: &str, value: impl ToString) -> Self {
        self.options.insert(name.to_owned(), value.to_string());
        self
    }

    /// Takes every sample, in randomised complete blocks.
    ///
    /// # Errors
    /// Where the results directory cannot be made or written, or the design contradicts itself.
    pub fn conduct<T: Into<Taken>>(self, take: impl Fn(Spot) -> Result<T, String>) -> Result<Run> {
        let first = u32::from(!self.warm_up);
        let last = self.rounds;
        let mut session = Session::begin(self)?;
        for round in first..=last {
            session.round(round, &take)?;
        }
        Ok(session.end())
    }
}

/// A run that is being taken.
pub struct Session {
    /// What has been taken so far.
    pub run: Run,
    directory: Option<RunDirectory>,
    random: StdRng,
    start: Instant,
    warm_up: bool,
    progress: ProgressBar,
}

impl Session {
    /// Looks at the machine and opens the results directory.
    ///
    /// # Errors
    /// Where that cannot be made, or the design contradicts itself.
    pub fn begin(design: Design) -> Result<Self> {
        let seed = design.seed.unwrap_or_else(blocks::seed_from_clock);
        let meta = Meta {
            schema: SCHEMA.to_owned(),
            experiment: design.experiment,
            seed,
            rounds: design.rounds,
            baseline: design.baseline,
            variants: design.variants,
            workloads: design.workloads,
            tasks: design.tasks,
            metrics: design.metrics,
            options: design.options,
            environment: Environment::capture(),
        };
        meta.validate().map_err(|fault| anyhow!("{}: {fault}", meta.experiment))?;
        let directory = match &design.out {
            Some(place) => Some(RunDirectory::create(place, &meta)?),
            None => None,
        };
        let cells = meta.workloads.len() * meta.tasks.len() * meta.variants.len();
        let rounds = meta.rounds as usize + usize::from(design.warm_up);
        let progress = progress_bar((rounds * cells) as u64);
        progress.tick();
        Ok(Self {
            run: Run { meta, samples: Vec::with_capacity(rounds * cells), warnings: Vec::new() },
            directory,
            random: StdRng::seed_from_u64(seed),
            start: Instant::now(),
            warm_up: design.warm_up,
            progress,
        })
    }

    /// Takes one round: every workload with every number of tasks is a block, in which each variant
    /// runs once. Samples that did not do their work count as failed.
    ///
    /// # Errors
    /// Where the results directory cannot be written.
    pub fn round<T: Into<Taken>>(
        &mut self,
        round: u32,
        take: impl Fn(Spot) -> Result<T, String>,
    ) -> Result<()> {
        let tasks = self.run.meta.tasks.clone();
        let blocks = self.run.meta.workloads.len() * tasks.len();
        let variants = self.run.meta.variants.len();
        for Step { block, variant } in blocks::round(blocks, variants, &mut self.random) {
            let (workload, tasks) = (block / tasks.len(), tasks[block % tasks.len()]);
            let spot = Spot { round, workload, tasks, variant };
            let taken = take(spot).map(Into::into);
            match &taken {
                Err(failure) if failure == INTERRUPTED => continue,
                Err(failure) if failure == LEFT_OUT => {}
                _ => self.record(spot, taken)?,
            }
            self.progress.inc(1);
        }
        Ok(())
    }

    fn record(&mut self, spot: Spot, taken: Result<Taken, String>) -> Result<()> {
        let workload = &self.run.meta.workloads[spot.workload];
        let checked = taken.and_then(|taken| match workload.check(&taken.measurement) {
            Ok(()) => Ok(taken),
            Err(fault) => Err(fault),
        });
        let mut sample = Sample {
            round: spot.round,
            workload: workload.name.clone(),
            tasks: spot.tasks,
            variant: self.run.meta.variants[spot.variant].name.clone(),
            at_ms: self.start.elapsed().as_millis() as u64,
            measurement: None,
            timeline: None,
            failure: None,
        };
        match checked {
            Ok(taken) => {
                sample.measurement = Some(taken.measurement);
                sample.timeline = taken.timeline;
            }
            Err(failure) => sample.failure = Some(failure),
        }
        if let Some(directory) = &mut self.directory {
            directory.append(&sample)?;
        }
        self.run.samples.push(sample);
        Ok(())
    }

    /// Corrects how many rounds there will be, for the time left.
    pub fn expect(&self, rounds: usize) {
        let meta = &self.run.meta;
        let cells = meta.workloads.len() * meta.tasks.len() * meta.variants.len();
        self.progress.set_length(((rounds + usize::from(self.warm_up)) * cells) as u64);
    }

    /// The run as far as it came.
    pub fn end(self) -> Run {
        self.progress.finish_and_clear();
        self.run
    }
}

/// A bar with the time left; invisible where stderr is no terminal.
fn progress_bar(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} samples, {eta} left")
        .expect("the template is constant and valid");
    ProgressBar::new(length).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::examples::cell;
    use crate::results::{Verify, read};

    fn design() -> Design {
        Design {
            experiment: "test".to_owned(),
            variants: vec![Variant::new("good", ""), Variant::new("bad", "")],
            baseline: "good".to_owned(),
            workloads: vec![Workload::new("w", Verify::PerOperation(1))],
            tasks: vec![1],
            metrics: vec![Metric::time_per_operation().primary()],
            options: BTreeMap::new(),
            rounds: 2,
            warm_up: true,
            seed: Some(3),
            out: None,
        }
    }

    fn measured(verified: u64) -> Measurement {
        Measurement { verified, ..Measurement::of_window(2, 6, 6, 6, "x") }
    }

    #[test]
    fn a_run_keeps_failures_beside_measurements() {
        let take = |spot: Spot| match spot.variant {
            0 => Ok(measured(2)),
            _ => Err("broken".to_owned()),
        };
        let run = design().conduct(take).unwrap();
        assert_eq!(run.samples.len(), 6, "warm-up and two rounds of two variants");
        let time = run.meta.primary();
        assert_eq!(run.values(cell("good"), time), [Some(3.0), Some(3.0)]);
        assert_eq!(run.values(cell("bad"), time), [None, None]);
        assert_eq!(run.samples.iter().filter(|s| s.failure.is_some()).count(), 3);
    }

    #[test]
    fn work_that_did_not_happen_is_a_failure() {
        let run = design().conduct(|spot| Ok(measured(2 - spot.variant as u64))).unwrap();
        assert_eq!(run.values(cell("bad"), run.meta.primary()), [None, None]);
        assert!(run.failures()[0].starts_with("w on bad: verified 1 of 2"), "{:?}", run.failures());
    }

    #[test]
    fn every_sample_is_in_the_directory_when_the_next_one_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("run");
        let design = Design { out: Some(place.clone()), tasks: vec![1, 4], ..design() };
        let taken = std::cell::Cell::new(0);
        let take = |_: Spot| {
            assert_eq!(read(&place).unwrap().samples.len(), taken.get());
            taken.set(taken.get() + 1);
            Ok(measured(2))
        };
        let run = design.conduct(take).unwrap();
        assert_eq!(taken.get(), 3 * 2 * 2, "rounds and warm-up, numbers of tasks, variants");
        let back = read(&place).unwrap();
        assert_eq!((back.meta, back.samples), (run.meta, run.samples));
    }

    #[test]
    fn samples_that_were_not_taken_leave_no_trace() {
        for reason in [INTERRUPTED, LEFT_OUT] {
            let take = |spot: Spot| match (spot.round, spot.variant) {
                (0, 1) => Err(reason.to_owned()),
                _ => Ok(measured(2)),
            };
            let run = design().conduct(take).unwrap();
            assert_eq!(run.samples.len(), 5, "{reason}");
            assert_eq!(run.failures(), [""; 0]);
        }
    }

    #[test]
    fn rounds_can_be_added_one_by_one() {
        let mut session = Session::begin(Design { warm_up: false, ..design() }).unwrap();
        for round in 1..=5 {
            session.round(round, |_| Ok(measured(2))).unwrap();
            assert_eq!(session.run.samples.len(), round as usize * 2);
        }
        assert_eq!(session.end().rounds(), 5, "more than were asked for");
    }

    #[test]
    fn contradictions_are_told_before_the_first_sample() {
        let take = |_: Spot| -> Result<Taken, String> { panic!("no sample is to be taken") };
        let design = Design { baseline: "best".to_owned(), ..design() };
        let error = design.conduct(take).unwrap_err().to_string();
        assert_eq!(error, "test: no variant is called best");
    }
}
