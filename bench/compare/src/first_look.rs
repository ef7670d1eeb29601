//! Runs of a program with its calls of malloc counted: they show whether a comparison is worth
//! making.

use crate::figure::NoNumber;
use crate::latencies::NoLatencies;
use crate::reach::{self, NoVerdict, Probe};
use crate::supervised_program::{SupervisedProgram, Unsteady};
use crate::weight::{self, Weight};
use anyhow::{Error, Result};
use indicatif::ProgressBar;
use std::path::Path;
use std::time::Duration;

/// Returns whether a fault of the first run would be that of every run.
pub(super) fn concerns_every_run(error: &Error) -> bool {
    error.is::<NoNumber>() || error.is::<NoLatencies>() || error.is::<Unsteady>()
}

pub(super) struct FirstLook {
    /// The run with the median influence, of the runs that agree with the majority about reach.
    pub(super) probe: Probe,
    pub(super) runs: usize,
    pub(super) weight: Weight,
    /// True if a process of any run lives on until it counts as idle.
    pub(super) idles: bool,
}

impl FirstLook {
    /// Runs a workload's program with its calls of malloc counted, as often as is needed to judge
    /// its weight. With `time_alone` only the time will be compared, not the memory.
    pub(super) fn at(
        program: &SupervisedProgram,
        workload: usize,
        time_alone: bool,
    ) -> Result<Self> {
        let spinner = ProgressBar::new_spinner().with_message("counting calls of malloc");
        spinner.enable_steady_tick(Duration::from_millis(200));
        program.show_on(&spinner);
        // A program whose output is compared must print the same twice.
        let least = if program.check_output { 2 } else { 1 };
        let (mut probes, mut seen, mut idles) = (Vec::new(), Vec::new(), false);
        let weight = loop {
            let raw = program.probe(workload)?;
            idles |= raw.report.idle_bytes.is_some();
            let probe = Probe::of(&raw, &program.programs[workload].file);
            seen.push(probe.seen(time_alone));
            let weight = weight::of(&seen, probe.negligible());
            probes.push(probe);
            match reach::agreement(&probes).filter(|_| probes.len() >= least) {
                Some(true) => break weight,
                Some(false) if weight != Weight::Unknown => break weight,
                _ => {}
            }
        };
        spinner.finish_and_clear();
        let runs = probes.len();
        let is_out_of_reach = reach::agreement(&probes) == Some(true);
        probes.retain(|probe| probe.is_out_of_reach() == is_out_of_reach);
        probes.sort_by(|one, other| one.influence().total_cmp(&other.influence()));
        let middle = probes.len() / 2;
        Ok(Self { probe: probes.swap_remove(middle), runs, weight, idles })
    }

    /// The reason why there is no comparison. `library` is one of those to preload. With
    /// `is_forced` a program is compared even if an allocator has hardly any influence on it.
    pub(super) fn no_verdict(&self, library: &Path, is_forced: bool) -> Option<NoVerdict> {
        let is_nothing = self.weight == Weight::Nothing && !is_forced;
        self.probe.obstacle(library).or_else(|| is_nothing.then(|| self.probe.no_verdict()))
    }
}
