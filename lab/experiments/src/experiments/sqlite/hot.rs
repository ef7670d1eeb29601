//! `sqlite-hot`: one database that fits into the cache, read by one connection and by two.

use super::super::plan::*;
use super::{CACHES, LoadProgram, lineup, target};
use std::path::PathBuf;

/// SQLite with one database that fits into its cache, read by one connection and by two.
///
/// Each sample is a fresh process. Each of its threads has its own connection, reads the whole
/// database once, and then looks rows up by their keys, evenly drawn, in one read transaction. No
/// page is read from the file any more. Every row is compared byte by byte with the stored row. The
/// variant to beat is SQLite without SQLITE_ENABLE_MEMORY_MANAGEMENT, which takes no lock for a
/// page. `managed` has that flag, as rusqlite's `bundled` has, and one mutex for all caches.
#[derive(Args)]
pub(crate) struct SqliteHot {
    #[command(flatten)]
    common: Common<SqliteHot>,
    /// Size of the database, in MiB.
    #[arg(long, default_value = "80", default_value_if("quick", "true", Some("4")),
          value_parser = clap::value_parser!(u64).range(1..))]
    mib: u64,
    /// Look-ups of each connection.
    #[arg(long, default_value = "1000000", default_value_if("quick", "true", Some("20000")),
          value_parser = clap::value_parser!(u64).range(100..))]
    lookups: u64,
    /// Folder where the database is or will be made [default: a folder that is removed afterwards].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl Defaults for SqliteHot {
    const VARIANTS: &'static str = "quarry,separate,managed";
    const TASKS: &'static str = "1,2";
    const SAMPLES: &'static str = "16";
    const QUICK_SAMPLES: &'static str = "2";
    const MOST_TASKS: u32 = 64;
}

impl Plan for SqliteHot {
    const NAME: &'static str = "sqlite-hot";

    fn stage(self, _: &mut Lab<'_>) -> Result<Staged> {
        self.common.check_early()?;
        let program = LoadProgram::find()?;
        let (variants, caches) = lineup(&self.common, &CACHES)?;
        let scratch = tempfile::Builder::new().prefix("quarry-sqlite").tempdir()?;
        let folder = self.folder.clone().unwrap_or_else(|| scratch.path().to_owned());
        program.create(&folder, 1, self.mib << 20)?;
        let (mib, lookups) = (self.mib, self.lookups);
        let sampler = move |key: SampleKey| {
            let _kept = &scratch;
            let budget = ((mib * 3 / 2 + 64) * u64::from(key.tasks)) << 20;
            let options = [
                "--databases=1".to_owned(),
                "--all".to_owned(),
                "--scan".to_owned(),
                "--warm-up=10000".to_owned(),
                "--latency-us=0".to_owned(),
                "--time-every=16".to_owned(),
                format!("--threads={}", key.tasks),
                format!("--lookups={lookups}"),
            ];
            Ok(program.lookups(&caches[key.variant], &folder, budget, &options)?.into())
        };
        let work = format!("{mib} MiB");
        let workloads = workloads([&work]);
        let metric = Metric::time_per_operation().primary();
        let mut plan = experiment(&self.common, variants, workloads, sampler)?;
        plan.about = format!("{lookups} look-ups of each connection in a database of {work}.");
        plan.meta.metrics = vec![metric, Metric::counted("pages read", "page_reads")];
        plan.meta.targets = vec![target("look-ups in a hot database", &work, "separate", 1.0)];
        let plan = plan.option("mib", mib).option("lookups", lookups);
        Ok(Staged::new(plan, move |run, out| {
            if let Some((table, legend)) = targets_of(run) {
                writeln!(out, "{}\n\n{legend}\n", table.text())?;
            }
            Ok(writeln!(out, "{}", Matrix::new(run, group_of_all(&work, run)).tables())?)
        }))
    }
}
