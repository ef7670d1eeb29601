//! One sample of the program that is compared: what it printed, what it was served by.

use super::figure::Figure;
use super::interrupt::Interrupt;
use super::launch::{Launcher, Program};
use super::raw::{Raw, difference};
use crate::contenders::Contender;
use anyhow::Result;
use quarry_harness::results::Measurement;
use quarry_harness::sampler::{NoSample, SampleKey, Sampler, Taken};
use std::cell::RefCell;
use std::rc::Rc;

/// A program under a supervisor, on the contender of each variant.
pub(super) struct SupervisedProgram {
    pub(super) program: Program,
    /// One for each variant.
    pub(super) contenders: Vec<Contender>,
    pub(super) figures: Vec<Figure>,
    check_output: bool,
    launcher: Launcher,
    /// The contender of the first good sample, and its output.
    first: RefCell<Option<(String, Vec<u8>)>>,
}

impl SupervisedProgram {
    /// Makes the folder that samples write into. `check_output`: whether all samples must print the
    /// same; `interrupt` tells when to stop.
    pub(super) fn new(
        program: Program,
        contenders: Vec<Contender>,
        figures: Vec<Figure>,
        check_output: bool,
        interrupt: &Rc<Interrupt>,
    ) -> Result<Self> {
        let launcher = Launcher::new(Rc::clone(interrupt))?;
        let first = RefCell::new(None);
        Ok(Self { program, contenders, figures, check_output, launcher, first })
    }

    /// Runs the program once under the counter, on glibc.
    pub(super) fn probe(&self) -> Result<Raw> {
        self.launcher.probe(&self.program, None)
    }

    fn check(&self, contender: &Contender, raw: &Raw) -> Result<(), String> {
        if !self.check_output {
            return Ok(());
        }
        let mut first = self.first.borrow_mut();
        let (by, output) =
            first.get_or_insert_with(|| (contender.name().to_owned(), raw.stdout.clone()));
        let what = difference(output, &raw.stdout);
        what.map_or(Ok(()), |what| Err(format!("printed something else than on {by}: {what}")))
    }

    fn measured(&self, raw: &Raw, served_by: &str) -> Result<Measurement, String> {
        let mut measurement = raw.measurement(served_by);
        measurement.verified = 1;
        for figure in &self.figures {
            let value = figure.find(&raw.stdout).or_else(|| figure.find(&raw.stderr));
            let Some(value) = value else {
                return Err(format!("printed no number that --metric {} finds", figure.name));
            };
            measurement.figures.insert(figure.name.clone(), value);
        }
        Ok(measurement)
    }
}

impl Sampler for SupervisedProgram {
    /// Takes a sample. In the warm-up Quarry prints its own statistics, which takes it some time.
    fn sample(&self, key: SampleKey) -> Result<Taken, NoSample> {
        let contender = &self.contenders[key.variant];
        let (raw, served_by) =
            self.launcher.take(&self.program, contender, key.round == 0, None)?;
        self.check(contender, &raw)?;
        let measurement = self.measured(&raw, &served_by)?;
        Ok(Taken { measurement, timeline: Some(raw.timeline()) })
    }
}
