//! `empty`: what the harness itself costs.

use crate::patterns::empty::{Timing, Work};
use crate::patterns::window::Budget;
use anyhow::{Context, Result};
use clap::Args;
use clap::builder::ArgPredicate;
use quarry_harness::affinity;
use quarry_harness::comparison::{Comparison, Group};
use quarry_harness::options::{self, Common};
use quarry_harness::results::{Measurement, Variant, Verify, Workload};
use quarry_harness::runner;
use std::io::Write;

/// What the harness itself costs: no allocator is involved.
///
/// The workload `steps` is a chain of multiplications, `calls` are pairs of calls of functions that
/// give out and take back one and the same block. Each runs in the window that all patterns run in,
/// which looks at the clock after each chunk, and with two looks at the clock in all (bare, the
/// baseline). The ratio of the two is what the harness adds. What one operation of `calls` takes
/// is in every figure of `malloc-patterns`, for all allocators alike: loop, calls, and the mark
/// that is written and checked.
#[derive(Args)]
pub struct Empty {
    #[command(flatten)]
    common: Common<Defaults>,
    /// Length of a sample in milliseconds; a quarter of it goes before as warm-up.
    #[arg(long, default_value = "40",
          default_value_if("quick", ArgPredicate::Equals("true".into()), Some("8")),
          value_parser = clap::value_parser!(u64).range(1..))]
    millis: u64,
}

#[derive(Clone, Debug)]
struct Defaults;

impl options::Defaults for Defaults {
    const VARIANTS: &'static str = "bare,window";
    const SAMPLES: &'static str = "60";
    const QUICK_SAMPLES: &'static str = "6";
}

/// One sample, taken in a process of its own.
#[derive(Args)]
pub(crate) struct EmptySample {
    work: Work,
    timing: Timing,
    #[arg(long)]
    millis: u64,
    #[arg(long)]
    cpu: usize,
}

impl EmptySample {
    /// Measures in this process.
    pub(crate) fn measure(self) -> Result<Measurement> {
        affinity::pin(self.cpu).with_context(|| format!("cannot run on CPU {}", self.cpu))?;
        let window = self.work.run(Budget::of_millis(self.millis), self.timing);
        let measurement = Measurement::of_window(
            window.operations,
            window.cpu_ns,
            window.wall_ns,
            window.cpu_ns,
            &self.timing.to_string(),
        );
        Ok(Measurement { verified: window.verified, ..measurement })
    }
}

impl Empty {
    /// Runs the experiment and prints its tables.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<()> {
        let parse = |name: &String| name.parse::<Timing>();
        let mut timings = self.common.variants.iter().map(parse).collect::<Result<Vec<_>>>()?;
        let names: Vec<&str> = self.common.variants.iter().map(String::as_str).collect();
        let baseline = self.common.baseline(&names, names[0])?.to_owned();
        let mut variants: Vec<Variant> =
            names.iter().map(|name| Variant::new(name, "time-keeping of a sample")).collect();
        let original = names.iter().position(|name| *name == baseline).unwrap_or(0);
        timings.push(timings[original]);
        variants.push(variants[original].copy());
        let workload = |work: &Work| Workload::new(&work.to_string(), Verify::PerOperation(1));
        let workloads = Work::ALL.iter().map(workload).collect();
        let cpu = affinity::choose(&affinity::allowed(), 1)[0];
        let design = self.common.design("empty", variants, &baseline, workloads)?;
        let run = design.option("millis", self.millis).conduct(|spot| {
            let arguments = [
                "empty".to_owned(),
                Work::ALL[spot.workload].to_string(),
                timings[spot.variant].to_string(),
                format!("--millis={}", self.millis),
                format!("--cpu={cpu}"),
            ];
            runner::sample(&arguments, None)
        })?;
        let workloads = Work::ALL.map(|work| work.to_string()).to_vec();
        let groups = vec![Group { name: "both".to_owned(), workloads }];
        let what = format!("{} ms in a fresh process.", self.millis);
        let tables = Comparison { run: &run, groups }.tables();
        writeln!(out, "{}\n{tables}", run.head(&what))?;
        run.expect_no_failures()
    }
}
