//! Experiments that replay the kernel paths of the documents: one table of them, one set of
//! options, one way to measure and print.

mod calibrate;
mod documents;
mod kinds;
mod sample;
mod spec;
mod tables;
mod unit;

pub(crate) use kinds::*;

use super::plan::{Lab, Plan, Staged};
use crate::replay::kernels::network::PACKET_WORK;
use crate::replay::stack::Policies;
use anyhow::{Result, bail};
use clap::Args;
use clap::builder::ArgPredicate;
use quarry_harness::affinity;
use quarry_harness::experiment::Experiment;
use quarry_harness::launch::WorkKind;
use quarry_harness::options::Common;
use quarry_harness::results::{Variant, Verify, Workload};
use quarry_harness::sampler::{NoSample, SampleKey, Sampler, Taken};
use quarry_harness::usage::Usage;
use sample::ReplaySample;
use spec::{Amount, Kind, Row};

// A docstring would become the help.
#[derive(Args)]
#[command(about = K::SPEC.about, long_about = K::SPEC.help())]
pub(super) struct Replaying<K: Kind> {
    #[command(flatten)]
    common: Common<K>,
    /// CPUs that the kernel's formulas are told of [default: those of the document's machine].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    declared_cpus: Option<u32>,
    /// Only these rows.
    #[arg(long, value_delimiter = ',', value_name = "ROW,ROW")]
    only: Vec<String>,
    /// How much at a time; the text above says of what.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    amount: Option<u32>,
    /// Length of a sample in milliseconds where the work is not fixed; a quarter of it goes before
    /// as warm-up.
    #[arg(long, default_value = "200",
          default_value_if("quick", ArgPredicate::Equals("true".into()), Some("20")),
          value_parser = clap::value_parser!(u64).range(1..=30_000))]
    millis: u64,
    /// Print which share of the baseline's time the page allocator has, and measure nothing else.
    #[arg(long)]
    calibrate: bool,
}

impl<K: Kind> Plan for Replaying<K> {
    const NAME: &'static str = K::SPEC.name;
    const WORK: Option<WorkKind> = Some(WorkKind::of::<ReplaySample>());

    fn stage(self, lab: &mut Lab<'_>) -> Result<Option<Staged>> {
        let spec = K::SPEC;
        if self.amount.is_some() && spec.amount.is_none() {
            bail!(Usage(format!("--amount: nothing to choose in {}", spec.name)));
        }
        let mut policies = self
            .common
            .variants
            .iter()
            .map(|text| text.parse::<Policies>())
            .collect::<Result<Vec<_>>>()?;
        let mut variants: Vec<Variant> = policies.iter().map(variant_of).collect();
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let baseline = self.common.baseline(&names, names[0])?.to_owned();
        let original = names.iter().position(|name| *name == baseline).unwrap_or(0);
        let rows = self.rows()?;
        if self.calibrate {
            calibrate::print(
                &rows,
                |row| self.path(row, &policies[original]),
                self.common.samples,
                lab.out,
            )?;
            return Ok(None);
        }
        policies.push(policies[original].clone());
        variants.push(variants[original].copy());
        let workload = |row: &String| Workload::new(row, Verify::PerOperation(1));
        let workloads = rows.iter().map(workload).collect();
        let on_each = |row| policies.iter().map(|policies| self.path(row, policies)).collect();
        let sampler = ReplayedPaths { paths: rows.iter().map(|row| on_each(row)).collect() };
        let plan = self.common.experiment(spec.name, variants, &baseline, workloads, sampler)?;
        let mut plan = Experiment { metrics: spec.unit.metrics(), ..plan }
            .option("declared_cpus", self.declared_cpus())
            .option("millis", self.millis);
        if spec.amount.is_some() {
            plan = plan.option("amount", self.amount());
        }
        let options = plan.options.iter().map(|(name, value)| format!("{name} {value}"));
        let options = options.collect::<Vec<_>>().join(", ");
        plan.about = format!("fresh process per sample; {options}.");
        Ok(Some(Staged::new(plan, |run, out| tables::print(run, spec, out))))
    }
}

impl<K: Kind> Replaying<K> {
    /// Names of the rows that run.
    fn rows(&self) -> Result<Vec<String>> {
        for name in &self.only {
            K::SPEC.row(name)?;
        }
        let wanted = |row: &Row| match self.only.is_empty() {
            true => row.quick || !self.common.quick,
            false => self.only.contains(&row.name),
        };
        Ok((K::SPEC.rows)().into_iter().filter(wanted).map(|row| row.name).collect())
    }

    fn declared_cpus(&self) -> u32 {
        self.declared_cpus.unwrap_or(K::SPEC.declared_cpus)
    }

    fn amount(&self) -> u32 {
        let Some(Amount { usual, quick, .. }) = K::SPEC.amount else { return 0 };
        self.amount.unwrap_or(if self.common.quick { quick } else { usual })
    }

    /// A row on these policies, for one task.
    fn path(&self, row: &str, policies: &Policies) -> ReplaySample {
        ReplaySample {
            experiment: K::SPEC.name.to_owned(),
            row: row.to_owned(),
            policies: policies.clone(),
            declared_cpus: self.declared_cpus(),
            tasks: 1,
            amount: self.amount(),
            millis: self.millis,
            cpus: affinity::choose(&affinity::allowed(), self.declared_cpus() as usize),
            work: PACKET_WORK,
            alone: false,
            timed: false,
        }
    }
}

/// Kernel paths that are replayed in fresh processes: by workload, then by variant.
struct ReplayedPaths {
    paths: Vec<Vec<ReplaySample>>,
}

impl Sampler for ReplayedPaths {
    fn sample(&self, key: SampleKey) -> Result<Taken, NoSample> {
        let path = self.paths[key.workload][key.variant].clone();
        Ok(ReplaySample { tasks: key.tasks, ..path }.take()?.into())
    }
}

fn variant_of(policies: &Policies) -> Variant {
    let name = policies.to_string();
    Variant::new(&name, "slab and page policy on a stack of its own")
}
