//! `idle-return`: the memory that an idle program still holds after it has freed everything.

use super::plan::*;
use crate::patterns::idle::{BASE, IdleSample, Sizes};
use quarry_harness::destination;
use quarry_harness::picture::{Course, Picture};
use quarry_harness::results::{Reading, Timeline};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Name of the primary figure, in MiB.
pub(crate) const HELD: &str = "resident above live";
/// Name of the figure for `--sizes published`, in per cent of the freed memory.
const GIVEN_BACK: &str = "given back";
/// Interval between two readings of memory, except in rests longer than `SHORT_REST`.
const INTERVAL: Duration = Duration::from_millis(50);
const LONG_INTERVAL: Duration = Duration::from_millis(100);
const SHORT_REST: Duration = Duration::from_secs(10);
/// Time for which the process stays idle after its memory was read last.
const BEYOND: Duration = Duration::from_millis(500);
/// The times, in seconds after the last free, at which the experiment `peers` reads the held
/// memory; here they are the default of `--rest`.
pub(crate) const VERDICT: &[u64] = &[2];

/// The memory that an idle program still holds after it has freed everything.
///
/// Every sample is a fresh process with the allocator preloaded. It allocates 512 MiB in objects of
/// 16 bytes to 1 MiB, writes all of them, frees them in random order (all, or all but one in 64),
/// and then makes no further call. Every 50 ms its parent reads the resident memory, and the memory
/// that is charged to the sample's control group. (Without control groups it reads how much less
/// memory of the machine is free, which other programs influence too.) The result is the held
/// memory beyond the live bytes at 2 s after the last free, or at the times of `--rest`, as a
/// median over the rounds.
///
/// With `--sizes published` the objects, survivors and rest are those of a test that others publish
/// (mimalloc-pprof#334), and the share of the freed memory that went back decides.
///
/// Two variants with other settings run along: quarry without huge pages, and jemalloc with the
/// settings that its users are advised to use.
#[derive(Args)]
pub(super) struct IdleReturn {
    #[command(flatten)]
    common: Common<IdleReturn>,
    /// One object in this many survives; 0: no object does. Several numbers may be given.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0,64",
        default_value_if("sizes", "published", Some("20"))
    )]
    survivors: Vec<usize>,
    /// Give each power of two the same number of objects, or the same number of bytes; or 150,000
    /// objects of 512 bytes, 100,000 of 1 KiB and 50,000 of 2 KiB.
    #[arg(long, value_enum, default_value = "count")]
    sizes: Sizes,
    /// How much is allocated, in MiB.
    #[arg(long, default_value = "512", default_value_if("quick", "true", Some("64")),
          value_parser = clap::value_parser!(u64).range(1..))]
    mib: u64,
    /// Times of the readings, in seconds after the last free; the last one decides. Minutes show
    /// whether returned memory stays away (khugepaged fills holes of huge pages).
    #[arg(long, value_delimiter = ',', default_value = "2",
          default_value_if("sizes", "published", Some("10")),
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    rest: Vec<u64>,
    /// Write pictures of resident memory over time into a folder: memory-idle.svg, and
    /// memory-idle-64.svg where one object in 64 survives.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

impl Defaults for IdleReturn {
    const VARIANTS: &'static str = "glibc,jemalloc-new,tcmalloc,google-tcmalloc,mimalloc3,quarry";
    const SAMPLES: &'static str = "3";
    const QUICK_SAMPLES: &'static str = "1";
}

impl Plan for IdleReturn {
    const NAME: &'static str = "idle-return";
    const WORK: Option<WorkKind> = Some(WorkKind::of::<IdleSample>());

    fn stage(self, lab: &mut Lab<'_>) -> Result<Staged> {
        if let Some(folder) = &self.svg {
            destination::folder("--svg", folder)?;
        }
        let found = lab.contenders(&self.common)?;
        let contenders: Vec<Contender> = found.into_iter().flat_map(with_variant).collect();
        let variants = Variants::new(&self.common, contenders::variants(&contenders), QUARRY)?;
        let workloads = workloads(self.survivors.iter().map(|survivors| fate(*survivors)));
        ensure!(self.rest.is_sorted(), "--rest: the looks are not in the order of time");
        let (all, sizes, mib) = (self.survivors.clone(), self.sizes, self.mib);
        let looks = self.rest.clone();
        let sampler = move |key: SampleKey| {
            let sample = IdleSample { survivors: all[key.workload], sizes, mib };
            Ok(take(&contenders[key.variant], &sample, &looks)?)
        };
        let mut plan = experiment(&self.common, variants, workloads, sampler)?;
        plan.meta.metrics = metrics(&self.rest, sizes);
        plan.warm_up = false;
        let plan = plan.option("mib", mib).option("sizes", format!("{sizes:?}").to_lowercase());
        Ok(Staged::new(plan, move |run, out| {
            self.survivors.iter().try_for_each(|&survivors| self.print(survivors, run, out))
        }))
    }
}

impl IdleReturn {
    fn print(&self, survivors: usize, run: &Run, out: &mut dyn Write) -> Result<()> {
        let fate = fate(survivors);
        let title = match self.sizes {
            Sizes::Published => format!("The published test's objects, {fate}"),
            _ => format!("{} MiB of objects of 16 bytes to 1 MiB, {fate}", self.mib),
        };
        let last = self.rest.last().copied().unwrap_or_default();
        writeln!(out, "{title}; MiB held {last} s after the last free, medians:\n")?;
        writeln!(out, "{}", by_variant(run, &fate, "allocator").text())?;
        let mut timelines = run.samples.iter().filter_map(|sample| sample.timeline.as_ref());
        let in_group = timelines.all(|it| it.in_group);
        let counter = if in_group { "the control group of each sample" } else { "MemFree" };
        writeln!(out, "Counted by the system: {counter}.\n")?;
        let Some(folder) = &self.svg else { return Ok(()) };
        let path = folder.join(match survivors {
            0 => "memory-idle.svg".to_owned(),
            one_in => format!("memory-idle-{one_in}.svg"),
        });
        fs::write(&path, picture(title, &fate, run).svg()?)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Takes one sample, with readings at these numbers of seconds after the last free.
pub(crate) fn take(contender: &Contender, sample: &IdleSample, looks: &[u64]) -> Result<Taken> {
    let rest = Duration::from_secs(*looks.last().context("no look")?);
    let interval = if rest > SHORT_REST { LONG_INTERVAL } else { INTERVAL };
    let (timeline, mut measurement) =
        contender.watch(&sample.order(), interval, ("idle", rest + BEYOND))?;
    measurement.figures = held(&timeline, looks).context("no reading at a look")?;
    Ok(Taken { measurement, timeline: Some(timeline) })
}

fn fate(survivors: usize) -> String {
    match survivors {
        0 => "all freed".to_owned(),
        one_in => format!("one object in {one_in} survives"),
    }
}

fn after(seconds: u64) -> String {
    format!("after {seconds} s")
}

fn metrics(looks: &[u64], sizes: Sizes) -> Vec<Metric> {
    let mib = |name: &str| lower(name, "MiB", name).digits(1);
    let live = Metric::new("live", "MiB", Direction::None, "live").digits(1);
    let earlier = looks[..looks.len() - 1].iter().map(|look| mib(&after(*look)));
    let last = [mib(HELD).primary(), mib("counted by the system above live")];
    let share = Metric::new(GIVEN_BACK, "%", Direction::Higher, GIVEN_BACK).digits(1);
    let share = (sizes == Sizes::Published).then_some(share);
    [live].into_iter().chain(earlier).chain(last).chain(share).collect()
}

/// An allocator; before it, the same allocator with other settings if such a variant exists.
fn with_variant(contender: Contender) -> Vec<Contender> {
    let variant = match contender.name() {
        // The settings that jemalloc's users are advised to use.
        "jemalloc" | "jemalloc-new" => {
            let tuned = "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0";
            Some(contender.with("jemalloc tuned", &[("MALLOC_CONF", tuned)]))
        }
        QUARRY => Some(contender.with("quarry THP=0", &[("QUARRY_THP", "0")])),
        _ => None,
    };
    variant.into_iter().chain([contender]).collect()
}

/// The memory that a sample held at each time of `looks`, in MiB above the live bytes. The table of
/// objects and the memory from before the test do not count.
fn held(timeline: &Timeline, looks: &[u64]) -> Option<BTreeMap<String, f64>> {
    let (base, _) = timeline.phase("base")?;
    let (full, _) = timeline.phase("full")?;
    let (idle, numbers) = timeline.phase("idle")?;
    let [live, table] = numbers[..] else { return None };
    let before = timeline.at(base + BASE.as_secs_f64() * 1e3)?;
    let above = |bytes: i64| (bytes - (live + table) as i64) as f64 / MIB;
    let at = |look: u64| timeline.at(idle + look as f64 * 1e3);
    let resident = |seen: Reading| above(seen.resident as i64 - before.resident as i64);
    let (&last, earlier) = looks.split_last()?;
    let seen = at(last)?;
    let freed = resident(timeline.at(full + BASE.as_secs_f64() * 1e3)?);
    let figures = [
        (GIVEN_BACK, (freed - resident(seen)) / freed * 100.0),
        ("live", live as f64 / MIB),
        (HELD, resident(seen)),
        ("counted by the system above live", above(seen.charged - before.charged)),
    ];
    let mut figures = BTreeMap::from(figures.map(|(name, figure)| (name.to_owned(), figure)));
    for look in earlier {
        figures.insert(after(*look), resident(at(*look)?));
    }
    Some(figures)
}

fn picture(title: String, workload: &str, run: &Run) -> Picture {
    let lines = run.meta.variants.iter().filter_map(|variant| {
        let cell = Cell { workload, tasks: 1, variant: &variant.name };
        let timeline = run.samples_of(cell).find_map(|sample| sample.timeline.as_ref())?;
        let (idle, numbers) = timeline.phase("idle")?;
        let table = numbers.get(1).copied().unwrap_or(0) as f64;
        let point = |reading: &Reading| {
            ((reading.ms - idle) / 1e3, (reading.resident as f64 - table).max(0.0) / MIB)
        };
        let points = timeline.readings.iter().map(point).filter(|(second, _)| *second >= -0.5);
        Some(Course { name: variant.name.clone(), points: points.collect() })
    });
    Picture { title, x: "seconds since the last free", y: "resident, MiB", lines: lines.collect() }
}
