//! `idle-return`: what a program that has freed everything still holds while it is idle.

use crate::FindLibrary;
use crate::allocators::{self, Allocator};
use crate::blocks;
use crate::environment::Environment;
use crate::patterns::idle::{BASE, Sizes};
use crate::picture::{Line, Picture};
use crate::recording::Variant;
use crate::statistics;
use crate::table;
use crate::watch::{Watched, watch};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

const MIB: f64 = (1 << 20) as f64;
/// How often memory is read.
const INTERVAL: Duration = Duration::from_millis(50);
/// How long the process is idle.
const IDLE: Duration = Duration::from_millis(2500);
/// When the verdict is passed, after the last free.
const VERDICT_MS: f64 = 2000.0;

/// What a program that has freed everything still holds while it is idle.
///
/// Every sample is a fresh process with the allocator preloaded: it allocates objects of 16 bytes
/// to 1 MiB until there are 512 MiB, writes all of them, frees them in random order (all, or all
/// but one in 64) and then calls nothing any more. Its parent reads every 50 ms what is resident
/// and what the control group of the sample is charged for (where none may be made, how much less
/// memory of the machine is free, which other programs move as well). The verdict is taken 2 s
/// after the last free: the median over the rounds of what is held above the bytes that live.
#[derive(Args)]
pub struct IdleReturn {
    /// Which allocators: glibc, jemalloc, tcmalloc, mimalloc, quarry, or NAME=FILE. Variants with
    /// other settings come along: quarry without huge pages, jemalloc with a background thread.
    #[arg(long, value_delimiter = ',', default_value = "glibc,jemalloc,tcmalloc,mimalloc,quarry")]
    allocators: Vec<String>,
    /// One object in this many survives; 0: none. Several may be asked for.
    #[arg(long, value_delimiter = ',', default_value = "0,64")]
    survivors: Vec<usize>,
    /// Whether each power of two has as many objects, or as many bytes.
    #[arg(long, value_enum, default_value = "count")]
    sizes: Sizes,
    /// How much is allocated, in MiB.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..))]
    mib: u64,
    /// Samples of each.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// One round with 64 MiB.
    #[arg(long, conflicts_with_all = ["rounds", "mib"])]
    quick: bool,
    /// Seed of the order of samples [default: from the clock].
    #[arg(long)]
    seed: Option<u64>,
    /// Write every reading to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write pictures of resident memory over time into a folder: memory-idle.svg, and
    /// memory-idle-64.svg where one object in 64 survives.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

/// An allocator with its settings.
struct Contender {
    name: String,
    allocator: Allocator,
    settings: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Run {
    variant: String,
    survivors: usize,
    round: u32,
    watched: Option<Watched>,
    failure: Option<String>,
}

#[derive(Serialize)]
struct IdleRecording<'a> {
    schema: &'static str,
    experiment: &'static str,
    seed: u64,
    environment: &'a Environment,
    variants: Vec<Variant>,
    runs: &'a [Run],
}

/// What was held at the verdict, in MiB above what lives.
struct Held {
    resident: f64,
    charged: f64,
    live: f64,
}

impl IdleReturn {
    /// Runs the experiment and prints its table and verdicts.
    pub(crate) fn run(mut self, find_library: FindLibrary<'_>, out: &mut dyn Write) -> Result<()> {
        if self.quick {
            (self.rounds, self.mib) = (1, 64);
        }
        let found = allocators::find(&self.allocators, find_library)?;
        for absent in &found.absent {
            writeln!(out, "absent: {absent}")?;
        }
        let contenders = contenders(found.allocators);
        if contenders.is_empty() {
            bail!("none of the allocators is there");
        }
        let environment = Environment::capture();
        let seed = self.seed.unwrap_or_else(blocks::seed_from_clock);
        let runs = self.take_all(&contenders, seed);
        if let Some(path) = &self.json {
            let recording = IdleRecording {
                schema: "quarry-lab/idle/1",
                experiment: "idle-return",
                seed,
                environment: &environment,
                variants: contenders.iter().map(Contender::variant).collect(),
                runs: &runs,
            };
            fs::write(path, serde_json::to_string(&recording)?)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        writeln!(out, "{}", environment.summary())?;
        for contender in &contenders {
            writeln!(out, "* {}: {}", contender.name, contender.variant().description)?;
        }
        writeln!(out, "{} rounds, seed {seed}, order randomised.", self.rounds)?;
        for &survivors in &self.survivors {
            self.print(survivors, &contenders, &runs, out)?;
        }
        let failures: Vec<String> = runs
            .iter()
            .filter_map(|run| Some(format!("{}: {}", run.variant, run.failure.as_ref()?)))
            .collect();
        if !failures.is_empty() {
            bail!("samples failed:\n{}", failures.join("\n"));
        }
        Ok(())
    }

    fn take_all(&self, contenders: &[Contender], seed: u64) -> Vec<Run> {
        let plan = blocks::plan(self.rounds - 1, self.survivors.len(), contenders.len(), seed);
        let take = |step: &blocks::Step| {
            let (survivors, contender) = (self.survivors[step.workload], &contenders[step.variant]);
            let watched = self.take(survivors, contender);
            Run {
                variant: contender.name.clone(),
                survivors,
                round: step.round,
                failure: watched.as_ref().err().map(|error| format!("{error:#}")),
                watched: watched.ok(),
            }
        };
        plan.iter().map(take).collect()
    }

    fn take(&self, survivors: usize, contender: &Contender) -> Result<Watched> {
        let sizes = self.sizes.to_possible_value().context("every value has a name")?;
        let arguments = [
            "idle".to_owned(),
            format!("--survivors={survivors}"),
            format!("--sizes={}", sizes.get_name()),
            format!("--mib={}", self.mib),
        ];
        let preload = contender.allocator.preload.as_deref();
        let watched = watch(&arguments, preload, &contender.settings, INTERVAL, ("idle", IDLE))?;
        contender.allocator.check(&watched.measurement).map_err(anyhow::Error::msg)?;
        Ok(watched)
    }

    fn print(
        &self,
        survivors: usize,
        contenders: &[Contender],
        runs: &[Run],
        out: &mut dyn Write,
    ) -> Result<()> {
        let fate = match survivors {
            0 => "all freed".to_owned(),
            one_in => format!("one object in {one_in} survives"),
        };
        let title = format!("{} MiB of objects of 16 bytes to 1 MiB, {fate}", self.mib);
        writeln!(out, "\n{title}; MiB held 2 s after the last free, medians:\n")?;
        let header =
            ["allocator", "live", "resident above live", "counted by the system above live"];
        let mut rows = Vec::new();
        for contender in contenders {
            let held: Vec<Held> = of(runs, survivors, contender).filter_map(held).collect();
            let median = |value: fn(&Held) -> f64| {
                let values: Vec<f64> = held.iter().map(value).collect();
                statistics::median(&values).map_or("failed".to_owned(), |mib| format!("{mib:.1}"))
            };
            rows.push(vec![
                contender.name.clone(),
                median(|held| held.live),
                median(|held| held.resident),
                median(|held| held.charged),
            ]);
        }
        writeln!(out, "{}", table::render(header.map(str::to_owned).to_vec(), rows))?;
        let in_group = runs.iter().filter_map(|run| run.watched.as_ref()).all(|it| it.in_group);
        let counter = if in_group { "the control group of each sample" } else { "MemFree" };
        writeln!(out, "Counted by the system: {counter}.")?;
        if let Some(folder) = &self.svg {
            let name = match survivors {
                0 => "memory-idle.svg".to_owned(),
                one_in => format!("memory-idle-{one_in}.svg"),
            };
            let picture = picture(title, survivors, contenders, runs);
            let path = folder.join(name);
            fs::write(&path, picture.svg()?)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// The allocators, and variants of theirs that answer questions of their own.
fn contenders(allocators: Vec<Allocator>) -> Vec<Contender> {
    let mut all = Vec::new();
    for allocator in allocators {
        let with = |name: &str, key: &str, value: &str| Contender {
            name: format!("{} {name}", allocator.name),
            allocator: allocator.clone(),
            settings: vec![(key.to_owned(), value.to_owned())],
        };
        let variant = match allocator.name.as_str() {
            // What its users are told to set.
            "jemalloc" => Some(with(
                "tuned",
                "MALLOC_CONF",
                "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0",
            )),
            allocators::QUARRY => Some(with("THP=0", "QUARRY_THP", "0")),
            _ => None,
        };
        let name = allocator.name.clone();
        all.extend(variant);
        all.push(Contender { name, allocator, settings: Vec::new() });
    }
    all
}

impl Contender {
    fn variant(&self) -> Variant {
        let settings: Vec<String> =
            self.settings.iter().map(|(key, value)| format!(", {key}={value}")).collect();
        let description = format!("{}{}", self.allocator.description, settings.concat());
        Variant { name: self.name.clone(), description }
    }
}

fn of<'a>(
    runs: &'a [Run],
    survivors: usize,
    contender: &'a Contender,
) -> impl Iterator<Item = &'a Watched> {
    runs.iter()
        .filter(move |run| run.survivors == survivors && run.variant == contender.name)
        .filter_map(|run| run.watched.as_ref())
}

/// What a sample held at the verdict. The table of objects is not the allocator's, nor is what the
/// process had before.
fn held(watched: &Watched) -> Option<Held> {
    let (base, _) = watched.phase("base")?;
    let (idle, numbers) = watched.phase("idle")?;
    let [live, table] = numbers[..] else { return None };
    let before = watched.at(base + BASE.as_secs_f64() * 1e3)?;
    let after = watched.at(idle + VERDICT_MS)?;
    let above = |bytes: i64| (bytes - (live + table) as i64) as f64 / MIB;
    Some(Held {
        resident: above(after.resident as i64 - before.resident as i64),
        charged: above(after.charged - before.charged),
        live: live as f64 / MIB,
    })
}

/// Resident memory over time, the first sample of each.
fn picture(title: String, survivors: usize, contenders: &[Contender], runs: &[Run]) -> Picture {
    let lines = contenders.iter().filter_map(|contender| {
        let watched = of(runs, survivors, contender).next()?;
        let (idle, numbers) = watched.phase("idle")?;
        let table = numbers.get(1).copied().unwrap_or(0) as f64;
        let point = |reading: &crate::watch::Reading| {
            ((reading.ms - idle) / 1e3, (reading.resident as f64 - table).max(0.0) / MIB)
        };
        let points = watched.readings.iter().map(point).filter(|(second, _)| *second >= -0.5);
        Some(Line { name: contender.name.clone(), points: points.collect() })
    });
    Picture { title, x: "seconds since the last free", y: "resident, MiB", lines: lines.collect() }
}
