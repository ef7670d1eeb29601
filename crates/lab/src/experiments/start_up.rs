//! `start-up`: what an allocator adds to the start of small programs, in time and memory.

use crate::FindLibrary;
use crate::allocators::{self, Allocator, GLIBC};
use crate::comparison::{Comparison, Group};
use crate::recording::{Measurement, Variant};
use crate::runner::{Design, preload_into};
use crate::table;
use crate::watch::resident_of;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Programs that do next to nothing.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("true", &["true"]),
    ("bash -c :", &["bash", "-c", ":"]),
    ("python3", &["python3", "-c", "pass"]),
];

/// What an allocator adds to the start of small programs, in time and memory.
///
/// Each sample starts and waits for a program so many times, one after the other, with the
/// allocator preloaded; samples are interleaved in randomised blocks, and a copy of glibc runs
/// along. Preloading any object costs the loader some time too. The memory is that of `sleep`,
/// resident, once it sleeps; its map also proves that the allocator was loaded.
#[derive(Args)]
pub struct StartUp {
    /// Which allocators: glibc, jemalloc, tcmalloc, mimalloc, quarry, or NAME=FILE.
    #[arg(long, value_delimiter = ',', default_value = "glibc,jemalloc,tcmalloc,mimalloc,quarry")]
    allocators: Vec<String>,
    /// Starts of each program on each allocator, in all rounds together.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    execs: u32,
    /// Rounds after the warm-up round; below 6 there are no intervals.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Two rounds of two starts.
    #[arg(long, conflicts_with_all = ["rounds", "execs"])]
    quick: bool,
    /// Seed of the order of samples [default: from the clock].
    #[arg(long)]
    seed: Option<u64>,
    /// Write every raw sample to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl StartUp {
    /// Runs the experiment and prints its tables.
    pub(crate) fn run(mut self, find_library: FindLibrary<'_>, out: &mut dyn Write) -> Result<()> {
        if self.quick {
            (self.rounds, self.execs) = (2, 4);
        }
        let mut found = allocators::find(&self.allocators, find_library)?;
        for absent in &found.absent {
            writeln!(out, "absent: {absent}")?;
        }
        if !found.allocators.iter().any(|allocator| allocator.name == GLIBC) {
            found.allocators.insert(0, allocators::glibc());
        }
        let memory = memory_of_sleep(&found.allocators)?;
        let mut contenders = found.allocators;
        let copy = format!("{GLIBC} A/A");
        contenders.push(Allocator { name: copy.clone(), ..allocators::glibc() });
        let programs: Vec<_> =
            PROGRAMS.iter().filter(|(_, words)| place_of(words[0]).is_some()).collect();
        let each = (self.execs / self.rounds).max(1);
        let design = Design {
            experiment: "start-up".to_owned(),
            workloads: programs.iter().map(|(name, _)| (*name).to_owned()).collect(),
            variants: contenders.iter().map(variant).collect(),
            baseline: GLIBC.to_owned(),
            rounds: self.rounds,
            seed: self.seed,
        };
        let recording = design.conduct(|program, contender| {
            start_often(programs[program].1, &contenders[contender], each)
                .map_err(|error| format!("{error:#}"))
        });
        if let Some(path) = &self.json {
            recording.write(path)?;
        }
        let workloads = recording.samples.iter().map(|sample| sample.workload.clone());
        let mut workloads: Vec<String> = workloads.collect();
        workloads.sort_unstable();
        workloads.dedup();
        let groups = vec![Group { name: "programs".to_owned(), workloads }];
        let comparison = Comparison { recording: &recording, groups, copy };
        writeln!(out, "{}", recording.environment.summary())?;
        writeln!(
            out,
            "{} rounds of {each} starts, seed {}; one operation is a start.\n",
            self.rounds, recording.seed
        )?;
        writeln!(out, "Medians:\n\n{}\n", comparison.medians())?;
        writeln!(
            out,
            "Time in relation to {GLIBC} (above 1: slower than it), paired within blocks:\n\n{}\n",
            comparison.ratios()
        )?;
        writeln!(out, "{memory}")?;
        let failures = comparison.failures();
        if !failures.is_empty() {
            bail!("samples failed:\n{}", failures.join("\n"));
        }
        Ok(())
    }
}

fn variant(allocator: &Allocator) -> Variant {
    Variant { name: allocator.name.clone(), description: allocator.description.clone() }
}

/// The system's own program first: what the search path finds may be a script that starts others.
fn place_of(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(PathBuf::from("/usr/bin")).chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn command(words: &[&str], allocator: &Allocator) -> Command {
    let mut command = Command::new(place_of(words[0]).unwrap_or_else(|| words[0].into()));
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null());
    preload_into(&mut command, allocator.preload.as_deref());
    command
}

fn start_often(words: &[&str], allocator: &Allocator, times: u32) -> Result<Measurement> {
    let start = Instant::now();
    for _ in 0..times {
        let status = command(words, allocator).status()?;
        if !status.success() {
            bail!("{} ended with {status}", words[0]);
        }
    }
    let ns = start.elapsed().as_nanos() as u64;
    let served_by = allocator.preload.as_ref().map(|path| path.display().to_string());
    Ok(Measurement {
        operations: u64::from(times),
        time_ns: ns,
        wall_ns: ns,
        cpu_ns: 0,
        served_by: served_by.unwrap_or_else(|| "libc.so.6".to_owned()),
        counters: Default::default(),
    })
}

/// A table of what `sleep` has resident on each allocator.
fn memory_of_sleep(contenders: &[Allocator]) -> Result<String> {
    let mut rows = Vec::new();
    for allocator in contenders {
        let mut child = command(&["sleep", "60"], allocator).spawn().context("cannot run sleep")?;
        let resident = settled(&child);
        let maps = fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap_or_default();
        child.kill()?;
        child.wait()?;
        if let Some(file) = &allocator.preload
            && !maps.contains(file.to_string_lossy().as_ref())
        {
            bail!("{} was not loaded into sleep", file.display());
        }
        rows.push(vec![allocator.name.clone(), format!("{}", resident >> 10)]);
    }
    let header = ["allocator", "resident memory of sleep, KiB"];
    Ok(table::render(header.map(str::to_owned).to_vec(), rows))
}

/// Resident memory once it has not changed for half a second.
fn settled(child: &Child) -> u64 {
    let (mut last, mut same) = (0, 0);
    while same < 10 {
        thread::sleep(Duration::from_millis(50));
        let now = resident_of(child.id()).unwrap_or(0);
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    last
}
