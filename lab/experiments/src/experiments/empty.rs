//! `empty`: the cost of the harness itself.

use super::plan::*;
use crate::patterns::empty::{EmptyWork, Timing};
use crate::patterns::window::{Budget, Window};
use serde::{Deserialize, Serialize};

/// The cost of the harness itself: no allocator is involved.
///
/// The workload `steps` is a chain of multiplications; `calls` are pairs of calls of functions that
/// hand out and take back the same block. Each workload runs twice: in the window of all patterns,
/// which reads the clock after each chunk, and bare (the baseline), with two reads of the clock in
/// all. The ratio of the two is the overhead of the harness. The time of one operation of `calls`
/// is part of every figure of `malloc-patterns`, for all allocators alike: it is that of the loop,
/// the calls, and the mark that is written and checked.
#[derive(Args)]
pub(super) struct Empty {
    #[command(flatten)]
    common: Common<Empty>,
    /// Length of a sample in milliseconds; a warm-up of a quarter of it precedes.
    #[arg(long, default_value = "40", default_value_if("quick", "true", Some("8")),
          value_parser = clap::value_parser!(u64).range(1..))]
    millis: u64,
}

impl Defaults for Empty {
    const VARIANTS: &'static str = "bare,window";
    const SAMPLES: &'static str = "60";
    const QUICK_SAMPLES: &'static str = "6";
}

#[derive(Serialize, Deserialize)]
struct EmptySample {
    work: EmptyWork,
    timing: Timing,
    millis: u64,
    cpu: usize,
}

impl Work for EmptySample {
    const NAME: &'static str = "empty";

    fn measure(self) -> Result<Measurement> {
        affinity::pin(self.cpu).with_context(|| format!("cannot run on CPU {}", self.cpu))?;
        let window = self.work.run(Budget::of_millis(self.millis), self.timing);
        let Window { operations, verified, wall_ns, cpu_ns } = window;
        let served_by = if self.timing == Timing::Bare { "bare" } else { "window" };
        let measurement = Measurement::of_window(operations, cpu_ns, wall_ns, cpu_ns, served_by);
        Ok(Measurement { verified, ..measurement })
    }
}

impl Plan for Empty {
    const NAME: &'static str = "empty";
    const WORK: Option<WorkKind> = Some(WorkKind::of::<EmptySample>());

    fn stage(self, _: &mut Lab<'_>) -> Result<Staged> {
        let find = |name: &String| {
            Ok((Timing::find(name)?, Variant::new(name, "time-keeping of a sample")))
        };
        let found = self.common.variants.iter().map(find).collect::<Result<Vec<_>>>()?;
        let (variants, timings) =
            Variants::with_copy(&self.common, found, &self.common.variants[0])?;
        let workloads = workloads(EmptyWork::ALL.map(|(_, name)| name));
        let cpu = affinity::choose(&affinity::allowed(), 1)[0];
        let millis = self.millis;
        let sampler = move |key: SampleKey| {
            let (work, timing) = (EmptyWork::ALL[key.workload].0, timings[key.variant]);
            let order = EmptySample { work, timing, millis, cpu }.order();
            Ok(launch::sample(&order, None, &[])?.into())
        };
        let mut plan =
            experiment(&self.common, variants, workloads, sampler)?.option("millis", millis);
        plan.about = format!("{millis} ms in a fresh process.");
        Ok(Staged::new(plan, |run, out| {
            Ok(writeln!(out, "{}", Matrix::new(run, group_of_all("both", run)).tables())?)
        }))
    }
}
