//! One sample of the program that is compared: what it printed, what it was served by.

use super::figure::Figure;
use super::interrupt::Interrupt;
use super::launch::{Launcher, Program};
use super::raw::{Raw, difference};
use crate::contenders::Contender;
use anyhow::Result;
use quarry_harness::runner::Taken;
use std::cell::RefCell;

/// The program, and everything that is the same for all of its samples.
pub(super) struct Bench<'a> {
    /// What runs.
    pub(super) program: Program,
    figures: &'a [Figure],
    check_output: bool,
    launcher: Launcher<'a>,
    reference: RefCell<Option<Reference>>,
}

/// What the first good sample printed.
struct Reference {
    by: String,
    output: Vec<u8>,
}

impl<'a> Bench<'a> {
    /// Makes the folder that samples write into. `figures`: what the program prints;
    /// `check_output`: whether all samples must print the same; `interrupt` tells when to stop.
    ///
    /// # Errors
    /// Where that cannot be made, or nothing in it could be preloaded.
    pub(super) fn new(
        program: Program,
        figures: &'a [Figure],
        check_output: bool,
        interrupt: &'a Interrupt,
    ) -> Result<Self> {
        let launcher = Launcher::new(interrupt)?;
        Ok(Self { program, figures, check_output, launcher, reference: RefCell::new(None) })
    }

    /// One run of the program under the counter, on glibc.
    ///
    /// # Errors
    /// Where it could not be made, or the program failed.
    pub(super) fn probe(&self) -> Result<Raw> {
        self.launcher.probe(&self.program, None)
    }

    /// Takes a sample. In the warm-up Quarry prints its own statistics, which takes it some time.
    ///
    /// # Errors
    /// Why it does not count.
    pub(super) fn take(&self, contender: &Contender, warm_up: bool) -> Result<Taken, String> {
        let (raw, served_by) = self.launcher.take(&self.program, contender, warm_up, None)?;
        self.check(contender, &raw)?;
        self.measured(&raw, &served_by)
    }

    fn check(&self, contender: &Contender, raw: &Raw) -> Result<(), String> {
        if !self.check_output {
            return Ok(());
        }
        let mut reference = self.reference.borrow_mut();
        let Some(first) = &*reference else {
            let by = contender.name().to_owned();
            *reference = Some(Reference { by, output: raw.stdout.clone() });
            return Ok(());
        };
        match difference(&first.output, &raw.stdout) {
            None => Ok(()),
            Some(what) => Err(format!("printed something else than on {}: {what}", first.by)),
        }
    }

    fn measured(&self, raw: &Raw, served_by: &str) -> Result<Taken, String> {
        let mut measurement = raw.measurement(served_by);
        measurement.verified = 1;
        for figure in self.figures {
            let value = figure.find(&raw.stdout).or_else(|| figure.find(&raw.stderr));
            let Some(value) = value else {
                return Err(format!("printed no number that --metric {} finds", figure.name));
            };
            measurement.figures.insert(figure.name.clone(), value);
        }
        Ok(Taken { measurement, timeline: Some(raw.timeline()) })
    }
}
