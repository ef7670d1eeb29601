//! `churn`: whether memory grows over phases of different sizes and threads that come and go.

use anyhow::Result;
use clap::Args;
use clap::builder::ArgPredicate;
use quarry_compare::FindLibrary;
use quarry_compare::allocators::QUARRY;
use quarry_compare::contenders::{self, Contender};
use quarry_harness::options::{self, Common};
use quarry_harness::results::{Cell, Direction, Metric, Run, Timeline, Verify, Workload};
use quarry_harness::runner::{Design, Taken};
use quarry_harness::statistics;
use quarry_harness::table;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

const MIB: f64 = (1 << 20) as f64;
/// How often memory is read.
const INTERVAL: Duration = Duration::from_millis(200);
/// The one workload of this experiment.
const WORKLOAD: &str = "churn";

/// Whether memory grows over phases of different sizes and threads that come and go.
///
/// A week of a server in small. Each phase replaces half of about 64 MiB of live blocks, chosen at
/// random, by blocks of another family of sizes, while four short-lived threads with working sets
/// of their own allocate and free beside it. The sequence of calls is the same for every allocator
/// but for how far it gets in the time; so the drift is told per 1,000 phases as well. As a soak:
/// `--seconds 600`.
#[derive(Args)]
pub struct Churn {
    #[command(flatten)]
    common: Common<Defaults>,
    /// How long each runs.
    #[arg(long, default_value = "60",
          default_value_if("quick", ArgPredicate::Equals("true".into()), Some("3")),
          value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

#[derive(Clone, Debug)]
struct Defaults;

impl options::Defaults for Defaults {
    const VARIANTS: &'static str = "jemalloc,quarry";
    const SAMPLES: &'static str = "1";
    const QUICK_SAMPLES: &'static str = "1";
}

impl Churn {
    /// Runs the experiment and prints its table.
    pub(crate) fn run(self, find_library: FindLibrary<'_>, out: &mut dyn Write) -> Result<()> {
        let contenders = contenders::find(&self.common.variants, find_library, out)?;
        let baseline = self.common.baseline(&contenders::names(&contenders), QUARRY)?.to_owned();
        let workloads = vec![Workload::new(WORKLOAD, Verify::Counter("blocks".to_owned()))];
        let variants = contenders::variants(&contenders);
        let design = self.common.design("churn", variants, &baseline, workloads)?;
        // A minute warms itself up: what counts is how the later phases differ from the earlier.
        let design = Design { metrics: metrics(), warm_up: false, ..design };
        let design = design.option("seconds", self.seconds);
        let run = design.conduct(|spot| {
            self.take(&contenders[spot.variant]).map_err(|error| format!("{error:#}"))
        })?;
        self.print(&run, out)
    }

    fn take(&self, contender: &Contender) -> Result<Taken> {
        let arguments = ["churn".to_owned(), format!("--seconds={}", self.seconds)];
        let last = ("idle", Duration::from_millis(100));
        let (timeline, mut measurement) = contender.watch(&arguments, INTERVAL, last)?;
        measurement.figures = drift(&timeline);
        Ok(Taken { measurement, timeline: Some(timeline) })
    }

    fn print(&self, run: &Run, out: &mut dyn Write) -> Result<()> {
        writeln!(out, "{}", run.head(&format!("{} s in a fresh process.", self.seconds)))?;
        let title = "resident above live, MiB".to_owned();
        let names = run.meta.metrics.iter().map(|metric| metric.name.clone());
        let header = std::iter::once(title).chain(names).collect();
        let row = |variant: &str| {
            let cell = Cell { workload: WORKLOAD, tasks: 1, variant };
            let figures = run.meta.metrics.iter().map(|metric| {
                let values: Vec<f64> = run.values(cell, metric).into_iter().flatten().collect();
                let decimals = usize::from(metric.decimals);
                let median = statistics::median(&values);
                median.map_or("failed".to_owned(), |value| format!("{value:.decimals$}"))
            });
            std::iter::once(variant.to_owned()).chain(figures).collect()
        };
        let rows = run.meta.variants.iter().map(|variant| row(&variant.name)).collect();
        writeln!(out, "{}", table::render(header, rows))?;
        run.expect_no_failures()
    }
}

fn metrics() -> Vec<Metric> {
    let mib = |name: &str| Metric::new(name, "MiB", Direction::Lower, name).digits(1);
    vec![
        Metric::new("phases", "count", Direction::Higher, "operations").digits(0),
        mib("second quarter"),
        mib("last quarter"),
        mib("drift").primary(),
        mib("drift per 1,000 phases"),
        mib("peak"),
    ]
}

/// Resident memory above the live bytes after each phase, and where it went.
fn drift(timeline: &Timeline) -> BTreeMap<String, f64> {
    let above: Vec<f64> = timeline
        .phases
        .iter()
        .filter_map(|(_, line)| {
            let mut words = line.strip_prefix("phase ")?.split(' ').skip(1);
            let mut number = || words.next()?.parse::<f64>().ok();
            let (live, resident) = (number()?, number()?);
            Some((resident - live) / MIB)
        })
        .collect();
    let quarter = |number: usize| {
        let (from, to) = (above.len() * number / 4, above.len() * (number + 1) / 4);
        statistics::median(&above[from..to])
    };
    // Less than four phases have no quarters, and nothing to say.
    let (Some(early), Some(late)) = (quarter(1), quarter(3)) else { return BTreeMap::new() };
    // From the middle of the second quarter to that of the last one.
    let per_thousand = (late - early) / (above.len() as f64 / 2.0) * 1e3;
    let figures = [
        ("second quarter", early),
        ("last quarter", late),
        ("drift", late - early),
        ("drift per 1,000 phases", per_thousand),
        ("peak", above.iter().copied().fold(f64::NAN, f64::max)),
    ];
    figures.map(|(name, figure)| (name.to_owned(), figure)).into()
}
