//! The description of a run, for readers of its samples.

use super::{Measurement, Metric, Origin, Sample, Target};
use crate::blocks::Shape;
use crate::environment::Environment;
use crate::shard::Part;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the layout; it increases with every change that a reader must know.
pub const SCHEMA: &str = "quarry-lab/3";
/// An older version that can still be read; it has no targets.
pub const EARLIER_SCHEMA: &str = "quarry-lab/2";

/// A variant: one of the things that a run compares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// Its name in the tables.
    pub name: String,
    /// Its exact description: file, version, options.
    pub description: String,
    /// For an A/A copy, which shows the noise: the name of the variant that it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
}

impl Variant {
    /// Makes a variant.
    pub fn new(name: &str, description: &str) -> Self {
        Self { name: name.to_owned(), description: description.to_owned(), copy_of: None }
    }

    /// Makes the A/A copy of this variant.
    pub fn copy(&self) -> Self {
        let copy_of = Some(self.name.clone());
        Self { name: format!("{} A/A", self.name), copy_of, ..self.clone() }
    }
}

/// The rule for `verified`, the count that proves that a sample did its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// This many verified things per operation.
    PerOperation(u64),
    /// This many verified things, and the same number of operations.
    Exactly(u64),
    /// As many as the counter of this name.
    Counter(String),
}

/// A workload, which runs on every variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Its name in the tables.
    pub name: String,
    /// The proof that its operations happened.
    pub verify: Verify,
}

impl Workload {
    /// Makes a workload.
    pub fn new(name: &str, verify: Verify) -> Self {
        Self { name: name.to_owned(), verify }
    }

    /// Checks that the operations of a sample happened.
    ///
    /// # Errors
    /// The count that was verified, and the expected one.
    pub fn check(&self, measurement: &Measurement) -> Result<(), String> {
        let Measurement { operations, verified, counters, .. } = measurement;
        let expected = match &self.verify {
            Verify::PerOperation(each) => operations.saturating_mul(*each),
            Verify::Exactly(count) if count != operations => {
                return Err(format!("operations: {operations}, asked for: {count}"));
            }
            Verify::Exactly(count) => *count,
            Verify::Counter(name) => match counters.get(name) {
                Some(count) => *count,
                None => return Err(format!("no counter {name} to verify the operations by")),
            },
        };
        if *operations == 0 {
            return Err("no operation was done".to_owned());
        }
        if *verified != expected {
            return Err(format!("verified {verified} of {expected}: the work did not happen so"));
        }
        Ok(())
    }
}

/// `meta.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Seed of the order of the samples.
    pub seed: u64,
    /// Rounds that were asked for, without the warm-up.
    pub rounds: u32,
    /// Name of the variant that the other variants are compared with.
    pub baseline: String,
    /// The variants, in the order of tables.
    pub variants: Vec<Variant>,
    /// The workloads; each ran on each variant.
    pub workloads: Vec<Workload>,
    /// Numbers of concurrent tasks, measured in turn.
    pub tasks: Vec<u32>,
    /// The metrics of a sample.
    pub metrics: Vec<Metric>,
    /// Targets of the baseline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
    /// True: a variant with a failed sample gets no verdict. False: only that round is left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    /// Parameters of the experiment.
    pub options: BTreeMap<String, String>,
    /// Time and command; early runs lack them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The part of the run, if this is a shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// The machine.
    pub environment: Environment,
}

impl Meta {
    /// The metric that verdicts are about.
    pub fn primary(&self) -> &Metric {
        let primary = self.metrics.iter().find(|metric| metric.primary);
        primary.expect("validated: one metric is primary")
    }

    /// The metric of this name.
    ///
    /// # Errors
    /// If the run has no such metric.
    pub fn metric(&self, name: &str) -> anyhow::Result<&Metric> {
        let metric = self.metrics.iter().find(|metric| metric.name == name);
        metric.with_context(|| format!("{}: no metric is called {name}", self.experiment))
    }

    /// The variant of this name.
    pub fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == name)
    }

    /// The workload of this name.
    pub fn workload(&self, name: &str) -> Option<&Workload> {
        self.workloads.iter().find(|workload| workload.name == name)
    }

    /// The parameters for the order of samples; with `warm_up`, a warm-up round comes first.
    pub fn shape(&self, warm_up: bool) -> Shape {
        Shape {
            seed: self.seed,
            blocks: self.workloads.len() * self.tasks.len(),
            variants: self.variants.len(),
            rounds: self.rounds,
            warm_up,
            shard: self.part.map(|part| part.shard),
        }
    }

    /// The position of a sample: its round, the index of its block in a [`Shape`], and the index of
    /// its variant. `None` if the run has no such sample.
    pub fn place_of(&self, sample: &Sample) -> Option<(u32, usize, usize)> {
        let workload = self.workloads.iter().position(|it| it.name == sample.workload)?;
        let tasks = self.tasks.iter().position(|it| *it == sample.tasks)?;
        let variant = self.variants.iter().position(|it| it.name == sample.variant)?;
        Some((sample.round, workload * self.tasks.len() + tasks, variant))
    }

    /// Checks the conditions that readers rely on: names are unique; the baseline and the originals
    /// of copies exist; no list is empty; one metric is primary.
    ///
    /// # Errors
    /// The first condition that does not hold.
    pub fn validate(&self) -> Result<(), String> {
        unique("variant", self.variants.iter().map(|variant| variant.name.as_str()))?;
        unique("workload", self.workloads.iter().map(|workload| workload.name.as_str()))?;
        unique("metric", self.metrics.iter().map(|metric| metric.name.as_str()))?;
        let originals = self.variants.iter().filter_map(|variant| variant.copy_of.as_ref());
        for name in originals.chain([&self.baseline]) {
            if self.variant(name).is_none() {
                return Err(format!("no variant is called {name}"));
            }
        }
        if self.tasks.is_empty() || self.tasks.contains(&0) {
            return Err(format!("tasks {:?}: at least one number, none of them 0", self.tasks));
        }
        match self.metrics.iter().filter(|metric| metric.primary).count() {
            1 => Ok(()),
            count => Err(format!("{count} metrics are primary where one must be")),
        }
    }
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut names: Vec<&str> = names.collect();
    if names.is_empty() {
        return Err(format!("no {what}"));
    }
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("two {what}s are called {}", pair[0])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::examples::run;

    #[test]
    fn samples_must_have_done_what_was_asked() {
        let measured = |operations, verified| {
            let measurement = Measurement::of_window(operations, 1, 1, 1, "x").with(&[("n", 7)]);
            Measurement { verified, ..measurement }
        };
        let check = |verify: Verify, operations, verified| {
            Workload::new("w", verify).check(&measured(operations, verified))
        };
        assert_eq!(check(Verify::PerOperation(2), 3, 6), Ok(()));
        let error = check(Verify::PerOperation(2), 3, 5).unwrap_err();
        assert_eq!(error, "verified 5 of 6: the work did not happen so");
        assert_eq!(check(Verify::PerOperation(2), 0, 0).unwrap_err(), "no operation was done");
        assert_eq!(check(Verify::Exactly(4), 4, 4), Ok(()));
        let error = check(Verify::Exactly(4), 3, 4).unwrap_err();
        assert_eq!(error, "operations: 3, asked for: 4");
        assert_eq!(check(Verify::Counter("n".to_owned()), 1, 7), Ok(()));
        assert!(check(Verify::Counter("n".to_owned()), 1, 6).is_err());
        assert!(check(Verify::Counter("m".to_owned()), 1, 6).unwrap_err().contains("counter m"));
    }

    #[test]
    fn what_readers_rely_on_is_checked() {
        let good = run("a", &[("a", &[Some(1.0)]), ("b", &[Some(1.0)])]).meta;
        assert_eq!(good.validate(), Ok(()));
        let broken = |breaks: &dyn Fn(&mut Meta)| {
            let mut meta = good.clone();
            breaks(&mut meta);
            meta.validate().unwrap_err()
        };
        assert_eq!(broken(&|meta| meta.baseline = "c".to_owned()), "no variant is called c");
        assert_eq!(
            broken(&|meta| meta.variants[1].name = "a".to_owned()),
            "two variants are called a"
        );
        assert_eq!(broken(&|meta| meta.workloads.clear()), "no workload");
        assert!(broken(&|meta| meta.tasks.push(0)).starts_with("tasks [1, 0]"));
        assert!(broken(&|meta| meta.metrics[0].primary = false).starts_with("0 metrics"));
    }
}
