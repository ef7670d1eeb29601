//! One sample of the compared program: its output, its figures, and the allocator that served it.

use super::figure::{Figure, NoNumber};
use super::interrupt::Interrupt;
use super::launch::{Launcher, Program};
use super::raw::{Raw, difference};
use crate::contenders::Contender;
use anyhow::Result;
use quarry_harness::results::Measurement;
use quarry_harness::sampler::{NoSample, SampleKey, Sampler, Taken};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

pub(super) struct SupervisedProgram {
    pub(super) programs: Vec<Program>,
    pub(super) contenders: Vec<Contender>,
    pub(super) figures: Vec<Figure>,
    check_output: bool,
    launcher: Launcher,
    /// For each workload, the contender of its first good sample and that sample's output.
    first: RefCell<BTreeMap<usize, (String, Vec<u8>)>>,
}

impl SupervisedProgram {
    /// With `check_output` all samples must print the same.
    pub(super) fn new(
        programs: Vec<Program>,
        contenders: Vec<Contender>,
        figures: Vec<Figure>,
        check_output: bool,
        interrupt: &Rc<Interrupt>,
    ) -> Result<Self> {
        let launcher = Launcher::new(Rc::clone(interrupt))?;
        let first = RefCell::new(BTreeMap::new());
        Ok(Self { programs, contenders, figures, check_output, launcher, first })
    }

    /// See [`Launcher::probe`]; also fails if the program does not print every figure.
    pub(super) fn probe(&self, workload: usize) -> Result<Raw> {
        let raw = self.launcher.probe(&self.programs[workload], None)?;
        self.figures_in(&raw)?;
        Ok(raw)
    }

    /// See [`Launcher::as_it_is`].
    pub(super) fn as_it_is(&self, workload: usize) -> Result<Option<PathBuf>, NoSample> {
        self.launcher.as_it_is(&self.programs[workload])
    }

    fn check(&self, workload: usize, contender: &Contender, raw: &Raw) -> Result<(), String> {
        if !self.check_output {
            return Ok(());
        }
        let mut first = self.first.borrow_mut();
        let this = || (contender.name().to_owned(), raw.stdout.clone());
        let (by, output) = first.entry(workload).or_insert_with(this);
        let what = difference(output, &raw.stdout);
        what.map_or(Ok(()), |what| Err(format!("printed something else than on {by}: {what}")))
    }

    fn measured(&self, raw: &Raw, served_by: &str) -> Result<Measurement, String> {
        let mut measurement = raw.measurement(served_by);
        measurement.verified = 1;
        measurement.figures.extend(self.figures_in(raw).map_err(|error| error.to_string())?);
        Ok(measurement)
    }

    fn figures_in(&self, raw: &Raw) -> Result<Vec<(String, f64)>, NoNumber> {
        let find = |it: &Figure| Ok((it.name.clone(), it.find(&raw.stdout, &raw.stderr)?));
        self.figures.iter().map(find).collect()
    }
}

impl Sampler for SupervisedProgram {
    /// In the warm-up Quarry prints its statistics, which takes some time.
    fn sample(&self, key: SampleKey) -> Result<Taken, NoSample> {
        let contender = &self.contenders[key.variant];
        let program = &self.programs[key.workload];
        let (raw, served_by) = self.launcher.take(program, contender, key.round == 0, None)?;
        self.check(key.workload, contender, &raw)?;
        let measurement = self.measured(&raw, &served_by)?;
        Ok(Taken { measurement, timeline: Some(raw.timeline()) })
    }
}
