//! Experiments that replay the kernel paths of the documents: one table of them, one set of
//! options, one way to measure and print.

mod calibrate;
mod documents;
mod kinds;
mod sample;
mod tables;

pub(crate) use kinds::*;
pub(crate) use sample::ReplaySample;

use crate::replay::kernels::Scenario;
use crate::replay::stack::Policies;
use anyhow::{Result, bail};
use clap::Args;
use clap::builder::ArgPredicate;
use documents::Document;
use quarry_harness::affinity;
use quarry_harness::nearest;
use quarry_harness::options::{self, Common};
use quarry_harness::results::{Measurement, Variant, Verify, Workload};
use quarry_harness::runner::{self, Design, Spot};
use quarry_harness::usage::Usage;
use std::io::Write;
use tables::Unit;

/// What an experiment is.
pub struct Spec {
    /// Its name.
    pub(crate) name: &'static str,
    /// In one line.
    pub(crate) about: &'static str,
    /// What it models, and what it cannot show.
    models: &'static str,
    /// CPUs of the document's machine.
    declared_cpus: u32,
    /// What is printed.
    unit: Unit,
    /// What can be run.
    rows: fn() -> Vec<Row>,
    /// How much of it at a time, where that can be chosen.
    amount: Option<Amount>,
    /// The figures that stand beside ours.
    document: Document,
}

/// One line of an experiment's table.
pub(crate) struct Row {
    /// Its name in the document.
    name: String,
    /// Whether a short run takes it.
    quick: bool,
    /// Bits of a message's payload.
    bits: u64,
    /// Whether those received are counted, and not those sent.
    received: bool,
    /// What runs.
    scenario: Box<dyn Fn(&Settings) -> Scenario>,
}

/// What a scenario can be told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How much at a time.
    amount: u32,
    /// Bytes of work outside of the allocator, per packet.
    work: usize,
}

/// What can be chosen about the size of an experiment.
struct Amount {
    /// What it is.
    what: &'static str,
    /// What the document says, or what fits into a sample; 0 = as much as fills a socket.
    usual: u32,
    /// In a short run.
    quick: u32,
}

/// An experiment as a type: its defaults are part of the options' help.
pub trait Kind: Clone + Send + Sync + 'static {
    #[doc(hidden)]
    const VARIANTS: &'static str;
    #[doc(hidden)]
    const TASKS: &'static str;
    #[doc(hidden)]
    const QUICK_TASKS: &'static str;
    #[doc(hidden)]
    fn spec() -> &'static Spec;
}

/// The defaults of a kind.
#[derive(Clone, Debug)]
pub(crate) struct DefaultsOf<K>(std::marker::PhantomData<K>);

impl<K: Kind> options::Defaults for DefaultsOf<K> {
    const VARIANTS: &'static str = K::VARIANTS;
    const TASKS: &'static str = K::TASKS;
    const QUICK_TASKS: &'static str = K::QUICK_TASKS;
    const SAMPLES: &'static str = "10";
    const QUICK_SAMPLES: &'static str = "1";
    const MOST_TASKS: u32 = 1024;
}

// A docstring would become the help.
#[derive(Args)]
#[command(about = K::spec().about, long_about = K::spec().help())]
pub struct Replaying<K: Kind> {
    #[command(flatten)]
    common: Common<DefaultsOf<K>>,
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

/// What every experiment has to say of itself.
const ALL_MODELS: &str = "Only memory is real: the kernel path's allocations and frees, in its \
order, by threads pinned to the CPUs in turn, on one stack whose zone all of them share. Payloads \
are copied in and out, and each is checked for what was sent. What else the path costs is stood \
in for by copies of a fixed size, committed before any variant ran. Where the kernel switches \
interrupts off, a stack takes a per-CPU try-lock or runs a restartable sequence; that is cheaper \
or dearer than the real thing by an unknown factor, and a thread that loses its CPU in between \
sends others of that CPU to the zone, which no kernel allows. The kernel's formulas follow \
--declared-cpus, but only the CPUs of this machine run: with two of them a lock is taken as often \
per operation as on many, but is seldom found held, and its line seldom travels, so rates show a \
lower bound of what a policy gains or loses. Locks per operation hardly depend on that: look at \
them first.";

const ALL_VARIANTS: &str = "A variant is SLAB+PCP, or SLAB+PCP+FREE_LIST, with values of \
QUARRY_PCP and QUARRY_FREE_LIST; the first is the baseline, and runs a second time as A/A copy.";

impl Spec {
    fn help(&self) -> String {
        let amount = self.amount.as_ref().map_or(String::new(), |amount| {
            let usual = match amount.usual {
                0 => "as many as fill the socket's buffer".to_owned(),
                usual => usual.to_string(),
            };
            format!("\n\n--amount is {} [default: {usual}].", amount.what)
        });
        let Self { about, models, declared_cpus, .. } = self;
        format!(
            "{about}\n\n{models}\n\n{ALL_MODELS}\n\n{ALL_VARIANTS}{amount}\n\n--declared-cpus is \
             {declared_cpus} by default."
        )
    }

    /// The row of this name.
    fn row(&self, name: &str) -> Result<Row> {
        let mut rows = (self.rows)();
        let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
        match names.iter().position(|known| known == name) {
            Some(index) => Ok(rows.swap_remove(index)),
            None => Err(nearest::unknown("row", name, &names)),
        }
    }
}

impl<K: Kind> Replaying<K> {
    /// Samples of everything.
    fn samples(&self) -> u32 {
        self.common.samples
    }

    /// Runs the experiment and prints its table.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<()> {
        let spec = K::spec();
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
        let rows = self.rows(spec)?;
        if self.calibrate {
            return self.calibrate(&policies[original], &rows, out);
        }
        policies.push(policies[original].clone());
        variants.push(variants[original].copy());

        let workload = |row: &String| Workload::new(row, Verify::PerOperation(1));
        let workloads = rows.iter().map(workload).collect();
        let design = self.common.design(spec.name, variants, &baseline, workloads)?;
        let mut design = Design { metrics: spec.unit.metrics(), ..design }
            .option("declared_cpus", self.declared_cpus())
            .option("millis", self.millis);
        if spec.amount.is_some() {
            design = design.option("amount", self.amount());
        }
        let take = |spot: Spot| self.sample(&rows[spot.workload], &policies[spot.variant], spot);
        let run = design.conduct(take)?;
        tables::print(&run, spec, out)?;
        run.expect_no_failures()
    }

    /// Names of the rows that run.
    fn rows(&self, spec: &Spec) -> Result<Vec<String>> {
        for name in &self.only {
            spec.row(name)?;
        }
        let wanted = |row: &Row| match self.only.is_empty() {
            true => row.quick || !self.common.quick,
            false => self.only.contains(&row.name),
        };
        Ok((spec.rows)().into_iter().filter(wanted).map(|row| row.name).collect())
    }

    fn declared_cpus(&self) -> u32 {
        self.declared_cpus.unwrap_or(K::spec().declared_cpus)
    }

    fn amount(&self) -> u32 {
        let Some(Amount { usual, quick, .. }) = K::spec().amount else { return 0 };
        self.amount.unwrap_or(if self.common.quick { quick } else { usual })
    }

    fn sample(&self, row: &str, policies: &Policies, spot: Spot) -> Result<Measurement, String> {
        self.take(row, policies, spot.tasks, &[])
    }

    /// Takes a sample in a process of its own.
    fn take(
        &self,
        row: &str,
        policies: &Policies,
        tasks: u32,
        more: &[String],
    ) -> Result<Measurement, String> {
        let cpus = affinity::choose(&affinity::allowed(), self.declared_cpus() as usize);
        let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        let arguments = [
            "replay".to_owned(),
            K::spec().name.to_owned(),
            row.to_owned(),
            policies.to_string(),
            format!("--declared-cpus={}", self.declared_cpus()),
            format!("--tasks={tasks}"),
            format!("--amount={}", self.amount()),
            format!("--millis={}", self.millis),
            format!("--cpus={}", cpus.join(",")),
        ];
        let measurement = runner::sample(&[&arguments, more].concat(), None)?;
        if measurement.served_by != policies.to_string() {
            return Err(format!("was meant for {policies}, but ran {}", measurement.served_by));
        }
        Ok(measurement)
    }
}

fn variant_of(policies: &Policies) -> Variant {
    let name = policies.to_string();
    Variant::new(&name, "slab and page policy on a stack of its own")
}
