//! A row of a replay for an experiment of another kind, which stands beside it.

use super::documents::Figure;
use super::row::Row;
use super::sample::ReplaySample;
use super::spec::Spec;
use anyhow::Result;
use quarry_harness::affinity;
use quarry_harness::results::{Measurement, Metric};
use quarry_replay::crew::Place;
use quarry_replay::kernels::Cast;
use quarry_replay::policies::Policies;
use quarry_replay::stack::Machine;

/// A row of an experiment of `data/replays.toml`.
#[derive(Clone)]
pub(in crate::experiments) struct Beside {
    spec: &'static Spec,
    row: Row,
}

/// The machine and the length of a sample that stands beside another one.
#[derive(Clone, Copy, Debug)]
pub(in crate::experiments) struct Terms {
    /// The machine that the kernel's formulas are told of.
    pub(in crate::experiments) machine: Machine,
    /// Tasks at once.
    pub(in crate::experiments) tasks: u32,
    /// Length of the measured window in milliseconds.
    pub(in crate::experiments) millis: u64,
    /// CPUs of the two sides of a pair.
    pub(in crate::experiments) place: Place,
}

impl Beside {
    /// The row of these names.
    ///
    /// # Errors
    /// If there is none.
    pub(in crate::experiments) fn find(experiment: &str, row: &str) -> Result<Self> {
        let spec = Spec::find(experiment)?;
        Ok(Self { spec, row: spec.row(row)? })
    }

    /// The figure of the original, in its unit.
    pub(in crate::experiments) fn rate(&self) -> Metric {
        self.spec.metrics().remove(0)
    }

    /// The number of the document.
    pub(in crate::experiments) fn document(&self) -> &'static str {
        &self.spec.document.number
    }

    /// The document's figures for so many tasks, the baseline's first.
    pub(in crate::experiments) fn documented(&self, tasks: u32) -> Vec<Figure> {
        self.spec.document.all(&self.row, tasks)
    }

    /// Replays it in a fresh process.
    ///
    /// # Errors
    /// Why there is no measurement.
    pub(in crate::experiments) fn measure(
        &self,
        policies: &Policies,
        terms: Terms,
    ) -> Result<Measurement> {
        let Terms { machine, tasks, millis, place } = terms;
        let amount = self.spec.amount.as_ref();
        let usual = amount.map_or(0, |it| it.usual);
        let of_pairs = self
            .row
            .scenario(usual, None)
            .is_some_and(|scenario| matches!(scenario.cast, Cast::Crew(_)));
        let sample = ReplaySample {
            experiment: self.spec.name.clone(),
            row: self.row.name.clone(),
            policies: policies.clone(),
            machine,
            place: of_pairs.then_some(place),
            tasks,
            amount: amount.map_or(usual, |it| it.of_each(usual, tasks)),
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
