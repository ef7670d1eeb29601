//! `malloc-patterns`: malloc and free under four patterns, against other allocators.

use crate::FindLibrary;
use crate::affinity;
use crate::allocators::{self, Allocator, QUARRY};
use crate::comparison::{Comparison, Group};
use crate::patterns::heap::Heap;
use crate::patterns::window::Budget;
use crate::patterns::{Family, Pattern};
use crate::recording::{Measurement, Recording, Variant};
use crate::runner::{self, Design};
use anyhow::{Context, Result, bail};
use clap::Args;
use nix::sys::resource::{UsageWho, getrusage};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

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
/// consumer share it and their rows say nothing about memory that moves between CPUs.
#[derive(Args)]
pub struct MallocPatterns {
    /// Which allocators: glibc, jemalloc, tcmalloc, mimalloc, quarry, or NAME=FILE.
    #[arg(long, value_delimiter = ',', default_value = "glibc,jemalloc,tcmalloc,mimalloc,quarry")]
    allocators: Vec<String>,
    /// The one that the others are compared with [default: quarry, else the first].
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// Only patterns whose names begin so, such as pair or batch-lifo.
    #[arg(long, value_delimiter = ',', value_name = "PREFIX")]
    only: Vec<String>,
    /// Rounds after the warm-up round; below 6 there are no intervals.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Length of a sample in milliseconds; a quarter of it goes before as warm-up.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..))]
    millis: u64,
    /// A look in seconds instead of minutes: 3 rounds of 8 ms.
    #[arg(long, conflicts_with_all = ["rounds", "millis"])]
    quick: bool,
    /// Seed of the order of samples [default: from the clock].
    #[arg(long)]
    seed: Option<u64>,
    /// Write every raw sample to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One sample, taken in a process of its own.
#[derive(Args)]
pub(crate) struct PatternSample {
    pattern: Pattern,
    #[arg(long)]
    millis: u64,
    /// CPU of the first and, where there is one, of the second thread.
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
        let budget = Budget {
            warm_up: Duration::from_micros(self.millis * 250),
            measured: Duration::from_millis(self.millis),
        };
        let window = self.pattern.run(heap, budget, self.cpus.get(1).copied());
        Ok(Measurement {
            operations: window.operations,
            time_ns: if self.pattern.is_threaded() { window.wall_ns } else { window.cpu_ns },
            wall_ns: window.wall_ns,
            cpu_ns: window.cpu_ns,
            served_by,
            counters: usage()?,
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
    pub(crate) fn run(mut self, find_library: FindLibrary<'_>, out: &mut dyn Write) -> Result<()> {
        if self.quick {
            (self.rounds, self.millis) = (3, 8);
        }
        let found = allocators::find(&self.allocators, find_library)?;
        for absent in &found.absent {
            writeln!(out, "absent: {absent}")?;
        }
        let baseline = self.baseline(&found.allocators)?;
        let patterns = self.patterns()?;

        let mut allocators = found.allocators;
        let copy = Allocator { name: format!("{} A/A", baseline.name), ..baseline.clone() };
        let (baseline, copy_name) = (baseline.name, copy.name.clone());
        allocators.push(copy);
        let cpus = affinity::choose(&affinity::allowed(), 2);

        let design = Design {
            experiment: "malloc-patterns".to_owned(),
            workloads: patterns.iter().map(ToString::to_string).collect(),
            variants: allocators.iter().map(variant_of).collect(),
            baseline,
            rounds: self.rounds,
            seed: self.seed,
        };
        let recording = design.conduct(|pattern, allocator| {
            self.sample(patterns[pattern], &allocators[allocator], &cpus)
        });
        if let Some(path) = &self.json {
            recording.write(path)?;
        }
        self.print(&recording, &patterns, copy_name, out)
    }

    fn baseline(&self, present: &[Allocator]) -> Result<Allocator> {
        let named = |name: &str| present.iter().find(|allocator| allocator.name == name).cloned();
        match &self.baseline {
            Some(name) => named(name).with_context(|| {
                let names: Vec<&str> = present.iter().map(|it| it.name.as_str()).collect();
                format!("--baseline {name}: accepted: {}", names.join(", "))
            }),
            None => named(QUARRY)
                .or_else(|| present.first().cloned())
                .context("none of the allocators is there"),
        }
    }

    fn patterns(&self) -> Result<Vec<Pattern>> {
        let mut patterns = Pattern::all();
        if !self.only.is_empty() {
            patterns.retain(|pattern| {
                self.only.iter().any(|prefix| pattern.to_string().starts_with(prefix))
            });
        }
        if patterns.is_empty() {
            let names: Vec<String> = Pattern::all().iter().map(ToString::to_string).collect();
            bail!(
                "--only {}: no such pattern; there are {}",
                self.only.join(","),
                names.join(", ")
            );
        }
        Ok(patterns)
    }

    fn sample(
        &self,
        pattern: Pattern,
        allocator: &Allocator,
        cpus: &[usize],
    ) -> Result<Measurement, String> {
        let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        let arguments = [
            "pattern".to_owned(),
            pattern.to_string(),
            format!("--millis={}", self.millis),
            format!("--cpus={}", cpus.join(",")),
        ];
        let measurement = runner::sample(&arguments, allocator.preload.as_deref())?;
        allocator.check(&measurement)?;
        Ok(measurement)
    }

    fn print(
        &self,
        recording: &Recording,
        patterns: &[Pattern],
        copy: String,
        out: &mut dyn Write,
    ) -> Result<()> {
        let groups = Family::ALL.iter().filter_map(|family| {
            let members = patterns.iter().filter(|pattern| pattern.family() == *family);
            let workloads: Vec<String> = members.map(ToString::to_string).collect();
            (!workloads.is_empty()).then(|| Group { name: family.name().to_owned(), workloads })
        });
        let comparison = Comparison { recording, groups: groups.collect(), copy };
        writeln!(out, "{}", recording.environment.summary())?;
        for variant in &recording.variants {
            writeln!(out, "* {}: {}", variant.name, variant.description)?;
        }
        writeln!(
            out,
            "{} rounds of {} ms, seed {}, fresh process per sample, order randomised per block.\n",
            self.rounds, self.millis, recording.seed
        )?;
        writeln!(out, "Medians:\n\n{}\n", comparison.medians())?;
        writeln!(
            out,
            "Time in relation to {} (above 1: slower than it), paired within blocks:\n\n{}",
            recording.baseline,
            comparison.ratios()
        )?;
        let failures = comparison.failures();
        if !failures.is_empty() {
            bail!("samples failed:\n{}", failures.join("\n"));
        }
        Ok(())
    }
}

fn variant_of(allocator: &Allocator) -> Variant {
    Variant { name: allocator.name.clone(), description: allocator.description.clone() }
}
