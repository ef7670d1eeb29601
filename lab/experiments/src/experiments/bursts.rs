//! `bursts`: what a burst of allocations costs that comes back after a rest.

use super::plan::{Lab, Plan, Staged};
use super::tables;
use crate::patterns::bursts::BurstsSample;
use anyhow::Result;
use clap::Args;
use quarry_compare::allocators::QUARRY;
use quarry_compare::contenders::{self, Contender, OwnWork};
use quarry_harness::experiment::Experiment;
use quarry_harness::launch::{Work, WorkKind};
use quarry_harness::options::{Common, Defaults};
use quarry_harness::results::{Direction, Metric, Verify, Workload};
use quarry_harness::sampler::SampleKey;
use quarry_harness::tables::Matrix;

/// The cost of a burst of allocations that comes back after a rest.
///
/// A fresh process allocates objects of random sizes until there are so many MiB, writes all of
/// them, frees them, and rests; the last of its bursts is measured, and what is resident when it
/// has rested once more. An allocator that keeps everything is fast and stays large. Beside Quarry
/// runs the same without purging, which is what the burst costs where nothing has to be faulted in
/// again.
///
/// On a virtual machine whose host takes free memory away (free page reporting), huge pages that
/// were free for two seconds cost up to forty times as much as otherwise, and which allocator that
/// hits is chance.
#[derive(Args)]
pub(super) struct Bursts {
    #[command(flatten)]
    common: Common<Bursts>,
    /// How many bursts come in turn, the last of them measured. Several may be asked for.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3",
          value_parser = clap::value_parser!(u64).range(1..))]
    bursts: Vec<u64>,
    /// The largest object, in bytes.
    #[arg(long, default_value = "2048", value_parser = largest)]
    largest: usize,
    /// How much a burst allocates, in MiB.
    #[arg(long, default_value = "512", default_value_if("quick", "true", Some("16")),
          value_parser = clap::value_parser!(u64).range(1..))]
    mib: u64,
    /// How long a rest takes, in milliseconds.
    #[arg(long, default_value = "2200", default_value_if("quick", "true", Some("50")))]
    rest: u64,
}

impl Defaults for Bursts {
    const VARIANTS: &'static str = "glibc,jemalloc,mimalloc,quarry";
    const SAMPLES: &'static str = "5";
    const QUICK_SAMPLES: &'static str = "1";
}

fn largest(text: &str) -> Result<usize, String> {
    let bytes = text.parse::<usize>().map_err(|error| error.to_string())?;
    if bytes < 64 { Err("objects of 64 bytes at least".to_owned()) } else { Ok(bytes) }
}

impl Plan for Bursts {
    const NAME: &'static str = "bursts";
    const WORK: Option<WorkKind> = Some(WorkKind::of::<BurstsSample>());

    fn stage(self, lab: &mut Lab<'_>) -> Result<Option<Staged>> {
        let found = lab.contenders(&self.common)?;
        let contenders: Vec<_> = found.into_iter().flat_map(with_unpurged).collect();
        let baseline = self.common.baseline(&contenders::names(&contenders), QUARRY)?.to_owned();
        let verify = Verify::Counter("objects".to_owned());
        let names = self.bursts.iter().map(|number| format!("burst {number}"));
        let workloads = names.map(|name| Workload::new(&name, verify.clone())).collect();
        let variants = contenders::variants(&contenders);
        let Self { bursts, largest, mib, rest, .. } = self;
        let order = move |key: SampleKey| {
            BurstsSample { bursts: bursts[key.workload], mib, largest, rest }.order()
        };
        let sampler = OwnWork { contenders, order };
        let plan = self.common.experiment(Self::NAME, variants, &baseline, workloads, sampler)?;
        let about = format!("{mib} MiB in objects of up to {largest} bytes, {rest} ms of rest.");
        let plan = Experiment { about, metrics: metrics(), ..plan };
        let plan = plan.option("mib", mib).option("largest", largest).option("rest", rest);
        Ok(Some(Staged::new(plan, |run, out| {
            let matrix = Matrix::new(run, tables::all("bursts", run));
            writeln!(out, "{}\n", matrix.tables())?;
            for metric in run.meta.metrics.iter().filter(|metric| !metric.primary) {
                writeln!(out, "{}\n", matrix.medians(metric))?;
            }
            Ok(())
        })))
    }
}

fn metrics() -> Vec<Metric> {
    let mib = |name: &str, direction, of: &str| {
        Metric::new(name, &format!("{name}, MiB"), direction, of).times(1.0 / 1048576.0).digits(0)
    };
    vec![
        Metric::new("time", "ms per burst", Direction::Lower, "time_ns")
            .times(1e-6)
            .digits(0)
            .primary(),
        Metric::new("page faults", "page faults per burst", Direction::Lower, "faults").digits(0),
        mib("in huge pages", Direction::None, "huge"),
        mib("resident after the rest", Direction::Lower, "resident"),
    ]
}

fn with_unpurged(contender: Contender) -> Vec<Contender> {
    let unpurged = (contender.name() == QUARRY)
        .then(|| contender.with("quarry unpurged", &[("QUARRY_PURGE_DELAY", "-1")]));
    [contender].into_iter().chain(unpurged).collect()
}
