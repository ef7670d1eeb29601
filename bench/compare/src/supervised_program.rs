//! One sample of the compared program: its output, its figures, and the allocator that served it.

use super::figure::Figure;
use super::interrupt::Interrupt;
use super::latencies;
use super::launch::{Launcher, Program};
use super::metrics::Wanted;
use super::raw::{Raw, difference};
use crate::allocators::GLIBC;
use crate::contenders::Contender;
use anyhow::Result;
use indicatif::ProgressBar;
use quarry_harness::results::Measurement;
use quarry_harness::sampler::{NoSample, SampleKey, Sampler, Taken};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use thiserror::Error;

pub(super) struct SupervisedProgram {
    pub(super) programs: Vec<Program>,
    pub(super) contenders: Vec<Contender>,
    pub(super) wanted: Wanted,
    pub(super) check_output: bool,
    launcher: Launcher,
    /// For each workload, the contender of its first good sample and that sample's output.
    first: RefCell<BTreeMap<usize, (String, Vec<u8>)>>,
}

impl SupervisedProgram {
    /// With `check_output` all samples must print the same.
    pub(super) fn new(
        programs: Vec<Program>,
        contenders: Vec<Contender>,
        wanted: Wanted,
        check_output: bool,
        interrupt: &Rc<Interrupt>,
    ) -> Result<Self> {
        let launcher = Launcher::new(Rc::clone(interrupt))?;
        let first = RefCell::new(BTreeMap::new());
        Ok(Self { programs, contenders, wanted, check_output, launcher, first })
    }

    /// Shows what a run waits for beside a bar of progress.
    pub(super) fn show_on(&self, progress: &ProgressBar) {
        self.launcher.show_on(progress);
    }

    /// See [`Launcher::probe`]; also fails if the program does not print every figure or, where
    /// outputs are compared, prints something else than in its first run.
    pub(super) fn probe(&self, workload: usize) -> Result<Raw> {
        self.forget_latencies()?;
        let raw = self.launcher.probe(&self.programs[workload], None)?;
        self.figures_in(&raw)?;
        match self.differs(workload, GLIBC, &raw) {
            Some((_, what)) => Err(Unsteady(what).into()),
            None => Ok(raw),
        }
    }

    fn forget_latencies(&self) -> Result<()> {
        self.wanted.latencies.as_deref().map_or(Ok(()), latencies::forget)
    }

    /// Records a workload's program, and returns the plan by which its heap can be aged.
    pub(super) fn plan(&self, workload: usize) -> Result<PathBuf> {
        self.forget_latencies()?;
        self.launcher.plan(&self.programs[workload])
    }

    /// See [`Launcher::as_it_is`].
    pub(super) fn as_it_is(&self, workload: usize) -> Result<Option<PathBuf>, NoSample> {
        self.launcher.as_it_is(&self.programs[workload])
    }

    /// The contender of the first good sample, and in what the output differs from that of it.
    fn differs(&self, workload: usize, name: &str, raw: &Raw) -> Option<(String, String)> {
        if !self.check_output {
            return None;
        }
        let mut first = self.first.borrow_mut();
        let this = || (name.to_owned(), raw.stdout.clone());
        let (by, output) = first.entry(workload).or_insert_with(this);
        difference(output, &raw.stdout).map(|what| (by.clone(), what))
    }

    fn check(&self, workload: usize, contender: &Contender, raw: &Raw) -> Result<(), String> {
        let differs = self.differs(workload, contender.name(), raw);
        differs.map_or(Ok(()), |(by, what)| {
            Err(format!("printed something else than on {by}: {what}"))
        })
    }

    fn measured(&self, raw: &Raw, served_by: &str) -> Result<Measurement, String> {
        let mut measurement = raw.measurement(served_by);
        measurement.verified = 1;
        measurement.figures.extend(self.figures_in(raw).map_err(|error| error.to_string())?);
        Ok(measurement)
    }

    fn figures_in(&self, raw: &Raw) -> Result<Vec<(String, f64)>> {
        let find = |it: &Figure| Ok((it.name.clone(), it.find(&raw.stdout, &raw.stderr)?));
        let mut figures: Vec<_> = self.wanted.figures.iter().map(find).collect::<Result<_>>()?;
        if let Some(file) = &self.wanted.latencies {
            figures.extend(latencies::read(file)?);
        }
        Ok(figures)
    }
}

/// Two runs on the same allocator printed different things.
#[derive(Debug, Error)]
#[error(
    "--check-output: two runs on glibc print different things ({0}), so no output shows \
         whether an allocator is right; leave --check-output out, or let the program print the \
         same each time (a fixed seed, no times, no addresses)"
)]
pub(super) struct Unsteady(String);

impl Sampler for SupervisedProgram {
    /// In the warm-up Quarry prints its statistics, which takes some time.
    fn sample(&self, key: SampleKey) -> Result<Taken, NoSample> {
        let contender = &self.contenders[key.variant];
        let program = &self.programs[key.workload];
        self.forget_latencies()?;
        let (raw, served_by) = self.launcher.take(program, contender, key.round == 0, None)?;
        self.check(key.workload, contender, &raw)?;
        let measurement = self.measured(&raw, &served_by)?;
        Ok(Taken { measurement, timeline: Some(raw.timeline()) })
    }
}
