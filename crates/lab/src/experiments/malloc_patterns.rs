//! `malloc-patterns`: malloc and free under four patterns, against other allocators.

use crate::FindLibrary;
use crate::affinity;
use crate::allocators::QUARRY;
use crate::comparison::{Comparison, Group};
use crate::contenders;
use crate::nearest;
use crate::options::{self, Common};
use crate::patterns::heap::Heap;
use crate::patterns::window::Budget;
use crate::patterns::{Family, Pattern, side_by_side};
use crate::results::{Direction, Measurement, Metric, Run, Verify, Workload};
use crate::runner::Design;
use anyhow::{Context, Result};
use clap::Args;
use clap::builder::ArgPredicate;
use nix::sys::resource::{UsageWho, getrusage};
use std::collections::BTreeMap;
use std::io::Write;

/// malloc and free under four patterns, against other allocators.
///
/// Pairs (allocate, free), batches of 1,000 freed in either order, random replacement in a working
/// set of 10,000 blocks, and a producer / consumer pair of threads. Every sample is a fresh process
/// with the allocator preloaded, and counts only where the loader says that this allocator served
/// it. Allocators are interleaved in randomised complete blocks; a second copy of the baseline
/// (A/A) shows the noise. Printed are medians, and ratios paired within blocks with 95 % bootstrap
/// intervals; an asterisk marks a ratio whose interval has nothing in common with that of the A/A
/// copy in the same row.
///
/// Time is CPU time of the process, which other processes do not lengthen, and wall-clock time for
/// producer and consumer; both are recorded. Threads are bound to CPUs. With one CPU, producer and
/// consumer share it and their rows say nothing about memory that moves between CPUs. With several
/// tasks each is a thread (a pair of threads) that runs the pattern on the same heap; time is then
/// wall-clock time of a task per operation of its own.
#[derive(Args)]
pub struct MallocPatterns {
    #[command(flatten)]
    common: Common<Defaults>,
    /// Only patterns whose names begin so, such as pair or batch-lifo.
    #[arg(long, value_delimiter = ',', value_name = "PREFIX")]
    only: Vec<String>,
    /// Length of a sample in milliseconds; a quarter of it goes before as warm-up.
    #[arg(long, default_value = "40",
          default_value_if("quick", ArgPredicate::Equals("true".into()), Some("8")),
          value_parser = clap::value_parser!(u64).range(1..))]
    millis: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Defaults;

impl options::Defaults for Defaults {
    const VARIANTS: &'static str = "glibc,jemalloc,tcmalloc,mimalloc,quarry";
    const SAMPLES: &'static str = "50";
    const QUICK_SAMPLES: &'static str = "3";
    const MOST_TASKS: u32 = 1024;
}

/// One sample, taken in a process of its own.
#[derive(Args)]
pub(crate) struct PatternSample {
    pattern: Pattern,
    #[arg(long)]
    millis: u64,
    /// How many at once.
    #[arg(long)]
    tasks: usize,
    /// CPUs of the threads, in turn.
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<usize>,
}

impl PatternSample {
    /// Measures in this process, with the allocator that it has.
    pub(crate) fn measure(self) -> Result<Measurement> {
        if let Some(&cpu) = self.cpus.first() {
            affinity::pin(cpu).with_context(|| format!("cannot run on CPU {cpu}"))?;
        }
        let heap = Heap::of_this_process();
        let served_by = heap.served_by().context("malloc is nobody's")?;
        let budget = Budget::of_millis(self.millis);
        let (window, time_ns) = match self.tasks {
            1 => {
                let window = self.pattern.run(heap, budget, self.cpus.get(1).copied());
                let is_alone = !self.pattern.is_threaded();
                (window, if is_alone { window.cpu_ns } else { window.wall_ns })
            }
            tasks => side_by_side::run(self.pattern, heap, budget, tasks, &self.cpus),
        };
        Ok(Measurement {
            operations: window.operations,
            time_ns,
            wall_ns: window.wall_ns,
            cpu_ns: window.cpu_ns,
            verified: window.verified,
            served_by,
            counters: usage()?,
            figures: BTreeMap::new(),
        })
    }
}

/// What the kernel counted for this process.
fn usage() -> Result<BTreeMap<String, u64>> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let counters = [
        ("max_rss_kib", usage.max_rss()),
        ("minor_faults", usage.minor_page_faults()),
        ("involuntary_switches", usage.involuntary_context_switches()),
    ];
    Ok(counters.map(|(name, count)| (name.to_owned(), count as u64)).into())
}

impl MallocPatterns {
    /// Runs the experiment and prints its tables.
    pub(crate) fn run(self, find_library: FindLibrary<'_>, out: &mut dyn Write) -> Result<()> {
        let patterns = self.patterns()?;
        let mut contenders = contenders::find(&self.common.variants, find_library, out)?;
        let baseline = self.common.baseline(&contenders::names(&contenders), QUARRY)?.to_owned();
        contenders::add_copy(&mut contenders, &baseline);
        let most = self.common.tasks()?.into_iter().max().unwrap_or(1).max(2);
        let cpus = affinity::choose(&affinity::allowed(), most as usize);
        let workload = |it: &Pattern| Workload::new(&it.to_string(), Verify::PerOperation(1));
        let workloads = patterns.iter().map(workload).collect();
        let variants = contenders::variants(&contenders);
        let design = self.common.design("malloc-patterns", variants, &baseline, workloads)?;
        let design = Design { metrics: metrics(), ..design }.option("millis", self.millis);
        let run = design.conduct(|spot| {
            let arguments = self.arguments(patterns[spot.workload], spot.tasks, &cpus);
            contenders[spot.variant].sample(&arguments)
        })?;
        self.print(&run, &patterns, out)
    }

    fn patterns(&self) -> Result<Vec<Pattern>> {
        let all = Pattern::all();
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        for prefix in &self.only {
            if !names.iter().any(|name| name.starts_with(prefix)) {
                return Err(nearest::unknown("pattern --only", prefix, &names));
            }
        }
        let is_wanted = |pattern: &Pattern| {
            let name = pattern.to_string();
            self.only.is_empty() || self.only.iter().any(|prefix| name.starts_with(prefix))
        };
        Ok(all.into_iter().filter(is_wanted).collect())
    }

    fn arguments(&self, pattern: Pattern, tasks: u32, cpus: &[usize]) -> Vec<String> {
        let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        vec![
            "pattern".to_owned(),
            pattern.to_string(),
            format!("--tasks={tasks}"),
            format!("--millis={}", self.millis),
            format!("--cpus={}", cpus.join(",")),
        ]
    }

    fn print(&self, run: &Run, patterns: &[Pattern], out: &mut dyn Write) -> Result<()> {
        let groups = Family::ALL.iter().filter_map(|family| {
            let members = patterns.iter().filter(|pattern| pattern.family() == *family);
            let workloads: Vec<String> = members.map(ToString::to_string).collect();
            (!workloads.is_empty()).then(|| Group { name: family.name().to_owned(), workloads })
        });
        let comparison = Comparison { run, groups: groups.collect() };
        let what = format!("{} ms in a fresh process.", self.millis);
        writeln!(out, "{}\n{}", run.head(&what), comparison.tables())?;
        run.expect_no_failures()
    }
}

fn metrics() -> Vec<Metric> {
    let memory = Metric::new("peak RSS", "KiB", Direction::Lower, "max_rss_kib").digits(0);
    let faults = Metric::new("page faults", "count", Direction::Lower, "minor_faults").digits(0);
    vec![Metric::time_per_operation().primary(), memory, faults]
}
