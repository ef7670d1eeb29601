//! `peers`: all targets of Quarry compared with other allocators, in one run.
//!
//! ```text
//! part     the workloads, which are those of other experiments
//! targets  the bounds that Quarry should reach
//! ```

mod part;
mod targets;

use super::cast::Cast;
use super::idle_return::{self, HELD};
use super::malloc_patterns::{self, PEAK, PatternSample};
use super::plan::*;
use super::{real_programs, start_up};
use crate::patterns::Pattern;
use crate::patterns::growth::GrowthSample;
use crate::patterns::idle::{IdleSample, Sizes};
use crate::ready_program::ReadyProgram;
use part::{CPU, HELD_AFTER, Part, STARTS};
use quarry_compare::allocators::{Allocator, GLIBC};
use quarry_compare::{Interrupt, Launcher};
use std::rc::Rc;

/// All targets of Quarry compared with other allocators, in one run and one table.
///
/// The workloads are those of malloc-patterns, growth (to 1 GiB), real-programs, idle-return (512
/// MiB, all of them freed) and start-up. Each checks that its work was done and which allocator
/// served it. In every round each workload runs once on every allocator, in an order that is
/// shuffled anew, so that changes of the machine over time affect all parts alike. The first table
/// has a row for each target: its bound and the peer, the figure reached, and whether the target is
/// met, missed or unclear. The tables of the parts follow.
///
/// Time is per operation. For a pattern it is the time of malloc-patterns; for growth the
/// wall-clock time of 4 KiB; for a program its CPU time (for a server: per request); for a small
/// process the time to start `true`; for `start-` the time to start a shell or an interpreter. Six
/// samples are the fewest that have intervals; with seven one disturbed round does no harm. With
/// eight peers, seven samples take a quarter of an hour on two CPUs. If a peer crashes, its value
/// is missing and a line names the crash; a crash of glibc or Quarry fails the run.
#[derive(Args)]
pub(crate) struct Peers {
    #[command(flatten)]
    common: Common<Peers>,
    /// Only workloads whose names begin with one of these, such as batch-lifo, growth, redis, burst
    /// or small-process.
    #[arg(long, value_delimiter = ',', value_name = "PREFIX")]
    only: Vec<String>,
    /// Length of a pattern's sample in milliseconds; a warm-up of a quarter of it precedes.
    #[arg(long, default_value = "20", default_value_if("quick", "true", Some("8")),
          value_parser = clap::value_parser!(u64).range(1..))]
    millis: u64,
}

impl Defaults for Peers {
    const VARIANTS: &'static str =
        "glibc,jemalloc-new,tcmalloc,google-tcmalloc,mimalloc2,mimalloc3,snmalloc,rpmalloc,quarry";
    const SAMPLES: &'static str = "7";
    const QUICK_SAMPLES: &'static str = "1";
}

struct Parts {
    parts: Vec<Part>,
    contenders: Vec<Contender>,
    programs: Rc<Vec<ReadyProgram>>,
    launcher: Launcher,
    interrupt: Rc<Interrupt>,
    cpus: Vec<usize>,
    millis: u64,
    growth_mib: u64,
    burst_mib: u64,
}

impl Plan for Peers {
    const NAME: &'static str = "peers";

    fn stage(self, lab: &mut Lab<'_>) -> Result<Staged> {
        let quick = self.common.quick;
        let is_usual = |it: &Part| !quick || it.is_quick();
        let wanted = options::named(Part::all(), &self.only, "workload --only", is_usual)?;
        let (variants, contenders) = lab.contenders_with_copy(&self.common, QUARRY)?;
        let programs: Vec<_> = wanted.iter().filter_map(Part::program).collect();
        let mut cast = Cast::new()?;
        cast.add_real(&programs, quick);
        cast.announce(lab, wanted.len() - programs.len())?;
        let Cast { ready, broken, launcher, interrupt, .. } = cast;
        let has = |name: &str| ready.iter().any(|it| it.label.name == name);
        let is_ready = |part: &Part| part.program().is_none_or(|it| has(it.name));
        let parts: Vec<Part> = wanted.into_iter().filter(is_ready).collect();
        let programs = Rc::new(ready);
        let is_peer = |it: &&Contender| {
            let Allocator { name, description, .. } = &it.allocator;
            ![GLIBC, QUARRY].contains(&name.as_str()) && !description.starts_with("libquarry")
        };
        let peers = contenders.iter().filter(is_peer).map(|it| it.name().to_owned()).collect();
        let sampler = Parts {
            parts: parts.clone(),
            contenders,
            programs: Rc::clone(&programs),
            launcher,
            interrupt: Rc::clone(&interrupt),
            cpus: affinity::choose(&affinity::allowed(), 4),
            millis: self.millis,
            growth_mib: if quick { 32 } else { 1024 },
            burst_mib: if quick { 64 } else { 512 },
        };
        let plan = self.plan(variants, sampler)?;
        let mut staged = Staged::new(plan, move |run, out| print(run, &parts, &programs, out));
        staged.peers = peers;
        Ok(staged.of_programs(interrupt, broken))
    }
}

impl Peers {
    fn plan(&self, variants: Variants, sampler: Parts) -> Result<Experiment> {
        let (growth_mib, burst_mib) = (sampler.growth_mib, sampler.burst_mib);
        let programs: Vec<_> = sampler.parts.iter().filter_map(Part::program).collect();
        let workloads = sampler.parts.iter().map(Part::workload).collect();
        let mut plan = experiment(&self.common, variants, workloads, sampler)?;
        plan.about = format!("{} ms of a pattern, the whole of everything else.", self.millis);
        plan.meta.metrics = metrics();
        plan.meta.targets = targets::all();
        let mut plan = plan
            .option("millis", self.millis)
            .option("growth mib", growth_mib)
            .option("burst mib", burst_mib)
            .option("starts", STARTS);
        for what in programs {
            plan = plan.option(what.name, what.amount(self.common.quick));
        }
        Ok(plan)
    }
}

fn metrics() -> Vec<Metric> {
    let cpu = lower(CPU, "s of CPU", "cpu_ns").times(1e-9).digits(3);
    let held = lower(HELD_AFTER, "MiB", HELD).digits(1);
    malloc_patterns::metrics().into_iter().chain([cpu, held]).collect()
}

fn print(run: &Run, parts: &[Part], programs: &[ReadyProgram], out: &mut dyn Write) -> Result<()> {
    if let Some((table, legend)) = targets_of(run) {
        writeln!(out, "{}\n\n{legend}\n", table.text())?;
    }
    let patterns: Vec<Pattern> = parts.iter().filter_map(Part::pattern).collect();
    let names = |has: fn(&Part) -> bool| -> Vec<String> {
        parts.iter().filter(|part| has(part)).map(ToString::to_string).collect()
    };
    let mut groups = malloc_patterns::groups(&patterns);
    groups.extend(group("growth", names(|it| matches!(it, Part::Growth(_)))));
    let small = names(|it| matches!(it, Part::SmallProcess));
    let started = names(|it| matches!(it, Part::SmallProcess | Part::Start(_)));
    groups.extend(group("start of a small process", started));
    if !groups.is_empty() {
        writeln!(out, "{}", Matrix::new(run, groups).tables())?;
    }
    if patterns.contains(&Pattern::Latency) {
        malloc_patterns::print_latency(run, out)?;
    }
    let of_programs = names(|it| it.program().is_some());
    if !of_programs.is_empty() {
        print_programs(run, of_programs, programs, out)?;
    }
    let bursts = names(|it| matches!(it, Part::Burst));
    let title = "Held above what lives, 2 s after all of a burst was freed:";
    print_medians(run, title, bursts, HELD_AFTER, out)?;
    print_medians(run, "Resident memory of `sleep`:", small, PEAK, out)?;
    match names(Part::is_of_everything) {
        names if names.is_empty() => Ok(()),
        names => malloc_patterns::print_peaks(run, names, out),
    }
}

fn print_medians(
    run: &Run,
    title: &str,
    workloads: Vec<String>,
    metric: &str,
    out: &mut dyn Write,
) -> Result<()> {
    if workloads.is_empty() {
        return Ok(());
    }
    let matrix = Matrix::new(run, group(title, workloads));
    Ok(writeln!(out, "\n{title}\n\n{}", matrix.medians(run.meta.metric(metric)?))?)
}

fn print_programs(
    run: &Run,
    workloads: Vec<String>,
    programs: &[ReadyProgram],
    out: &mut dyn Write,
) -> Result<()> {
    writeln!(out, "\nReal programs:\n\n{}\n", real_programs::overview(programs.iter()))?;
    let programs = Matrix::new(run, group("programs", workloads));
    let cpu = run.meta.metric(CPU)?;
    writeln!(out, "{}\n\n{}\n", programs.medians(cpu), programs.ratios(cpu))?;
    let faults = run.meta.metric(malloc_patterns::FAULTS)?;
    writeln!(out, "Page faults of them:\n\n{}\n", programs.medians(faults))?;
    let huge = run.meta.metric(malloc_patterns::HUGE)?;
    writeln!(out, "Of their memory, huge pages:\n\n{}\n", programs.medians(huge))?;
    let peak = run.meta.metric(PEAK)?;
    Ok(writeln!(out, "Peak memory of them:\n\n{}", programs.medians(peak))?)
}

impl Sampler for Parts {
    fn sample(&self, key: SampleKey) -> Result<Taken, NoSample> {
        let part = self.parts[key.workload];
        if key.round == 0 && !part.has_warm_up() {
            return Err(NoSample::LeftOut);
        }
        let taken = self.take(part, &self.contenders[key.variant]);
        // A signal to the terminal's process group ends the sample processes too.
        if self.interrupt.signal().is_some() { Err(NoSample::Interrupted) } else { taken }
    }
}

impl Parts {
    /// Takes a sample, with its figures under the names that all parts share.
    fn take(&self, part: Part, contender: &Contender) -> Result<Taken, NoSample> {
        let count = |of: &Measurement, name: &str| of.counters.get(name).copied();
        let allocator = &contender.allocator;
        match part {
            Part::Pattern(pattern) => {
                let (millis, cpus) = (self.millis, self.cpus.clone());
                let sample = PatternSample { pattern, millis, tasks: 1, cpus };
                Ok(contender.sample(&sample.order())?.into())
            }
            Part::Growth(size) => {
                let sample = GrowthSample { size, mib: self.growth_mib, burst: 1, rest: 0 };
                let taken = contender.sample(&sample.order())?;
                let of = |name: &str| count(&taken, name).unwrap_or(0);
                let (peak, faults, huge) = (of("resident"), of("faults"), of("huge"));
                Ok(with_usage(taken, peak, faults, huge).into())
            }
            Part::Program(program) => {
                let is_it = |it: &&ReadyProgram| it.label.name == program.name;
                let ready = self.programs.iter().find(is_it).ok_or("it is not ready")?;
                let Taken { measurement, timeline } = ready.take(contender, &self.launcher)?;
                let peak = count(&measurement, "peak_bytes").ok_or("its peak was not seen")?;
                let faults = count(&measurement, "page_faults").unwrap_or(0);
                let huge = count(&measurement, "huge_bytes").unwrap_or(0);
                let time_ns = measurement.cpu_ns;
                let measurement = with_usage(measurement, peak, faults, huge);
                Ok(Taken { measurement: Measurement { time_ns, ..measurement }, timeline })
            }
            Part::Burst => {
                let mib = self.burst_mib;
                let sample = IdleSample { survivors: 0, sizes: Sizes::Count, mib };
                Ok(idle_return::take(contender, &sample, idle_return::VERDICT)?)
            }
            Part::SmallProcess => {
                let taken = start_up::small_process(allocator, STARTS)?;
                let resident = count(&taken, "resident_kib").unwrap_or(0);
                Ok(taken.with(&[(PEAK_KIB, resident)]).into())
            }
            Part::Start(program) => Ok(start_up::start_often(program, allocator, STARTS)?.into()),
        }
    }
}

/// The names of the counters of peak memory and page faults in patterns.
const PEAK_KIB: &str = "max_rss_kib";
const FAULTS: &str = "minor_faults";

fn with_usage(of: Measurement, peak_bytes: u64, faults: u64, huge_bytes: u64) -> Measurement {
    let huge_kib = (malloc_patterns::HUGE_KIB, huge_bytes >> 10);
    of.with(&[(PEAK_KIB, peak_bytes >> 10), (FAULTS, faults), huge_kib])
}
