//! `start-up`: the time and memory that an allocator adds to the start of small programs.

use super::plan::*;
use quarry_compare::allocators::{self, Allocator, GLIBC};
use quarry_harness::launch::{end_of, place_of, preload_into};
use quarry_harness::proc;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// A program that does almost nothing.
pub(super) struct SmallProgram {
    name: &'static str,
    pub(super) words: &'static [&'static str],
}

/// The programs; `small_process` starts the first.
static PROGRAMS: [SmallProgram; 3] = [
    SmallProgram { name: "true", words: &["true"] },
    SmallProgram { name: "bash -c :", words: &["bash", "-c", ":"] },
    SmallProgram { name: "python3", words: &["python3", "-c", "pass"] },
];
/// The workload for the memory. A sample starts the program once, because the program sleeps.
const SLEEP: &str = "sleep";

/// The time and memory that an allocator adds to the start of small programs.
///
/// Each sample starts a program a number of times, one after the other, with the allocator
/// preloaded, and waits for its end. Samples are interleaved in randomised blocks, together with a
/// copy of glibc. Preloading any object costs the loader some time too. The memory is the resident
/// memory of `sleep` while it sleeps; its memory map also proves that the allocator was loaded.
#[derive(Args)]
pub(super) struct StartUp {
    #[command(flatten)]
    common: Common<StartUp>,
    /// Starts of each program on each allocator, in all samples together.
    #[arg(long, default_value = "1000", default_value_if("quick", "true", Some("4")),
          value_parser = clap::value_parser!(u32).range(1..))]
    execs: u32,
}

impl Defaults for StartUp {
    const VARIANTS: &'static str = "glibc,jemalloc,tcmalloc,mimalloc,quarry";
    const SAMPLES: &'static str = "20";
    const QUICK_SAMPLES: &'static str = "2";
}

impl Plan for StartUp {
    const NAME: &'static str = "start-up";

    fn stage(self, lab: &mut Lab<'_>) -> Result<Staged> {
        let mut found = lab.contenders(&self.common)?;
        if !found.iter().any(|contender| contender.name() == GLIBC) {
            found.insert(0, Contender::from(allocators::glibc()));
        }
        let (variants, contenders) = Variants::of_contenders(&self.common, found, GLIBC)?;
        let programs: Vec<_> =
            PROGRAMS.iter().filter(|it| place_of(it.words[0]).is_some()).collect();
        let each = (self.execs / self.common.samples).max(1);
        let starts = |name: &str| Workload::new(name, Verify::Exactly(each.into()));
        let mut workloads: Vec<Workload> = programs.iter().map(|it| starts(it.name)).collect();
        workloads.push(Workload::new(SLEEP, Verify::Exactly(1)));
        let names: Vec<String> = programs.iter().map(|it| it.name.to_owned()).collect();
        let sampler = move |key: SampleKey| {
            let allocator = &contenders[key.variant].allocator;
            let measurement = match programs.get(key.workload) {
                Some(program) => start_often(program, allocator, each)?,
                None => memory_of_sleep(allocator)?,
            };
            Ok(measurement.into())
        };
        let mut plan =
            experiment(&self.common, variants, workloads, sampler)?.option("starts", each);
        let time = lower("time", "us per start", "start_ns").per("operations").times(1e-3);
        let memory = lower("resident", "resident, KiB", "resident_kib");
        plan.meta.metrics = vec![time.primary(), memory.digits(0)];
        plan.about = format!("{}, one after the other.", counted(each, "start"));
        Ok(Staged::new(plan, move |run, out| {
            writeln!(out, "{}\n", Matrix::new(run, group("programs", names)).tables())?;
            let sleep = Matrix::new(run, group(SLEEP, vec![SLEEP.to_owned()]));
            Ok(writeln!(out, "{}", sleep.medians(run.meta.metric("resident")?))?)
        }))
    }
}

fn command(words: &[&str], allocator: &Allocator) -> Command {
    let mut command = Command::new(place_of(words[0]).unwrap_or_else(|| words[0].into()));
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null());
    preload_into(&mut command, allocator.preload.as_deref());
    command
}

/// The small programs except `true`: a shell and an interpreter.
pub(super) fn others_than_true() -> &'static [SmallProgram] {
    &PROGRAMS[1..]
}

/// Starts a program `times` times, one after the other.
pub(super) fn start_often(
    program: &SmallProgram,
    allocator: &Allocator,
    times: u32,
) -> Result<Measurement> {
    let words = program.words;
    let start = Instant::now();
    for _ in 0..times {
        let status = command(words, allocator).status()?;
        let output = Output { status, stdout: Vec::new(), stderr: Vec::new() };
        ensure!(status.success(), "{}: {}", words[0], end_of(&output));
    }
    let ns = start.elapsed().as_nanos() as u64;
    let measurement = Measurement::of_window(times.into(), ns, ns, 0, &place(allocator));
    Ok(Measurement { verified: times.into(), ..measurement.with(&[("start_ns", ns)]) })
}

/// Measures `times` starts of `true`, and the resident memory of `sleep`, which is the
/// measurement's counter `resident_kib`.
pub(crate) fn small_process(allocator: &Allocator, times: u32) -> Result<Measurement> {
    let mut measurement = start_often(&PROGRAMS[0], allocator, times)?;
    measurement.counters.extend(memory_of_sleep(allocator)?.counters);
    Ok(measurement)
}

fn place(allocator: &Allocator) -> String {
    let preload = allocator.preload.as_ref().map(|path| path.display().to_string());
    preload.unwrap_or_else(|| "libc.so.6".to_owned())
}

fn memory_of_sleep(allocator: &Allocator) -> Result<Measurement> {
    let start = Instant::now();
    let mut child = command(&[SLEEP, "60"], allocator).spawn().context("cannot run sleep")?;
    let resident = settled(&child);
    let maps = fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap_or_default();
    child.kill()?;
    child.wait()?;
    if let Some(file) = &allocator.preload {
        let is_loaded = maps.contains(file.to_string_lossy().as_ref());
        ensure!(is_loaded, "{} was not loaded into sleep", file.display());
    }
    let ns = start.elapsed().as_nanos() as u64;
    let measurement = Measurement::of_window(1, ns, ns, 0, &place(allocator));
    Ok(Measurement { verified: 1, ..measurement.with(&[("resident_kib", resident >> 10)]) })
}

/// Waits until resident memory has not changed for half a second, and returns it.
fn settled(child: &Child) -> u64 {
    let (mut last, mut same) = (0, 0);
    while same < 10 {
        thread::sleep(Duration::from_millis(50));
        let now = proc::resident(child.id()).unwrap_or(0);
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    last
}
