//! `real-programs`: programs that everybody knows, each with a fixed amount of work.

use crate::real_programs::{ALL, RealProgram, Stage};
use anyhow::{Result, bail};
use clap::Args;
use quarry_compare::FindLibrary;
use quarry_compare::allocators::QUARRY;
use quarry_compare::contenders;
use quarry_compare::{Interrupt, Launcher};
use quarry_harness::comparison::{Comparison, Group};
use quarry_harness::nearest;
use quarry_harness::options::{self, Common};
use quarry_harness::results::{Direction, Metric, Run, Verify, Workload};
use quarry_harness::runner::Design;
use quarry_harness::table;
use std::io::Write;

/// Eight real programs, each with a fixed amount of work, on several allocators.
///
/// redis, memcached and nginx are servers: the allocator is preloaded into the server alone, and
/// clients inside this command talk to it over a unix socket, eight connections that are made anew
/// four times. CPython, gcc, sqlite, lua and z3 run a script or file to its end. Every reply is
/// compared with the one that it must be, and what is printed with a run on glibc and with what is
/// known to be right: a sample with a wrong result has failed, and is never averaged. Programs that
/// are absent are named with Debian's package.
///
/// Time is the CPU time of all processes of a program, which others that run beside it lengthen
/// least; peak RSS and page faults stand beside it, wall-clock time or, for servers, requests per
/// second, and what they hold when their clients have left. Every sample is a fresh process and
/// proves who served it; allocators are interleaved in randomised complete blocks, and a second
/// copy of the baseline (A/A) shows the noise.
#[derive(Args)]
pub struct RealPrograms {
    #[command(flatten)]
    common: Common<Defaults>,
    /// Only these programs.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    only: Vec<String>,
}

#[derive(Clone, Debug)]
struct Defaults;

impl options::Defaults for Defaults {
    const VARIANTS: &'static str = "glibc,jemalloc,tcmalloc,mimalloc,quarry";
    const SAMPLES: &'static str = "10";
    const QUICK_SAMPLES: &'static str = "1";
}

/// Programs that can be run, and why others cannot.
#[derive(Default)]
pub(crate) struct Cast {
    /// Ready to be run.
    pub(crate) stages: Vec<Stage>,
    /// Not installed: the package that has each.
    pub(crate) absent: Vec<String>,
    /// Those that fail before any comparison.
    pub(crate) broken: Vec<String>,
}

impl RealPrograms {
    /// Runs the experiment and prints its tables.
    pub(crate) fn run(self, find_library: FindLibrary<'_>, out: &mut dyn Write) -> Result<()> {
        let wanted = self.wanted()?;
        let mut contenders = contenders::find(&self.common.variants, find_library, out)?;
        let baseline = self.common.baseline(&contenders::names(&contenders), QUARRY)?.to_owned();
        self.common.check_early()?;
        contenders::add_copy(&mut contenders, &baseline);
        let interrupt = Interrupt::listen()?;
        let launcher = Launcher::new(&interrupt)?;
        let Cast { stages, absent, broken } =
            Cast::of(&wanted, self.common.quick, &launcher, &interrupt);
        for advice in &absent {
            writeln!(out, "absent: {advice}")?;
        }
        if interrupt.signal().is_some() {
            bail!("interrupted before the first round: there is nothing to print");
        }
        if stages.is_empty() {
            bail!("none of the programs can be run\n{}", broken.join("\n"));
        }
        let workload = |it: &Stage| Workload::new(it.what.name, Verify::PerOperation(1));
        let workloads = stages.iter().map(workload).collect();
        let variants = contenders::variants(&contenders);
        let design = self.common.design("real-programs", variants, &baseline, workloads)?;
        let mut design = Design { metrics: metrics(), ..design };
        for Stage { what, .. } in &stages {
            design = design.option(what.name, what.amount(self.common.quick));
        }
        let run = design
            .conduct(|spot| stages[spot.workload].take(&contenders[spot.variant], &launcher))?;
        print(&run, &stages, out)?;
        if interrupt.signal().is_some() {
            bail!("interrupted: {} of {} rounds", run.rounds(), run.meta.rounds);
        }
        if !broken.is_empty() {
            bail!("left out, because they fail before any comparison:\n{}", broken.join("\n"));
        }
        run.expect_no_failures()
    }

    fn wanted(&self) -> Result<Vec<&'static RealProgram>> {
        let names: Vec<&str> = ALL.iter().map(|program| program.name).collect();
        for name in &self.only {
            if !names.contains(&name.as_str()) {
                return Err(nearest::unknown("program --only", name, &names));
            }
        }
        let is_wanted =
            |it: &&RealProgram| self.only.is_empty() || self.only.iter().any(|n| n == it.name);
        Ok(ALL.iter().filter(is_wanted).collect())
    }
}

impl Cast {
    /// Sets the stage for each of `wanted`, for as long as nobody interrupts.
    pub(crate) fn of(
        wanted: &[&'static RealProgram],
        quick: bool,
        launcher: &Launcher<'_>,
        interrupt: &Interrupt,
    ) -> Self {
        let mut cast = Self::default();
        for what in wanted {
            let file = match what.place() {
                Ok(file) => file,
                Err(advice) => {
                    cast.absent.push(advice);
                    continue;
                }
            };
            match Stage::set(what, file, quick, launcher) {
                _ if interrupt.signal().is_some() => break,
                Ok(stage) => cast.stages.push(stage),
                Err(reason) => cast.broken.push(format!("{reason:#}")),
            }
        }
        cast
    }
}

fn metrics() -> Vec<Metric> {
    let mib = 1.0 / f64::from(1 << 20);
    let lower = |name: &str, unit: &str, of: &str, times: f64| {
        Metric::new(name, unit, Direction::Lower, of).times(times)
    };
    vec![
        lower("time", "s of CPU", "cpu_ns", 1e-9).digits(3).primary(),
        lower("peak RSS", "MiB", "peak_bytes", mib).digits(1),
        lower("page faults", "count", "page_faults", 1.0).digits(0),
        lower("wall", "s", "wall_ns", 1e-9).digits(3),
        Metric::new("requests", "per second", Direction::Higher, "requests")
            .per("client_ns")
            .times(1e9)
            .digits(0),
        lower("RSS after", "MiB", "final_bytes", mib).digits(1),
    ]
}

/// Metrics that say something of servers alone, and the one that says nothing of them: they run for
/// as long as their clients take.
const OF_SERVERS: [&str; 2] = ["requests", "RSS after"];
const NOT_OF_SERVERS: &str = "wall";

fn print(run: &Run, stages: &[Stage], out: &mut dyn Write) -> Result<()> {
    let what = "a program from its start to its end.";
    writeln!(out, "{}\n{}\n", run.head(what), overview(stages))?;
    let comparison = |is_member: &dyn Fn(&RealProgram) -> bool| {
        let members = stages.iter().filter(|stage| is_member(stage.what));
        let workloads = members.map(|stage| stage.what.name.to_owned()).collect();
        Comparison { run, groups: vec![Group { name: "programs".to_owned(), workloads }] }
    };
    let all = comparison(&|_| true);
    writeln!(out, "{}\n", all.tables())?;
    for metric in run.meta.metrics.iter().filter(|metric| !metric.primary) {
        let Metric { name, unit, .. } = metric;
        let some = comparison(&|program| match name.as_str() {
            NOT_OF_SERVERS => !program.is_server(),
            name => program.is_server() || !OF_SERVERS.contains(&name),
        });
        if some.groups[0].workloads.is_empty() {
            continue;
        }
        writeln!(out, "Medians of {name}, {unit}:\n\n{}\n", some.medians_of(metric))?;
        if name == "peak RSS" {
            writeln!(out, "{name}, paired within blocks:\n\n{}\n", some.ratios_of(metric))?;
        }
    }
    Ok(())
}

/// What each does, and how much of it the allocator is.
pub(crate) fn overview(stages: &[Stage]) -> String {
    let header = ["program", "what it does", "allocations", "MiB asked for", "% CPU in malloc"];
    let row = |stage: &Stage| {
        let calls = stage.probe.calls;
        vec![
            stage.what.name.to_owned(),
            stage.what.what.to_owned(),
            calls.allocations.to_string(),
            table::figure(calls.bytes as f64 / f64::from(1 << 20)),
            table::figure(100.0 * stage.probe.share()),
        ]
    };
    let rows = stages.iter().map(row).collect();
    table::render_aligned(header.map(str::to_owned).to_vec(), rows, &[0, 1])
}
