//! `fragmentation`: the share of free memory in blocks of high orders, over a simulated day.

use super::plan::*;
use crate::day::{CHANGES, DaySample, LOOKED_AT, Variant as Memory, available, course, served};
use quarry_eras::pages::PAGE_POLICIES;
use quarry_harness::destination;
use quarry_harness::picture::{Course, Picture};
use std::fs;
use std::path::PathBuf;

/// The library's default policy, and the baseline unless the user names another.
const DEFAULT: &str = "v6.18";
const DAY: &str = "day";

/// The share of free memory in blocks of high orders, over a simulated day.
///
/// The frames have no memory, and time is simulated. For a day of simulated seconds slabs, inodes,
/// programs, files in the page cache, packets that cannot wait, rings of drivers and huge pages
/// come and go, as a seed determines. Every minute the sample records the share of the free memory
/// in free blocks of at least order 3, of at least order 4, and of at least order 9. The table has
/// the means of the day's second half, and the share of these orders' requests that were served.
///
/// A variant is a page policy, or the default policy with one change: `one-type` (all requests
/// movable), `no-reserve` (no high-atomic reserve), or `contained` (groups of 128 MiB: slabs fill
/// the first group first, other pages the last). Every round has its own seed, which all variants
/// share.
#[derive(Args)]
pub(super) struct Fragmentation {
    #[command(flatten)]
    common: Common<Fragmentation>,
    /// The memory, in MiB; at least two groups of 128 MiB.
    #[arg(long, default_value = "512", default_value_if("quick", "true", Some("256")),
          value_parser = clap::builder::PossibleValuesParser::new(["256", "512", "1024"]))]
    mib: String,
    /// Hours of simulated time.
    #[arg(long, default_value = "24", default_value_if("quick", "true", Some("1")),
          value_parser = clap::value_parser!(u32).range(1..=168))]
    hours: u32,
    /// Write pictures of availability over time into a folder: fragmentation-3.svg and so on.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

impl Defaults for Fragmentation {
    const VARIANTS: &'static str = "v6.18,order0,v2016,one-type,no-reserve,contained";
    const SAMPLES: &'static str = "3";
    const QUICK_SAMPLES: &'static str = "1";
}

fn variant(name: &str) -> Result<(Memory, Variant)> {
    let names = || CHANGES.into_iter().chain(PAGE_POLICIES.iter().map(|known| known.name));
    let (memory, about) = Memory::named(name, DEFAULT).ok_or_else(|| {
        nearest::unknown("variant --variants", name, &names().collect::<Vec<&str>>())
    })?;
    Ok((memory, Variant::new(name, &about)))
}

fn metrics() -> Vec<Metric> {
    let part = |name: String| Metric::new(&name, "%", Direction::Higher, &name).digits(1);
    let names = LOOKED_AT.map(available).into_iter().chain(LOOKED_AT.map(served));
    let mut all: Vec<Metric> = names.map(part).collect();
    all[0].primary = true;
    all
}

impl Plan for Fragmentation {
    const NAME: &'static str = "fragmentation";
    const WORK: Option<WorkKind> = Some(WorkKind::of::<DaySample>());

    fn stage(self, _lab: &mut Lab<'_>) -> Result<Staged> {
        if let Some(folder) = &self.svg {
            destination::folder("--svg", folder)?;
        }
        let found = each_once(&self.common.variants, variant)?;
        let (memories, variants): (Vec<Memory>, _) = found.into_iter().unzip();
        let variants = Variants::new(&self.common, variants, DEFAULT)?;
        let workloads = workloads([DAY]);
        self.common.check_early()?;
        let (mib, hours) = (self.mib.parse().context("--mib")?, self.hours);
        let sampler = move |key: SampleKey| {
            let (variant, seed) = (memories[key.variant].clone(), u64::from(key.round) + 1);
            let sample = DaySample { variant, mib, hours, seed };
            Ok(launch::sample(&sample.order(), None, &[])?.into())
        };
        let mut plan = experiment(&self.common, variants, workloads, sampler)?;
        let time = counted(hours, "hour");
        plan.about = format!("{time} of simulated time over {mib} MiB in a fresh process.");
        (plan.meta.metrics, plan.warm_up) = (metrics(), false);
        let plan = plan.option("mib", mib).option("hours", hours);
        Ok(Staged::new(plan, move |run, out| self.print(run, out)))
    }
}

impl Fragmentation {
    fn print(&self, run: &Run, out: &mut dyn Write) -> Result<()> {
        writeln!(out, "Medians of {}:\n", counted(run.meta.rounds, "day"))?;
        writeln!(out, "{}", by_variant(run, DAY, "memory").text())?;
        let Some(folder) = &self.svg else { return Ok(()) };
        for order in LOOKED_AT {
            let path = folder.join(format!("fragmentation-{order}.svg"));
            fs::write(&path, picture(order, run).svg()?)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

fn picture(order: u8, run: &Run) -> Picture {
    let lines = run.meta.variants.iter().filter_map(|variant| {
        let cell = Cell { workload: DAY, tasks: 1, variant: &variant.name };
        let sample = run.samples_of(cell).next()?;
        let looks = sample.measurement.as_ref()?.series.get(&course(order))?;
        let point = |(minute, look): (usize, &u64)| (minute as f64 / 60.0, *look as f64 / 10.0);
        Some(Course {
            name: variant.name.clone(),
            points: looks.iter().enumerate().map(point).collect(),
        })
    });
    Picture {
        title: format!("Free memory in blocks of order {order} and above"),
        x: "hours",
        y: "% of free memory",
        lines: lines.collect(),
    }
}
