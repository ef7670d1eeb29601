//! `truncate-stall`: a million cached pages are freed at once while another thread works.

use super::super::plan::*;
use super::{CACHES, LoadProgram, lineup};

const WAYS: [(&str, &str); 3] =
    [("truncate", "truncate"), ("close", "close"), ("one-by-one", "discard one by one")];

/// A million cached pages of SQLite are freed at once while another thread works.
///
/// Each sample is a fresh process. It fills a page cache through the methods that SQLite calls,
/// reads the bytes of every page, and frees all pages: by one truncation, by closing the cache, or
/// by discarding one page after the other. Meanwhile another thread uses a small cache of its own,
/// mostly with hits, and times each operation. Its longest operation is the stall. For comparison,
/// the longest operation of an equally long time in which no page is freed shows the stalls of the
/// machine itself.
#[derive(Args)]
pub(crate) struct TruncateStall {
    #[command(flatten)]
    common: Common<TruncateStall>,
    /// Pages of 4 KiB.
    #[arg(long, default_value = "1000000", default_value_if("quick", "true", Some("20000")),
          value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pages: u64,
}

impl Defaults for TruncateStall {
    const VARIANTS: &'static str = "quarry,separate,managed";
    const SAMPLES: &'static str = "3";
    const QUICK_SAMPLES: &'static str = "1";
}

impl Plan for TruncateStall {
    const NAME: &'static str = "truncate-stall";

    fn stage(self, _: &mut Lab<'_>) -> Result<Staged> {
        self.common.check_early()?;
        let program = LoadProgram::find()?;
        let (variants, caches) = lineup(&self.common, &CACHES)?;
        let pages = self.pages;
        let sampler = move |key: SampleKey| {
            Ok(program.truncate(&caches[key.variant], WAYS[key.workload].0, pages)?.into())
        };
        let workloads = workloads(WAYS.map(|(_, name)| name));
        let mut plan =
            experiment(&self.common, variants, workloads, sampler)?.option("pages", pages);
        plan.about = format!("{pages} pages of 4 KiB, in a fresh process.");
        plan.meta.metrics = metrics();
        plan.warm_up = false;
        Ok(Staged::new(plan, |run, out| {
            for (_, way) in WAYS {
                writeln!(
                    out,
                    "{way}, medians:\n\n{}\n",
                    by_variant(run, way, "page cache").text()
                )?;
            }
            Ok(())
        }))
    }
}

fn metrics() -> Vec<Metric> {
    vec![
        Metric::time_per_operation().primary(),
        lower("all, ms", "ms", "wall_ns").times(1e-6).digits(1),
        micros("longest stall, us", "longest_stall_ns"),
        micros("longest while idle, us", "idle_stall_ns"),
        micros("p99, us", "p99_stall_ns"),
        mib("peak RSS, MiB", "peak_rss").digits(0),
    ]
}
