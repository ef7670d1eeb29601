//! `sqlite-budget`: many databases under one budget, of which some are popular for a while.

use super::super::plan::*;
use super::{CACHES, LoadProgram, QUARRY, TIME, lineup, print_by_threads, target};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Page caches for one thread only.
const SINGLE: &str = "shared-single";

/// SQLite with many databases under one budget, of which some are popular for a while.
///
/// Each sample is a fresh process that has every database open and looks rows up by their keys. The
/// database is drawn by a Zipf distribution (0.99) and the row evenly; which databases are popular
/// changes three times. For every read of a page from a file the thread spins for 50 us: the files
/// are in the kernel's cache, which would hide whether the right pages are kept. Every row is
/// compared byte by byte with the stored row, and all samples have the same checksum.
///
/// Quarry's budget covers everything that the process allocates through it. For every other page
/// cache trials first find the number of bytes with which its process has the same peak as
/// Quarry's; only `default`, SQLite as distributed, keeps its own size. SQLite's counting of
/// allocated memory is off, except where the soft limit needs it.
#[derive(Args)]
pub(crate) struct SqliteBudget {
    #[command(flatten)]
    common: Common<SqliteBudget>,
    /// Number of databases.
    #[arg(long, default_value = "256", default_value_if("quick", "true", Some("16")),
          value_parser = clap::value_parser!(u64).range(2..=1000))]
    databases: u64,
    /// Size of each database, in MiB.
    #[arg(long, default_value = "8", default_value_if("quick", "true", Some("2")),
          value_parser = clap::value_parser!(u64).range(1..))]
    mib: u64,
    /// The budget of all databases together, in MiB.
    #[arg(long, default_value = "256", default_value_if("quick", "true", Some("16")),
          value_parser = clap::value_parser!(u64).range(1..))]
    budget: u64,
    /// Look-ups of all threads together.
    #[arg(long, default_value = "600000", default_value_if("quick", "true", Some("20000")),
          value_parser = clap::value_parser!(u64).range(100..))]
    lookups: u64,
    /// Time of a read of a page, in microseconds.
    #[arg(long, default_value = "50")]
    latency: u64,
    /// Folder where the databases are or will be made [default: a folder that is removed
    /// afterwards].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl Defaults for SqliteBudget {
    const VARIANTS: &'static str = "quarry,separate,shared,shared-single,default";
    const TASKS: &'static str = "1";
    const SAMPLES: &'static str = "6";
    const QUICK_SAMPLES: &'static str = "1";
    const MOST_TASKS: u32 = 64;
}

impl Plan for SqliteBudget {
    const NAME: &'static str = "sqlite-budget";

    fn stage(self, lab: &mut Lab<'_>) -> Result<Staged> {
        self.common.check_early()?;
        let program = LoadProgram::find()?;
        let (variants, caches) = lineup(&self.common, &CACHES)?;
        let scratch = tempfile::Builder::new().prefix("quarry-sqlite").tempdir()?;
        let folder = self.folder.clone().unwrap_or_else(|| scratch.path().to_owned());
        program.create(&folder, self.databases, self.mib << 20)?;
        let mut by_tasks = BTreeMap::new();
        for &tasks in &self.common.tasks {
            let names = self.common.variants.iter().map(String::as_str);
            let able: Vec<&str> = names.filter(|name| tasks == 1 || *name != SINGLE).collect();
            let fill = self.options(tasks, 100);
            let found = budgets(&program, &able, &folder, self.budget << 20, &fill)?;
            for (cache, bytes) in &found {
                if ![QUARRY, UNBOUNDED].contains(&cache.as_str()) {
                    let mib = *bytes as f64 / MIB;
                    let found = format!("page cache of {mib:.1} MiB, found by trial");
                    writeln!(lab.out, "{cache}, threads {tasks}: {found}")?;
                }
            }
            by_tasks.insert(tasks, (found, self.options(tasks, self.lookups)));
        }
        let sampler = move |key: SampleKey| {
            let _kept = &scratch;
            let (cache, (bytes, options)) = (&caches[key.variant], &by_tasks[&key.tasks]);
            let Some(bytes) = bytes.get(cache) else { return Err(NoSample::LeftOut) };
            Ok(program.lookups(cache, &folder, *bytes, options)?.into())
        };
        let work = format!("{} databases", self.databases);
        let workloads = workloads([&work]);
        let mut plan = experiment(&self.common, variants, workloads, sampler)?;
        plan.about = format!(
            "{} look-ups over {work} of {} MiB under {} MiB, {} us for each page read.",
            self.lookups, self.mib, self.budget, self.latency
        );
        plan.meta.metrics = metrics();
        plan.meta.targets = vec![
            target("time per look-up, separate caches", &work, "separate", 1.0 / 1.5),
            target("time per look-up, one shared group", &work, "shared", 1.0),
        ];
        plan.warm_up = false;
        let plan = plan
            .option("databases", self.databases)
            .option("mib", self.mib)
            .option("budget", self.budget)
            .option("lookups", self.lookups)
            .option("latency", self.latency);
        Ok(Staged::new(plan, move |run, out| print(run, &work, out)))
    }
}

impl SqliteBudget {
    /// Options of the load program: `tasks` threads fill the caches, and share `lookups` look-ups.
    fn options(&self, tasks: u32, lookups: u64) -> Vec<String> {
        let tasks = u64::from(tasks);
        vec![
            format!("--databases={}", self.databases),
            format!("--threads={tasks}"),
            format!("--lookups={}", (lookups / tasks).max(1)),
            format!("--warm-up={}", self.databases * self.mib * 256 / tasks),
            format!("--latency-us={}", self.latency),
        ]
    }
}

fn metrics() -> Vec<Metric> {
    vec![
        Metric::rate("look-ups per second").digits(0),
        lower(TIME, "us per look-up", "time_ns").per("operations").times(1e-3).primary(),
        micros("p50, us", "p50_ns"),
        micros("p99, us", "p99_ns"),
        Metric::counted("pages read", "page_reads"),
        mib("peak RSS, MiB", "peak_rss"),
        mib("beyond the budget, MiB", "overshoot"),
    ]
}

fn print(run: &Run, work: &str, out: &mut dyn Write) -> Result<()> {
    if let Some((table, legend)) = targets_of(run) {
        writeln!(out, "{}\n\n{legend}\n", table.text())?;
    }
    print_by_threads(run, work, "page cache", out)?;
    Ok(writeln!(out, "{}", Matrix::new(run, group_of_all(work, run)).tables())?)
}

const TRIALS: u32 = 3;
/// Peaks that differ by at most this part of Quarry's count as equal.
const EQUAL: f64 = 0.01;
/// The page cache whose size the budget does not change.
const UNBOUNDED: &str = "default";

/// Finds how many bytes to give each of `caches`, so that the peak of its process is the same as
/// Quarry's with `budget`. The trials fill the caches by short look-ups with `options`.
///
/// Page caches count their bytes differently: SQLite counts pages and leaves out other memory that
/// it keeps for them; Quarry counts every page that it takes from the system. So each cache runs up
/// to `TRIALS` times on trial. After a run its bytes change by the difference of the two peaks.
fn budgets(
    program: &LoadProgram,
    caches: &[&str],
    folder: &Path,
    budget: u64,
    options: &[String],
) -> Result<BTreeMap<String, u64>> {
    let peak = |cache: &str, bytes| -> Result<u64> {
        let measurement = program.lookups(cache, folder, bytes, options)?;
        Ok(measurement.counters.get("peak_rss").copied().unwrap_or(0))
    };
    let aim = peak(QUARRY, budget)?;
    let mut all = BTreeMap::new();
    for &cache in caches {
        let mut bytes = budget;
        let trials = if [QUARRY, UNBOUNDED].contains(&cache) { 0 } else { TRIALS };
        for _ in 0..trials {
            let found = peak(cache, bytes)?;
            if found.abs_diff(aim) as f64 <= EQUAL * aim as f64 {
                break;
            }
            bytes = corrected(bytes, found, aim);
        }
        all.insert(cache.to_owned(), bytes);
    }
    Ok(all)
}

/// Bytes that move the peak from `found` to `aim` if other memory stays equal; `bytes / 4` or more.
fn corrected(bytes: u64, found: u64, aim: u64) -> u64 {
    let least = bytes / 4;
    if found > aim { bytes.saturating_sub(found - aim).max(least) } else { bytes + (aim - found) }
}

#[cfg(test)]
mod tests {
    use super::corrected;

    #[test]
    fn what_is_beyond_the_aim_is_taken_away() {
        assert_eq!(corrected(100, 130, 120), 90);
        assert_eq!(corrected(100, 110, 120), 110);
        assert_eq!(corrected(100, 500, 120), 25, "something is always left");
    }
}
