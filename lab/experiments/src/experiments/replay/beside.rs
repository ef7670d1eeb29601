//! A row of a replay, for an experiment of another kind that compares its own figures with it.

use super::documents::Figure;
use super::row::Row;
use super::sample::ReplaySample;
use super::spec::Spec;
use anyhow::Result;
use quarry_harness::affinity;
use quarry_harness::results::{Measurement, Metric};
use quarry_replay::crew::Place;
use quarry_replay::policies::Policies;
use quarry_replay::stack::Machine;

#[derive(Clone)]
pub(crate) struct Beside {
    spec: &'static Spec,
    row: Row,
    amount: u32,
}

/// The machine, tasks, length and place of the replay's sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The machine that the kernel's formulas assume.
    pub(crate) machine: Machine,
    pub(crate) tasks: u32,
    pub(crate) millis: u64,
    /// CPUs of the two sides of a pair.
    pub(crate) place: Place,
}

impl Beside {
    /// The row with this name in this experiment, with the given amount of work or the usual one.
    pub(crate) fn find(experiment: &str, row: &str, amount: Option<u32>) -> Result<Self> {
        let spec = Spec::find(experiment)?;
        let usual = spec.amount.as_ref().map_or(0, |it| it.usual);
        Ok(Self { spec, row: spec.row(row)?, amount: amount.unwrap_or(usual) })
    }

    /// The metric of the document's figure, in the document's unit.
    pub(crate) fn rate(&self) -> Metric {
        self.spec.metrics().remove(0)
    }

    pub(crate) fn document(&self) -> &'static str {
        &self.spec.document.number
    }

    /// The document's figures for a number of tasks, the baseline's first.
    pub(crate) fn documented(&self, tasks: u32) -> Vec<Figure> {
        self.spec.document.all(&self.row, tasks)
    }

    /// Replays the row in a fresh process.
    pub(crate) fn measure(&self, policies: &Policies, terms: Terms) -> Result<Measurement> {
        let Terms { machine, tasks, millis, place } = terms;
        let sample = ReplaySample {
            experiment: self.spec.name.clone(),
            row: self.row.name.clone(),
            policies: policies.clone(),
            machine,
            place: self.row.has_senders(self.amount).then_some(place),
            tasks,
            amount: self.spec.amount_of_each(self.amount, tasks),
            millis,
            cpus: affinity::choose(&affinity::allowed(), machine.cpus as usize),
            profiled: false,
            bare: false,
            alone: false,
            timed: false,
        };
        sample.take()
    }
}
