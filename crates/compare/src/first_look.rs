//! Runs of a program under the counter, before any comparison: they show whether it is worth
//! making.

use crate::reach::{NoVerdict, Probe};
use crate::supervised_program::SupervisedProgram;
use crate::weight::{self, Weight};
use anyhow::Result;
use indicatif::ProgressBar;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

/// The result of the runs under the counter.
pub(super) struct FirstLook {
    /// The one that stands for all of them: in the middle, by the allocator's influence.
    pub(super) probe: Probe,
    pub(super) runs: usize,
    pub(super) weight: Weight,
    /// True if a process lives on until it counts as idle.
    pub(super) idles: bool,
}

/// The value of PYTHONMALLOC.
pub(super) fn python_malloc() -> Option<OsString> {
    std::env::var_os("PYTHONMALLOC")
}

impl FirstLook {
    /// Runs the program under the counter: once, or as often as it takes to judge by.
    pub(super) fn at(program: &SupervisedProgram) -> Result<Self> {
        let spinner = ProgressBar::new_spinner().with_message("counting calls of malloc");
        spinner.enable_steady_tick(Duration::from_millis(200));
        let python = python_malloc();
        let (mut probes, mut seen, mut idles) = (Vec::new(), Vec::new(), false);
        let weight = loop {
            let raw = program.probe()?;
            idles |= raw.report.idle_bytes.is_some();
            let probe = Probe::of(&raw, &program.program.file);
            seen.push(probe.seen());
            let weight = weight::of(&seen, probe.negligible(python.as_deref()));
            let is_out_of_reach = probe.is_out_of_reach();
            probes.push(probe);
            if is_out_of_reach || weight != Weight::Unknown {
                break weight;
            }
        };
        spinner.finish_and_clear();
        let runs = probes.len();
        probes.sort_by(|one, other| one.influence().total_cmp(&other.influence()));
        Ok(Self { probe: probes.swap_remove(runs / 2), runs, weight, idles })
    }

    /// Why there is no comparison, if so. `library` is one that would be preloaded.
    pub(super) fn no_verdict(&self, library: &Path) -> Option<NoVerdict> {
        let python: Option<OsString> = python_malloc();
        let python: Option<&OsStr> = python.as_deref();
        let is_nothing = self.weight == Weight::Nothing;
        self.probe.obstacle(library).or_else(|| is_nothing.then(|| self.probe.no_verdict(python)))
    }
}
