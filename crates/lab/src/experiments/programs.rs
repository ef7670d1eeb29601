//! `programs`: servers, runtimes and tools, with time, CPU and peak memory beside glibc.

use super::real_programs::Cast;
use crate::driven::{self, Script};
use crate::real_programs::{self, ALL};
use anyhow::{Result, bail};
use clap::Args;
use quarry_compare::FindLibrary;
use quarry_compare::allocators::{self, GLIBC};
use quarry_compare::contenders::{self, Contender};
use quarry_compare::{Interrupt, Launcher, Probe};
use quarry_harness::nearest;
use quarry_harness::options::{self, Common};
use quarry_harness::results::{Cell, Direction, Metric, Run, Verify, Workload};
use quarry_harness::runner::{Design, LEFT_OUT, Spot, Taken};
use quarry_harness::statistics;
use quarry_harness::table;
use std::io::Write;
use std::path::PathBuf;

/// Servers, runtimes and tools, each with a fixed amount of work, beside glibc.
///
/// Those that take more than one command are driven by the scripts of a folder: databases that are
/// filled, asked and checked, a browser, an office. Those of `real-programs` follow. A program
/// prints the same on every allocator as in a first run on glibc, or the sample counts as wrong.
///
/// Time and CPU time are those of all processes, the clients of a server included. Peak memory is
/// the most that all of them had together, what they share divided among them (PSS, sampled), or
/// that one of them had by itself (RSS, counted by the kernel), whichever is more. Samples on glibc
/// and Quarry are pairs, in random order; the script itself is served as its program is.
#[derive(Args)]
pub struct Programs {
    #[command(flatten)]
    common: Common<Defaults>,
    /// Only these programs.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    only: Vec<String>,
    /// Where the scripts are.
    #[arg(long, value_name = "FOLDER", default_value = "scripts/programs")]
    scripts: PathBuf,
}

#[derive(Clone, Debug)]
struct Defaults;

impl options::Defaults for Defaults {
    const VARIANTS: &'static str = "glibc,quarry";
    const SAMPLES: &'static str = "6";
    const QUICK_SAMPLES: &'static str = "1";
}

/// More CPU time than on glibc than this is too much.
const MOST: f64 = 1.1;

/// A program, ready to be run.
enum Member {
    Driven(Box<driven::Stage>),
    Known(Box<real_programs::Stage>),
}

impl Member {
    fn name(&self) -> &str {
        match self {
            Self::Driven(stage) => &stage.script.name,
            Self::Known(stage) => stage.what.name,
        }
    }

    fn version(&self) -> String {
        match self {
            Self::Driven(stage) => stage.script.version.clone(),
            Self::Known(stage) => {
                let package = allocators::installed(stage.what.package);
                package.unwrap_or_else(|| stage.what.name.to_owned())
            }
        }
    }

    fn what(&self) -> &str {
        match self {
            Self::Driven(stage) => &stage.script.what,
            Self::Known(stage) => stage.what.what,
        }
    }

    fn probe(&self) -> &Probe {
        match self {
            Self::Driven(stage) => &stage.probe,
            Self::Known(stage) => &stage.probe,
        }
    }

    fn rounds(&self) -> u32 {
        match self {
            Self::Driven(stage) => stage.script.rounds.unwrap_or(u32::MAX),
            Self::Known(_) => u32::MAX,
        }
    }

    fn is_fixed(&self) -> bool {
        !matches!(self, Self::Driven(stage) if !stage.script.is_fixed)
    }

    fn take(&self, contender: &Contender, launcher: &Launcher<'_>) -> Result<Taken, String> {
        match self {
            Self::Driven(stage) => stage.take(contender, launcher),
            Self::Known(stage) => stage.take(contender, launcher),
        }
    }
}

impl Programs {
    /// Runs the experiment and prints its tables.
    pub(crate) fn run(self, find_library: FindLibrary<'_>, out: &mut dyn Write) -> Result<()> {
        let mut contenders = contenders::find(&self.common.variants, find_library, out)?;
        let baseline = self.common.baseline(&contenders::names(&contenders), GLIBC)?.to_owned();
        self.common.check_early()?;
        let (scripts, known) = self.wanted()?;
        let interrupt = Interrupt::listen()?;
        let launcher = Launcher::new(&interrupt)?;
        if nix::unistd::geteuid().is_root() {
            launcher.open_to_others()?;
            contenders.iter_mut().try_for_each(|contender| launcher.within_reach(contender))?;
        }
        let (mut members, mut absent, mut broken) = (Vec::new(), Vec::new(), Vec::new());
        for name in &scripts {
            match Script::ask(&self.scripts, name) {
                Err(advice) => absent.push(format!("{advice:#}")),
                Ok(_) if interrupt.signal().is_some() => break,
                Ok(script) => match driven::Stage::set(script, self.common.quick, &launcher) {
                    Ok(stage) => members.push(Member::Driven(Box::new(stage))),
                    Err(reason) => broken.push(format!("{reason:#}")),
                },
            }
        }
        let cast = Cast::of(&known, self.common.quick, &launcher, &interrupt);
        members.extend(cast.stages.into_iter().map(|stage| Member::Known(Box::new(stage))));
        absent.extend(cast.absent);
        broken.extend(cast.broken);
        for advice in &absent {
            writeln!(out, "absent: {advice}")?;
        }
        if members.is_empty() || interrupt.signal().is_some() {
            bail!("none of the programs has been run\n{}", broken.join("\n"));
        }
        let run = self.conduct(&members, &contenders, &baseline, &launcher)?;
        print(&run, &members, out)?;
        if interrupt.signal().is_some() {
            bail!("interrupted: {} of {} rounds", run.rounds(), run.meta.rounds);
        }
        if !broken.is_empty() {
            bail!("left out, because they fail before any comparison:\n{}", broken.join("\n"));
        }
        run.expect_no_failures()
    }

    fn conduct(
        &self,
        members: &[Member],
        contenders: &[Contender],
        baseline: &str,
        launcher: &Launcher<'_>,
    ) -> Result<Run> {
        let workload = |it: &Member| Workload::new(it.name(), Verify::PerOperation(1));
        let workloads = members.iter().map(workload).collect();
        let variants = contenders::variants(contenders);
        let design = self.common.design("programs", variants, baseline, workloads)?;
        // The first run of each, on glibc under the counter, has warmed up the files.
        let mut design = Design { metrics: metrics(), warm_up: false, ..design };
        for member in members {
            design = design.option(member.name(), member.version());
        }
        design.conduct(|spot: Spot| {
            let member = &members[spot.workload];
            if spot.round > member.rounds() {
                return Err(LEFT_OUT.to_owned());
            }
            member.take(&contenders[spot.variant], launcher)
        })
    }

    /// Names of the scripts and the programs of `real-programs` that are asked for.
    fn wanted(&self) -> Result<(Vec<String>, Vec<&'static real_programs::RealProgram>)> {
        let mut scripts = Script::names(&self.scripts)?;
        let mut known: Vec<_> = ALL.iter().collect();
        let all = scripts.iter().map(String::as_str).chain(known.iter().map(|it| it.name));
        let all: Vec<&str> = all.collect();
        for name in &self.only {
            if !all.contains(&name.as_str()) {
                return Err(nearest::unknown("program --only", name, &all));
            }
        }
        let is_wanted = |name: &str| self.only.is_empty() || self.only.iter().any(|n| n == name);
        scripts.retain(|name| is_wanted(name));
        known.retain(|it| is_wanted(it.name));
        Ok((scripts, known))
    }
}

fn metrics() -> Vec<Metric> {
    let mib = 1.0 / f64::from(1 << 20);
    let lower = |name: &str, unit: &str, of: &str, times: f64| {
        Metric::new(name, unit, Direction::Lower, of).times(times)
    };
    vec![
        lower("CPU", "s", "cpu_ns", 1e-9).digits(3).primary(),
        lower("elapsed", "s", "wall_ns", 1e-9).digits(3),
        lower("peak", "MiB", "peak_bytes", mib).digits(1),
    ]
}

fn print(run: &Run, members: &[Member], out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}\n", run.head("all processes of a program, from its start to its end."))?;
    writeln!(out, "{}\n", overview(members))?;
    for variant in run.meta.variants.iter().filter(|it| it.name != run.meta.baseline) {
        writeln!(out, "{}\n", ratios(run, members, &variant.name))?;
        writeln!(out, "{}\n", verdict(run, members, &variant.name))?;
    }
    Ok(())
}

/// What each does, and how much of it the allocator is.
fn overview(members: &[Member]) -> String {
    let header = ["program", "version", "what it does", "allocations", "% CPU in malloc"];
    let row = |member: &Member| {
        let calls = member.probe().calls;
        vec![
            member.name().to_owned(),
            member.version(),
            member.what().to_owned(),
            calls.allocations.to_string(),
            table::figure(100.0 * member.probe().share()),
        ]
    };
    let rows = members.iter().map(row).collect();
    table::render_aligned(header.map(str::to_owned).to_vec(), rows, &[0, 1, 2])
}

fn ratios(run: &Run, members: &[Member], variant: &str) -> String {
    let baseline = &run.meta.baseline;
    let header = vec![
        format!("{variant} / {baseline}"),
        "pairs".to_owned(),
        format!("CPU on {baseline}, s"),
        "CPU".to_owned(),
        "elapsed".to_owned(),
        format!("peak on {baseline}, MiB"),
        "peak".to_owned(),
        "wrong results".to_owned(),
    ];
    let row = |member: &Member| {
        let Columns { pairs, wrong, taken, .. } = columns(run, member.name(), variant);
        let ratio = |metric: &Metric| match member.is_fixed() {
            true => spread(&ratios_of(run, member.name(), variant, metric)),
            false => "-".to_owned(),
        };
        let alone = |metric: &Metric| median_of(run, member.name(), baseline, metric);
        let [cpu, elapsed, peak] = &run.meta.metrics[..] else { return Vec::new() };
        vec![
            member.name().to_owned(),
            pairs.to_string(),
            alone(cpu),
            ratio(cpu),
            ratio(elapsed),
            alone(peak),
            ratio(peak),
            format!("{wrong} of {taken}"),
        ]
    };
    table::render(header, members.iter().map(row).collect())
}

/// How many samples there are, and how many of them do not count.
struct Columns {
    pairs: usize,
    wrong: usize,
    taken: usize,
}

fn columns(run: &Run, workload: &str, variant: &str) -> Columns {
    let samples: Vec<_> = run.samples_of(Cell { workload, tasks: 1, variant }).collect();
    let wrong = samples.iter().filter(|sample| sample.failure.is_some()).count();
    let pairs = ratios_of(run, workload, variant, run.meta.primary()).len();
    Columns { pairs, wrong, taken: samples.len() }
}

fn ratios_of(run: &Run, workload: &str, variant: &str, metric: &Metric) -> Vec<f64> {
    let values = |variant: &str| run.values(Cell { workload, tasks: 1, variant }, metric);
    let pairs = statistics::paired_ratios(&values(variant), &values(&run.meta.baseline));
    pairs.into_iter().flatten().collect()
}

fn median_of(run: &Run, workload: &str, variant: &str, metric: &Metric) -> String {
    let values = run.values(Cell { workload, tasks: 1, variant }, metric);
    let values: Vec<f64> = values.into_iter().flatten().collect();
    statistics::median(&values).map_or("-".to_owned(), table::figure)
}

/// The median and, in brackets, the smallest and the largest: of six pairs these are an interval
/// of more than 95 %, of fewer one of less.
fn spread(ratios: &[f64]) -> String {
    let Some(median) = statistics::median(ratios) else { return "-".to_owned() };
    let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let high = ratios.iter().copied().fold(0.0, f64::max);
    format!("{median:.3} [{low:.2}, {high:.2}]")
}

/// Whether any takes more CPU time than it may.
fn verdict(run: &Run, members: &[Member], variant: &str) -> String {
    let cpu = run.meta.primary();
    let above = members.iter().filter(|member| member.is_fixed()).filter_map(|member| {
        let median = statistics::median(&ratios_of(run, member.name(), variant, cpu))?;
        (median > MOST).then(|| format!("{} ({median:.3})", member.name()))
    });
    let above: Vec<String> = above.collect();
    let baseline = &run.meta.baseline;
    match above.is_empty() {
        true => format!("None takes more than {MOST} times the CPU time of {baseline}."),
        false => format!("Above {MOST} times the CPU time of {baseline}: {}.", above.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_that_of_all_pairs() {
        assert_eq!(spread(&[]), "-");
        assert_eq!(spread(&[1.0]), "1.000 [1.00, 1.00]");
        assert_eq!(spread(&[1.2, 0.9, 1.0, 1.05]), "1.025 [0.90, 1.20]");
    }
}
