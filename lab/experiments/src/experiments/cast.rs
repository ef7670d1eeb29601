//! The programs of an experiment that can run, and the reasons why others cannot.

use super::plan::Lab;
use crate::ready_program::ReadyProgram;
use crate::real_programs::RealProgram;
use anyhow::{Result, bail};
use quarry_compare::{Interrupt, Launcher};
use std::rc::Rc;

pub(crate) struct Cast {
    pub(crate) ready: Vec<ReadyProgram>,
    /// Programs that fail before any comparison, with the reasons.
    pub(crate) broken: Vec<String>,
    absent: Vec<String>,
    pub(crate) launcher: Launcher,
    pub(crate) interrupt: Rc<Interrupt>,
}

impl Cast {
    pub(crate) fn new() -> Result<Self> {
        let interrupt = Rc::new(Interrupt::listen()?);
        let launcher = Launcher::new(Rc::clone(&interrupt))?;
        let (ready, broken, absent) = Default::default();
        Ok(Self { ready, broken, absent, launcher, interrupt })
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.signal().is_some()
    }

    /// Makes real programs ready, until an interruption.
    pub(crate) fn add_real(&mut self, wanted: &[&RealProgram], quick: bool) {
        for what in wanted {
            let make = || Ok(what.make_ready(what.place()?, quick, &self.launcher));
            if self.is_interrupted() || !self.add(make()) {
                break;
            }
        }
    }

    /// Adds a program, or the reason why it is absent (outer error) or broken (inner error).
    /// Returns false after an interruption.
    pub(crate) fn add(&mut self, made: Result<Result<ReadyProgram>, String>) -> bool {
        match made {
            Err(advice) => self.absent.push(advice),
            Ok(_) if self.is_interrupted() => return false,
            Ok(Ok(program)) => self.ready.push(program),
            Ok(Err(reason)) => self.broken.push(format!("{reason:#}")),
        }
        true
    }

    /// Prints the programs that are absent.
    ///
    /// # Errors
    /// The run was interrupted, or no program can run and there are no other workloads (`rest`).
    pub(crate) fn announce(&self, lab: &mut Lab<'_>, rest: usize) -> Result<()> {
        for advice in &self.absent {
            writeln!(lab.out, "absent: {advice}")?;
        }
        if self.is_interrupted() {
            bail!("interrupted before the first round: there is nothing to print");
        }
        if self.ready.len() + rest == 0 {
            bail!("none of the programs can be run\n{}", self.broken.join("\n"));
        }
        Ok(())
    }
}
