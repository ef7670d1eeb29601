//! `malloc-patterns`: malloc and related functions under all patterns, compared between allocators.

use super::plan::*;
use crate::patterns::heap::Heap;
use crate::patterns::window::{Budget, Window};
use crate::patterns::{Family, Outcome, Pattern, latency};
use nix::sys::resource::{UsageWho, getrusage};
use quarry_harness::proc;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// malloc, free and related functions under all patterns of use, compared between allocators.
///
/// The patterns are: pairs (allocate, free), batches of 1,000 freed in three orders, random
/// replacement in a working set of 10,000 blocks on one and two threads, producer and consumer,
/// threads in a ring (less the time of the same ring without allocation), servers whose threads
/// come and go, mixed stress, traffic that changes from phase to phase, realloc, calloc, large
/// blocks, short-lived threads, forks, and the latency of single calls. Every sample is a fresh
/// process with the allocator preloaded, and counts only if the loader shows that this allocator
/// served it. Allocators are interleaved in randomised complete blocks, and a second copy of the
/// baseline (A/A) shows the noise. The tables have medians, and ratios paired within blocks with 95
/// % intervals; an asterisk marks a ratio that is judged better or worse.
///
/// Time is CPU time of the process, which other processes do not lengthen; for patterns of several
/// threads and of forks it is wall-clock time. Both are recorded. Threads are bound to CPUs. On a
/// machine with one CPU they share it, and their rows do not show the cost of memory that moves
/// between CPUs. Peak memory is that of the process since it began to run (VmHWM), and has a table
/// of its own. With several tasks, each task is a thread (or a pair) that runs the pattern on the
/// same heap; time is then wall-clock time of a task per operation of its own.
#[derive(Args)]
pub(super) struct MallocPatterns {
    #[command(flatten)]
    common: Common<MallocPatterns>,
    /// Only patterns whose names begin with one of these, such as pair or batch-lifo.
    #[arg(long, value_delimiter = ',', value_name = "PREFIX")]
    only: Vec<String>,
    /// Length of a sample in milliseconds; a warm-up of a quarter of it precedes.
    #[arg(long, default_value = "40", default_value_if("quick", "true", Some("8")),
          value_parser = clap::value_parser!(u64).range(1..))]
    millis: u64,
}

impl Defaults for MallocPatterns {
    const VARIANTS: &'static str = "glibc,jemalloc,tcmalloc,mimalloc,quarry";
    const SAMPLES: &'static str = options::USUAL_SAMPLES;
    const QUICK_SAMPLES: &'static str = "2";
    const MOST_TASKS: u32 = 1024;
}

#[derive(Serialize, Deserialize)]
pub(crate) struct PatternSample {
    pub(crate) pattern: Pattern,
    pub(crate) millis: u64,
    pub(crate) tasks: usize,
    /// CPUs of the threads, taken in turn.
    pub(crate) cpus: Vec<usize>,
}

impl Work for PatternSample {
    const NAME: &'static str = "pattern";

    fn measure(self) -> Result<Measurement> {
        if let Some(&cpu) = self.cpus.first() {
            affinity::pin(cpu).with_context(|| format!("cannot run on CPU {cpu}"))?;
        }
        let heap = Heap::of_this_process();
        let served_by = heap.served_by().context("no object serves malloc")?;
        let budget = Budget::of_millis(self.millis);
        let (Outcome { window, figures }, time_ns) = match self.tasks {
            1 => {
                let outcome = self.pattern.run(heap, budget, &self.cpus);
                let Window { wall_ns, cpu_ns, .. } = outcome.window;
                (outcome, if self.pattern.is_threaded() { wall_ns } else { cpu_ns })
            }
            tasks => {
                let (window, time_ns) =
                    self.pattern.run_side_by_side(heap, budget, tasks, &self.cpus);
                (window.into(), time_ns)
            }
        };
        let Window { operations, verified, wall_ns, cpu_ns } = window;
        Ok(Measurement {
            verified,
            counters: usage()?,
            figures: figures.into_iter().map(|(name, it)| (name.to_owned(), it)).collect(),
            ..Measurement::of_window(operations, time_ns, wall_ns, cpu_ns, &served_by)
        })
    }
}

fn usage() -> Result<BTreeMap<String, u64>> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let peak = proc::peak(std::process::id()).context("no VmHWM")?;
    let counters = [
        ("max_rss_kib", peak >> 10),
        ("minor_faults", usage.minor_page_faults() as u64),
        (HUGE_KIB, proc::huge(std::process::id()).unwrap_or(0) >> 10),
        ("involuntary_switches", usage.involuntary_context_switches() as u64),
    ];
    Ok(counters.map(|(name, count)| (name.to_owned(), count)).into())
}

impl Plan for MallocPatterns {
    const NAME: &'static str = "malloc-patterns";
    const WORK: Option<WorkKind> = Some(WorkKind::of::<PatternSample>());

    fn stage(self, lab: &mut Lab<'_>) -> Result<Staged> {
        let is_usual = |pattern: &Pattern| !self.common.quick || pattern.is_quick();
        let patterns = options::named(Pattern::all(), &self.only, "pattern --only", is_usual)?;
        let (variants, contenders) = lab.contenders_with_copy(&self.common, QUARRY)?;
        let most = self.common.tasks()?.into_iter().max().unwrap_or(1).max(4);
        let cpus = affinity::choose(&affinity::allowed(), most as usize);
        let workloads = workloads(&patterns);
        let (run, millis) = (patterns.clone(), self.millis);
        let order = move |key: SampleKey| {
            let (pattern, tasks) = (run[key.workload], key.tasks as usize);
            PatternSample { pattern, millis, tasks, cpus: cpus.clone() }.order()
        };
        let sampler = OwnWork { contenders, order };
        let mut plan =
            experiment(&self.common, variants, workloads, sampler)?.option("millis", millis);
        plan.about = format!("{millis} ms in a fresh process.");
        plan.meta.metrics = metrics();
        Ok(Staged::new(plan, move |run, out| {
            writeln!(out, "{}", Matrix::new(run, groups(&patterns)).tables())?;
            if patterns.contains(&Pattern::Latency) {
                print_latency(run, out)?;
            }
            let names: Vec<String> = patterns.iter().map(ToString::to_string).collect();
            print_faults(run, names.clone(), out)?;
            print_peaks(run, names, out)
        }))
    }
}

pub(crate) fn groups(patterns: &[Pattern]) -> Vec<Group> {
    let group = |family: Family| {
        let members = patterns.iter().filter(|pattern| pattern.family() == family);
        let workloads: Vec<String> = members.map(ToString::to_string).collect();
        group(family.name(), workloads)
    };
    Family::all().flat_map(group).collect()
}

/// Prints the quantiles, which only `latency` has.
pub(crate) fn print_latency(run: &Run, out: &mut dyn Write) -> Result<()> {
    for (name, _) in latency::QUANTILES {
        let workloads = vec![Pattern::Latency.to_string()];
        let matrix = Matrix::new(run, group(Family::Latency.name(), workloads));
        let metric = run.meta.metric(name)?;
        writeln!(out, "\n{}\n", matrix.medians(metric))?;
        writeln!(out, "{}", matrix.ratios(metric))?;
    }
    Ok(())
}

/// Prints the peak memory of workloads, with the geometric mean over all.
pub(crate) fn print_peaks(run: &Run, workloads: Vec<String>, out: &mut dyn Write) -> Result<()> {
    let all = Matrix::new(run, group("all", workloads));
    let memory = run.meta.metric(PEAK)?;
    writeln!(out, "\nPeak memory:\n\n{}", all.medians(memory))?;
    let title = format!("Peak memory in relation to {}:", run.meta.baseline);
    Ok(writeln!(out, "\n{title}\n\n{}", all.ratios(memory))?)
}

/// Prints the page faults of workloads, and their memory in huge pages.
pub(crate) fn print_faults(run: &Run, workloads: Vec<String>, out: &mut dyn Write) -> Result<()> {
    let all = Matrix::new(run, group("all", workloads));
    let faults = run.meta.metric(FAULTS)?;
    writeln!(out, "\nPage faults:\n\n{}", all.medians(faults))?;
    Ok(writeln!(out, "\nHuge pages:\n\n{}", all.medians(run.meta.metric(HUGE)?))?)
}

pub(crate) const FAULTS: &str = "page faults";
pub(crate) const HUGE: &str = "huge pages";
/// Name of the counter of KiB in huge pages: of a pattern at its end, of a program the maximum.
pub(crate) const HUGE_KIB: &str = "huge_kib";
pub(crate) const PEAK: &str = "peak RSS";

/// The metrics of page faults, and of memory in huge pages.
pub(crate) fn faults_and_huge() -> [Metric; 2] {
    let faults = lower(FAULTS, "count", "minor_faults").digits(0);
    let huge = Metric::new(HUGE, "MiB", Direction::None, HUGE_KIB).times(1.0 / 1024.0).digits(0);
    [faults, huge]
}

/// The metrics of all patterns, then those of `latency`.
pub(crate) fn metrics() -> Vec<Metric> {
    let memory = lower(PEAK, "KiB", "max_rss_kib").digits(0);
    let [faults, huge] = faults_and_huge();
    let quantile = |(name, _)| lower(name, &format!("{name} of a call"), name);
    let quantiles = latency::QUANTILES.into_iter().map(quantile);
    let always = [Metric::time_per_operation().primary(), memory, faults, huge];
    always.into_iter().chain(quantiles).collect()
}
