//! `one-budget`: a heap that grows and shrinks beside readers and writers of the page cache.

use super::super::plan::*;
use super::{LoadProgram, lineup, print_by_threads};

const WORK: &str = "breathe";
/// The names by which `quarry-sqlite-load` knows the divisions; the first is the usual baseline.
const DIVISIONS: [(&str, &str); 2] = [
    ("one", "heap and page cache in one budget"),
    ("split", "half of the same memory for each: a group of the cache that never gives way"),
];

/// A heap that grows and shrinks beside readers and writers of the page cache.
///
/// Each sample is a fresh process with a limit. Threads read pages at random from a device with
/// four times as many pages as fit; every second thread alters one page in four. Meanwhile the heap
/// grows, by blocks of 1 MiB and of 100 bytes, to three quarters of the memory or until a block is
/// refused; then it shrinks to nothing and begins again. For every read of a page the thread spins
/// for 50 us. Each page's number is checked. An operation is a look-up of a page.
#[derive(Args)]
pub(crate) struct OneBudget {
    #[command(flatten)]
    common: Common<OneBudget>,
    /// The memory of heap and page cache together, in MiB.
    #[arg(long, default_value = "256", default_value_if("quick", "true", Some("32")),
          value_parser = clap::value_parser!(u64).range(16..))]
    mib: u64,
    /// Length of a sample in milliseconds.
    #[arg(long, default_value = "5000", default_value_if("quick", "true", Some("200")),
          value_parser = clap::value_parser!(u64).range(1..))]
    millis: u64,
    /// Time of a read of a page, in microseconds.
    #[arg(long, default_value = "50")]
    latency: u64,
}

impl Defaults for OneBudget {
    const VARIANTS: &'static str = "one,split";
    const TASKS: &'static str = "2,8";
    const SAMPLES: &'static str = "6";
    const QUICK_SAMPLES: &'static str = "1";
    const MOST_TASKS: u32 = 256;
}

impl Plan for OneBudget {
    const NAME: &'static str = "one-budget";

    fn stage(self, _: &mut Lab<'_>) -> Result<Staged> {
        self.common.check_early()?;
        let program = LoadProgram::find()?;
        let (variants, divisions) = lineup(&self.common, &DIVISIONS)?;
        let Self { mib, millis, latency, .. } = self;
        let sampler = move |key: SampleKey| {
            let options = [
                format!("--budget={}", mib << 20),
                format!("--readers={}", key.tasks.div_ceil(2)),
                format!("--writers={}", key.tasks / 2),
                format!("--millis={millis}"),
                format!("--latency-us={latency}"),
            ];
            Ok(program.breathe(&divisions[key.variant], &options)?.into())
        };
        let workloads = workloads([WORK]);
        let mut plan = experiment(&self.common, variants, workloads, sampler)?;
        plan.about = format!("{mib} MiB for heap and cache, {latency} us for each page read.");
        plan.meta.metrics = metrics();
        plan.warm_up = false;
        let plan = plan.option("mib", mib).option("millis", millis).option("latency", latency);
        Ok(Staged::new(plan, |run, out| print_by_threads(run, WORK, "memory", out)))
    }
}

fn metrics() -> Vec<Metric> {
    let count = |name: &str, figure: &str| lower(name, "", figure).digits(0);
    vec![
        Metric::rate("look-ups per second").digits(0).primary(),
        Metric::counted("pages read", "page_reads"),
        count("reads refused", "lookups_refused"),
        Metric::new("1 MiB blocks", "", Direction::Higher, "large").digits(0),
        count("of them refused", "large_refused"),
        micros("1 MiB p99.9, us", "large_p999_ns"),
        micros("1 MiB longest, us", "large_longest_ns"),
        count("100 bytes refused", "small_refused"),
        micros("100 bytes p99.9, us", "small_p999_ns"),
        micros("100 bytes longest, us", "small_longest_ns"),
    ]
}
