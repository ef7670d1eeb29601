//! `peers`: everything that is to be reached against other allocators, in one run.
//!
//! ```text
//! part     the workloads, which are those of other experiments
//! target   what is to be reached: the table's rows, as data
//! reached  what a run has reached of a target, and whether that is enough
//! targets  the table
//! ```

mod part;
mod reached;
mod target;
pub(crate) mod targets;

use super::idle_return::{self, HELD};
use super::malloc_patterns::{self, PEAK, PatternSample};
use super::real_programs::{self, Cast};
use super::start_up;
use crate::patterns::Pattern;
use crate::patterns::growth::GrowthSample;
use crate::patterns::idle::Sizes;
use crate::real_programs::Stage;
use anyhow::{Result, bail};
use clap::Args;
use clap::builder::ArgPredicate;
use part::Part;
use quarry_compare::FindLibrary;
use quarry_compare::allocators::QUARRY;
use quarry_compare::contenders::{self, Contender};
use quarry_compare::{Interrupt, Launcher};
use quarry_harness::affinity;
use quarry_harness::comparison::{Comparison, Group};
use quarry_harness::options::{self, Common};
use quarry_harness::results::{Direction, Measurement, Metric, Run};
use quarry_harness::runner::{Design, INTERRUPTED, LEFT_OUT, Spot, Taken};
use std::io::Write;

/// Its name.
const EXPERIMENT: &str = "peers";
/// Names of metrics: of the time of an operation, of a program's CPU time, and of what is held
/// after a burst.
const TIME: &str = "time";
const CPU: &str = "CPU";
const HELD_AFTER: &str = "held after";
/// Starts of `true` in a sample.
const STARTS: u32 = 20;

/// All that Quarry is to reach against other allocators, in one run and one table.
///
/// The workloads are those of malloc-patterns, growth (to 1 GiB), real-programs, idle-return (512
/// MiB, all of them freed) and start-up, each with its proof that the work was done and who served
/// it. In every round each of them runs once on every allocator, in an order that is shuffled
/// anew, so that all parts see the machine at all times. The first table has a row for each
/// target: what is to be reached against whom, what was reached, and whether that is met, missed or
/// unclear; then come the tables that the parts have.
///
/// Time is per operation: of a pattern as malloc-patterns has it, of growth wall-clock time of 4
/// KiB, of a program its CPU time (of a server: for each request), of a small process the start of
/// `true`. Six samples are the fewest that have intervals, and with seven a single odd round does
/// no harm; with seven peers those take a quarter of an hour on two CPUs.
#[derive(Args)]
pub struct Peers {
    #[command(flatten)]
    common: Common<Defaults>,
    /// Only workloads whose names begin so, such as batch-lifo, growth, redis, burst or
    /// small-process.
    #[arg(long, value_delimiter = ',', value_name = "PREFIX")]
    only: Vec<String>,
    /// Length of a pattern's sample in milliseconds; a quarter of it goes before as warm-up.
    #[arg(long, default_value = "20",
          default_value_if("quick", ArgPredicate::Equals("true".into()), Some("8")),
          value_parser = clap::value_parser!(u64).range(1..))]
    millis: u64,
}

#[derive(Clone, Debug)]
struct Defaults;

impl options::Defaults for Defaults {
    const VARIANTS: &'static str =
        "glibc,jemalloc-new,tcmalloc,mimalloc2,mimalloc3,snmalloc,rpmalloc,quarry";
    const SAMPLES: &'static str = "7";
    const QUICK_SAMPLES: &'static str = "1";
}

/// What samples are taken with.
struct Stages<'a> {
    contenders: &'a [Contender],
    programs: &'a [Stage],
    launcher: &'a Launcher<'a>,
    cpus: Vec<usize>,
    millis: u64,
    /// How far a heap grows, and how large a burst is.
    growth_mib: u64,
    burst_mib: u64,
}

impl Peers {
    /// Runs the experiment and prints its tables.
    pub(crate) fn run(self, find_library: FindLibrary<'_>, out: &mut dyn Write) -> Result<()> {
        let wanted = options::named(Part::all(), &self.only, "workload --only", |it: &Part| {
            !self.common.quick || it.is_quick()
        })?;
        let mut contenders = contenders::find(&self.common.variants, find_library, out)?;
        let baseline = self.common.baseline(&contenders::names(&contenders), QUARRY)?.to_owned();
        contenders::add_copy(&mut contenders, &baseline);
        let interrupt = Interrupt::listen()?;
        let launcher = Launcher::new(&interrupt)?;
        let programs: Vec<_> = wanted.iter().filter_map(Part::program).collect();
        let Cast { stages, absent, broken } =
            Cast::of(&programs, self.common.quick, &launcher, &interrupt);
        for advice in &absent {
            writeln!(out, "absent: {advice}")?;
        }
        if interrupt.signal().is_some() {
            bail!("interrupted before the first round: there is nothing to print");
        }
        let is_staged = |part: &Part| match part.program() {
            Some(program) => stages.iter().any(|stage| stage.what.name == program.name),
            None => true,
        };
        let parts: Vec<Part> = wanted.into_iter().filter(is_staged).collect();
        if parts.is_empty() {
            bail!("none of the workloads can be run\n{}", broken.join("\n"));
        }
        let on = Stages {
            contenders: &contenders,
            programs: &stages,
            launcher: &launcher,
            cpus: affinity::choose(&affinity::allowed(), 4),
            millis: self.millis,
            growth_mib: if self.common.quick { 32 } else { 1024 },
            burst_mib: if self.common.quick { 64 } else { 512 },
        };
        let run = self.design(&baseline, &parts, &on)?.conduct(|spot| {
            let part = parts[spot.workload];
            if spot.round == 0 && !part.has_warm_up() {
                return Err(LEFT_OUT.to_owned());
            }
            let taken = on.take(part, spot);
            // A signal to the terminal's group ends samples as well.
            if interrupt.signal().is_some() { Err(INTERRUPTED.to_owned()) } else { taken }
        })?;
        self.print(&run, &parts, &stages, out)?;
        if interrupt.signal().is_some() {
            bail!("interrupted: {} of {} rounds", run.rounds(), run.meta.rounds);
        }
        if !broken.is_empty() {
            bail!("left out, because they fail before any comparison:\n{}", broken.join("\n"));
        }
        run.expect_no_failures()
    }

    fn design(&self, baseline: &str, parts: &[Part], on: &Stages<'_>) -> Result<Design> {
        let workloads = parts.iter().map(Part::workload).collect();
        let variants = contenders::variants(on.contenders);
        let design = self.common.design(EXPERIMENT, variants, baseline, workloads)?;
        let mut design = Design { metrics: metrics(), ..design }
            .option("millis", self.millis)
            .option("growth mib", on.growth_mib)
            .option("burst mib", on.burst_mib)
            .option("starts", STARTS);
        for Stage { what, .. } in on.programs {
            design = design.option(what.name, what.amount(self.common.quick));
        }
        Ok(design)
    }

    fn print(
        &self,
        run: &Run,
        parts: &[Part],
        stages: &[Stage],
        out: &mut dyn Write,
    ) -> Result<()> {
        let what = format!("{} ms of a pattern, the whole of everything else.", self.millis);
        writeln!(out, "{}", run.head(&what))?;
        if let Some(targets) = targets::of(run) {
            writeln!(out, "{}\n", targets.text())?;
        }
        let patterns: Vec<Pattern> = parts.iter().filter_map(Part::pattern).collect();
        let names = |has: fn(&Part) -> bool| -> Vec<String> {
            parts.iter().filter(|part| has(part)).map(ToString::to_string).collect()
        };
        let mut groups = malloc_patterns::groups(&patterns);
        let growing = names(|it| matches!(it, Part::Growth(_)));
        let small = names(|it| matches!(it, Part::SmallProcess));
        let more = [("growth", growing), ("start of a small process", small)];
        groups.extend(more.into_iter().filter_map(|(name, names)| group(name, names)));
        if !groups.is_empty() {
            writeln!(out, "{}", Comparison { run, groups }.tables())?;
        }
        if patterns.contains(&Pattern::Latency) {
            malloc_patterns::print_latency(run, out)?;
        }
        if let Some(group) = group("programs", names(|it| it.program().is_some())) {
            print_programs(run, group, stages, out)?;
        }
        if let Some(group) = group("burst", names(|it| matches!(it, Part::Burst))) {
            let held = Comparison { run, groups: vec![group] };
            let title = "Held above what lives, 2 s after all of a burst was freed:";
            writeln!(out, "\n{title}\n\n{}", held.medians_of(run.meta.metric(HELD_AFTER)?))?;
        }
        let small = names(|it| matches!(it, Part::SmallProcess));
        if let Some(group) = group("small", small) {
            let small = Comparison { run, groups: vec![group] };
            let title = "Resident memory of `sleep`:";
            writeln!(out, "\n{title}\n\n{}", small.medians_of(run.meta.metric(PEAK)?))?;
        }
        match names(Part::has_peak) {
            names if names.is_empty() => Ok(()),
            names => malloc_patterns::print_peaks(run, names, out),
        }
    }
}

fn group(name: &str, workloads: Vec<String>) -> Option<Group> {
    (!workloads.is_empty()).then(|| Group { name: name.to_owned(), workloads })
}

fn print_programs(run: &Run, group: Group, stages: &[Stage], out: &mut dyn Write) -> Result<()> {
    writeln!(out, "\nReal programs:\n\n{}\n", real_programs::overview(stages))?;
    let programs = Comparison { run, groups: vec![group] };
    let cpu = run.meta.metric(CPU)?;
    writeln!(out, "{}\n\n{}\n", programs.medians_of(cpu), programs.ratios_of(cpu))?;
    let faults = run.meta.metric("page faults")?;
    Ok(writeln!(out, "Page faults of them:\n\n{}", programs.medians_of(faults))?)
}

impl Stages<'_> {
    /// Takes a sample, with its figures under the names that all parts have in common.
    fn take(&self, part: Part, spot: Spot) -> Result<Taken, String> {
        let contender = &self.contenders[spot.variant];
        let in_full = |error: anyhow::Error| format!("{error:#}");
        match part {
            Part::Pattern(pattern) => {
                let arguments = PatternSample::arguments(pattern, 1, self.millis, &self.cpus);
                contender.sample(&arguments).map(Into::into)
            }
            Part::Growth(size) => {
                let arguments = GrowthSample::arguments(size, self.growth_mib);
                let taken = contender.sample(&arguments)?;
                let of = |name: &str| taken.counters.get(name).copied().unwrap_or(0);
                let (peak, faults) = (of("resident"), of("faults"));
                Ok(with_usage(taken, peak, faults).into())
            }
            Part::Program(program) => {
                let is_it = |stage: &&Stage| stage.what.name == program.name;
                let stage = self.programs.iter().find(is_it).ok_or("it has no stage")?;
                let Taken { measurement, timeline } = stage.take(contender, self.launcher)?;
                let of = |name: &str| measurement.counters.get(name).copied();
                let peak = of("peak_bytes").ok_or("its peak was not seen")?;
                let faults = of("page_faults").unwrap_or(0);
                let time_ns = measurement.cpu_ns;
                let measurement = with_usage(measurement, peak, faults);
                Ok(Taken { measurement: Measurement { time_ns, ..measurement }, timeline })
            }
            Part::Burst => {
                idle_return::take(contender, 0, Sizes::Count, self.burst_mib).map_err(in_full)
            }
            Part::SmallProcess => {
                let taken = start_up::small_process(&contender.allocator, STARTS);
                let taken = taken.map_err(in_full)?;
                let resident = taken.counters.get("resident_kib").copied().unwrap_or(0);
                Ok(taken.with(&[(PEAK_KIB, resident)]).into())
            }
        }
    }
}

/// The counters of peak memory and page faults, as patterns have them.
const PEAK_KIB: &str = "max_rss_kib";
const FAULTS: &str = "minor_faults";

fn with_usage(measurement: Measurement, peak_bytes: u64, faults: u64) -> Measurement {
    measurement.with(&[(PEAK_KIB, peak_bytes >> 10), (FAULTS, faults)])
}

fn metrics() -> Vec<Metric> {
    let cpu = Metric::new(CPU, "s of CPU", Direction::Lower, "cpu_ns").times(1e-9).digits(3);
    let held = Metric::new(HELD_AFTER, "MiB", Direction::Lower, HELD).digits(1);
    malloc_patterns::metrics().into_iter().chain([cpu, held]).collect()
}
