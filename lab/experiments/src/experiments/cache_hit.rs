//! `cache-hit`: Quarry's page cache compared with other caches of pages.

use super::plan::*;
use quarry_compare::allocators::peer_folders;
use quarry_harness::launch::SAMPLE_COMMAND;
use quarry_harness::results::{Against, Over, Relation, Target};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::Command;

const LOOKUP: &str = "lookup";
const HIT: &str = "hit";
const RATE: &str = "hits";
const MISSES: &str = "misses";
const EVICTION: &str = "eviction";
const RESIDENT: &str = "resident";

/// General-purpose caches. A hit on Quarry may take at most `MOST_HIT` times that on the fastest.
const GENERAL: [&str; 3] = ["quick_cache", "moka", "foyer"];
const MOST_HIT: f64 = 0.7;
/// Simulated policies. Quarry's miss ratio may exceed the best by `MOST_POINTS` percentage points.
const POLICIES: [&str; 2] = ["lru", "s3-fifo"];
const MOST_POINTS: f64 = 2.0;

/// Quarry's page cache beside crates, published mechanisms and simulated policies (make caches).
///
/// Every cache holds pages of 4 KiB by file and index, and all may hold the same number of bytes.
/// quick_cache, moka and foyer are crates. vmcache and swizzle are the mechanisms of vmcache and
/// LeanStore, reimplemented in small from their papers. lru, s3-fifo and active-inactive are
/// policies without a cache, which count hits on the same lookups.
///
/// A hit reads one word of the page, or the whole page in one of 1,024 cases; every lookup is
/// checked against the page's expected content. The fill of a miss spins as long as a device would
/// take, and then writes the page. Without that a miss would cost next to nothing, because the
/// kernel's cache holds the file, and the figures would not show how well a cache evicts. A
/// separate figure has the time of a miss without its fill.
#[derive(Args)]
pub(super) struct CacheHit {
    #[command(flatten)]
    common: Common<CacheHit>,
    /// Only workloads whose names begin with one of these, such as hot, zipf, scan, loop or twice.
    #[arg(long, value_delimiter = ',', value_name = "PREFIX")]
    only: Vec<String>,
    /// Bytes of pages that each cache may hold, in MiB.
    #[arg(long, default_value = "64", default_value_if("quick", "true", Some("16")),
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    mib: u32,
    /// Lookups of a sample, as a multiple of the pages that the cache holds.
    #[arg(long, default_value = "6", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Cost of a miss: the latency of a device, in microseconds.
    #[arg(long, default_value = "10", value_parser = clap::value_parser!(u64).range(0..=1000))]
    latency_us: u64,
}

impl Defaults for CacheHit {
    const VARIANTS: &'static str =
        "quarry,quick_cache,moka,foyer,vmcache,vmcache-shared,swizzle,lru,s3-fifo,active-inactive";
    const TASKS: &'static str = "1,2";
    const SAMPLES: &'static str = "6";
    const QUICK_SAMPLES: &'static str = "1";
    const MOST_TASKS: u32 = 64;
}

impl Plan for CacheHit {
    const NAME: &'static str = "cache-hit";

    fn stage(self, _: &mut Lab<'_>) -> Result<Staged> {
        each_once(&self.common.variants, check_variant)?;
        let names: Vec<&str> = self.common.variants.iter().map(String::as_str).collect();
        self.common.baseline(&names, QUARRY)?;
        let wanted = options::named(WORKLOADS.to_vec(), &self.only, "workload --only", |_| true)?;
        self.common.check_early()?;
        let program = Program::find()?;
        let found = self.common.variants.iter().filter_map(|name| {
            let cache = program.variants.iter().find(|it| it.name == *name)?;
            Some((cache.clone(), Variant::new(name, &cache.about)))
        });
        let (variants, caches) = Variants::with_copy(&self.common, found.collect(), QUARRY)?;
        let is_wanted = |work: &&Work| wanted.contains(&work.name.as_str());
        let works: Vec<Work> = program.workloads.iter().filter(is_wanted).cloned().collect();
        let rows = workloads(works.iter().map(|it| &it.name));
        let targets = targets(&works, &caches);
        let (mib, rounds, latency_us) = (self.mib, self.rounds, self.latency_us);
        let cpus = affinity::choose(&affinity::allowed(), 64);
        let printed = (works.clone(), caches.clone());
        let sampler = move |key: SampleKey| {
            let cache = &caches[key.variant];
            // A policy without a cache gives the same result every time.
            if cache.is_simulator && key.round == 0 {
                return Err(NoSample::LeftOut);
            }
            let order = Order {
                variant: &cache.name,
                workload: &works[key.workload].name,
                tasks: key.tasks,
                cpus: &cpus,
                mib,
                rounds,
                latency_us,
                seed: 1,
            };
            Ok(program.sample(&order)?.into())
        };
        let mut plan = experiment(&self.common, variants, rows, sampler)?
            .option("mib", mib)
            .option("rounds", rounds)
            .option("latency us", latency_us);
        plan.about = format!("caches of {mib} MiB; a miss spins for {latency_us} us.");
        (plan.meta.metrics, plan.meta.targets) = (metrics(), targets);
        let (works, caches) = printed;
        Ok(Staged::new(plan, move |run, out| print(run, &works, &caches, out)))
    }
}

/// All metrics. Simulated policies have only the miss ratio.
fn metrics() -> Vec<Metric> {
    vec![
        lower(LOOKUP, "ns per lookup", "lookup_ns").per("operations").digits(1).primary(),
        lower(HIT, "ns per hit", "hit_ns").per("hits").digits(1),
        Metric::new(RATE, "million per second and core", Direction::Higher, "hits")
            .per("lookup_ns")
            .times(1e3)
            .digits(2),
        lower(MISSES, "%", "misses").per("operations").times(100.0).digits(2),
        lower(EVICTION, "ns per miss beside the fill", "overhead_ns").per("misses").digits(0),
        mib(RESIDENT, "resident_bytes"),
    ]
}

fn targets(workloads: &[Work], variants: &[Cache]) -> Vec<Target> {
    let each = |names: &[&str]| {
        let is_there = |name: &&&str| variants.iter().any(|it| it.name == **name);
        Against::Each(names.iter().filter(is_there).map(|it| (*it).to_owned()).collect())
    };
    let target = |work: &Work, metric: &str, against, relation, at_most| Target {
        work: format!("{metric}, {}", work.name),
        workloads: vec![work.name.clone()],
        metric: metric.to_owned(),
        against,
        over: Over::EachWorkload,
        relation,
        at_most,
    };
    let of = |work: &Work| match work.fits {
        true => target(work, HIT, each(&GENERAL), Relation::Ratio, MOST_HIT),
        false => target(work, MISSES, each(&POLICIES), Relation::Difference, MOST_POINTS),
    };
    workloads.iter().map(of).collect()
}

fn print(run: &Run, works: &[Work], caches: &[Cache], out: &mut dyn Write) -> Result<()> {
    for work in works {
        writeln!(out, "* {}: {}", work.name, work.about)?;
    }
    writeln!(out)?;
    if let Some((table, legend)) = targets_of(run) {
        writeln!(out, "{}\n\n{legend}\n", table.text())?;
    }
    let names = |fits: bool| -> Vec<String> {
        works.iter().filter(|it| it.fits == fits).map(|it| it.name.clone()).collect()
    };
    let real = without(run, caches.iter().filter(|it| it.is_simulator));
    let hits = Matrix::new(&real, group("hits", names(true)));
    if !hits.is_empty() {
        writeln!(out, "Nanoseconds per hit; below 1 Quarry's peer is faster:\n")?;
        let metric = run.meta.metric(HIT)?;
        writeln!(out, "{}\n\n{}\n", hits.medians(metric), hits.ratios(metric))?;
        writeln!(out, "Million hits per second and core:\n")?;
        writeln!(out, "{}\n", hits.medians(run.meta.metric(RATE)?))?;
    }
    if names(false).is_empty() {
        return Ok(());
    }
    let policies = Matrix::new(run, group("misses", names(false)));
    let metric = run.meta.metric(MISSES)?;
    writeln!(out, "Misses in percent:\n\n{}\n", policies.medians(metric))?;
    let evicting = Matrix::new(&real, group("misses", names(false)));
    for (title, metric) in [
        ("Nanoseconds per miss beside its fill", EVICTION),
        ("Nanoseconds per lookup, hits and misses", LOOKUP),
        ("Resident memory, MiB", RESIDENT),
    ] {
        writeln!(out, "{title}:\n\n{}\n", evicting.medians(run.meta.metric(metric)?))?;
    }
    Ok(())
}

/// A run without the samples of some variants.
fn without<'a>(run: &Run, left_out: impl Iterator<Item = &'a Cache>) -> Run {
    let left_out: Vec<&str> = left_out.map(|it| it.name.as_str()).collect();
    let mut rest = run.clone();
    rest.meta.variants.retain(|it| !left_out.contains(&it.name.as_str()));
    rest.samples.retain(|it| !left_out.contains(&it.variant.as_str()));
    rest
}

/// The program that takes the samples. It links the compared caches, which this command does not.
const PROGRAM: &str = "cache-hit";

/// The workloads of the program of this version. With these and `known`, options can be checked
/// even if the program is not built.
const WORKLOADS: [&str; 7] =
    ["hot-4-mib", "hot-uniform", "hot-zipf-0.9", "zipf-0.9", "scan", "loop", "twice"];

#[derive(Clone, Deserialize)]
struct Cache {
    name: String,
    about: String,
    is_simulator: bool,
}

#[derive(Clone, Deserialize)]
struct Work {
    name: String,
    about: String,
    fits: bool,
}

/// The program, as it describes itself.
#[derive(Deserialize)]
struct Program {
    #[serde(skip)]
    file: PathBuf,
    variants: Vec<Cache>,
    workloads: Vec<Work>,
}

/// Tells the program which sample to take. The program refuses unknown fields.
#[derive(Serialize)]
struct Order<'a> {
    variant: &'a str,
    workload: &'a str,
    tasks: u32,
    cpus: &'a [usize],
    mib: u32,
    rounds: u32,
    latency_us: u64,
    seed: u64,
}

/// The names of the variants that the program of this version has.
fn known() -> impl Iterator<Item = &'static str> {
    CacheHit::VARIANTS.split(',')
}

/// Checks the name of a variant.
fn check_variant(name: &str) -> Result<()> {
    match known().any(|it| it == name) {
        true => Ok(()),
        false => Err(nearest::unknown("cache --variants", name, &known().collect::<Vec<_>>())),
    }
}

impl Program {
    /// Finds the program in a folder of peers, and checks its variants and workloads.
    fn find() -> Result<Self> {
        let files = peer_folders().into_iter().map(|folder| folder.join(PROGRAM));
        let Some(file) = files.into_iter().find(|file| file.is_file()) else {
            bail!(
                "{PROGRAM}: not built; `make caches` builds it, and QUARRY_PEERS names its folder"
            )
        };
        let output = Command::new(&file).arg("list").output();
        let output = output.with_context(|| format!("cannot run {}", file.display()))?;
        if !output.status.success() {
            bail!("{PROGRAM} list: {}", launch::end_of(&output));
        }
        let found: Option<Self> = serde_json::from_slice(&output.stdout).ok();
        let is_this = |found: &Self| {
            found.variants.iter().map(|it| &it.name).eq(known())
                && found.workloads.iter().map(|it| &it.name).eq(WORKLOADS)
        };
        let Some(found) = found.filter(is_this) else {
            bail!("{} is of another version; `make caches` builds it anew", file.display())
        };
        Ok(Self { file, ..found })
    }

    /// Takes a sample in a fresh process.
    fn sample(&self, order: &Order<'_>) -> Result<Measurement> {
        let mut command = Command::new(&self.file);
        command.arg(SAMPLE_COMMAND).arg(PROGRAM).arg(serde_json::to_string(order)?);
        launch::preload_into(&mut command, None);
        let output = command.output().with_context(|| format!("cannot start {PROGRAM}"))?;
        let measurement = launch::answer_of(&output, &output.stdout)?;
        if measurement.served_by != order.variant {
            bail!("was meant for {}, but served by {}", order.variant, measurement.served_by);
        }
        Ok(measurement)
    }
}
