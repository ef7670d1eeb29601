//! `churn`: the growth of memory over phases of different sizes and threads that come and go.

use super::plan::*;
use crate::patterns::churn::ChurnSample;
use quarry_harness::launch::Order;
use quarry_harness::results::Timeline;
use quarry_harness::statistics;
use std::collections::BTreeMap;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(200);
const WORKLOAD: &str = "churn";

/// The growth of memory over phases of different sizes and threads that come and go.
///
/// The load imitates a week of a server. In each phase half of about 64 MiB of live blocks, chosen
/// at random, is replaced by blocks of another family of sizes. Meanwhile four short-lived threads
/// with working sets of their own allocate and free. The sequence of calls is the same for every
/// allocator, but a faster one gets further in the time, so the drift is also given per 1,000
/// phases. For a soak test: `--seconds 600`.
#[derive(Args)]
pub(super) struct Churn {
    #[command(flatten)]
    common: Common<Churn>,
    /// How long each sample runs, in seconds.
    #[arg(long, default_value = "60", default_value_if("quick", "true", Some("3")),
          value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

impl Defaults for Churn {
    const VARIANTS: &'static str = "jemalloc,quarry";
    const SAMPLES: &'static str = "1";
    const QUICK_SAMPLES: &'static str = "1";
}

impl Plan for Churn {
    const NAME: &'static str = "churn";
    const WORK: Option<WorkKind> = Some(WorkKind::of::<ChurnSample>());

    fn stage(self, lab: &mut Lab<'_>) -> Result<Staged> {
        let contenders = lab.contenders(&self.common)?;
        let variants = Variants::new(&self.common, contenders::variants(&contenders), QUARRY)?;
        let workloads = vec![Workload::new(WORKLOAD, Verify::Counter("blocks".to_owned()))];
        let order = ChurnSample { seconds: self.seconds }.order();
        let sampler = move |key: SampleKey| Ok(take(&contenders[key.variant], &order)?);
        let mut plan = experiment(&self.common, variants, workloads, sampler)?;
        plan.about = format!("{} s in a fresh process.", self.seconds);
        plan.meta.metrics = metrics();
        // A long sample needs no warm-up: the result compares later phases with earlier ones.
        plan.warm_up = false;
        Ok(Staged::new(plan.option("seconds", self.seconds), |run, out| {
            let title = "resident above live, MiB";
            Ok(writeln!(out, "{}", by_variant(run, WORKLOAD, title).text())?)
        }))
    }
}

fn take(contender: &Contender, order: &Order) -> Result<Taken> {
    let last = ("idle", Duration::from_millis(100));
    let (timeline, mut measurement) = contender.watch(order, INTERVAL, last)?;
    measurement.figures = drift(&timeline);
    Ok(Taken { measurement, timeline: Some(timeline) })
}

fn metrics() -> Vec<Metric> {
    let mib = |name: &str| lower(name, "MiB", name).digits(1);
    vec![
        Metric::new("phases", "count", Direction::Higher, "operations").digits(0),
        mib("second quarter"),
        mib("last quarter"),
        mib("drift").primary(),
        mib("drift per 1,000 phases"),
        mib("peak"),
    ]
}

/// Figures, in MiB, of how resident memory above the live bytes drifts over the phases.
fn drift(timeline: &Timeline) -> BTreeMap<String, f64> {
    let above_live = |line: &str| {
        let mut words = line.strip_prefix("phase ")?.split(' ').skip(1);
        let mut number = || words.next()?.parse::<f64>().ok();
        let (live, resident) = (number()?, number()?);
        Some((resident - live) / MIB)
    };
    let lines = timeline.phases.iter().map(|(_, line)| line);
    let above: Vec<f64> = lines.filter_map(|line| above_live(line)).collect();
    let quarter = |number: usize| {
        let (from, to) = (above.len() * number / 4, above.len() * (number + 1) / 4);
        statistics::median(&above[from..to])
    };
    // With fewer than two phases, the second quarter is empty.
    let (Some(early), Some(late)) = (quarter(1), quarter(3)) else { return BTreeMap::new() };
    // Half of the phases lie between the middles of the second and the last quarter.
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
