//! `programs`: servers, runtimes and tools; their time and peak memory compared with glibc.

use super::cast::Cast;
use super::plan::*;
use crate::driven::Script;
use crate::ready_program::{ReadyProgram, ReadyPrograms};
use crate::real_programs::ALL;
use quarry_compare::allocators::GLIBC;
use quarry_compare::companion;
use quarry_harness::judge::{Judgement, Selection};
use quarry_harness::statistics;
use quarry_harness::table::{self, Entry, Table, words};
use std::path::PathBuf;
use std::rc::Rc;

/// Servers, runtimes and tools, each with a fixed amount of work, compared with glibc.
///
/// Scripts of a folder drive the programs that need more than one command: databases that are
/// filled, queried and checked, a browser, an office suite. The programs of `real-programs` follow.
/// A program must print the same on every allocator as in a first run on glibc; otherwise the
/// sample counts as wrong.
///
/// Time and CPU time are those of all processes, including the clients of a server. Peak memory is
/// the larger of two figures: the most that all processes had together, with shared memory divided
/// among them (PSS, sampled), and the most that one process had by itself (RSS, counted by the
/// kernel). In each round a program runs once on each allocator, in random order, with its script.
#[derive(Args)]
pub(super) struct Programs {
    #[command(flatten)]
    common: Common<Programs>,
    /// Run only these programs.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    only: Vec<String>,
    /// Run only the servers among the scripts, and compare the memory that they hold 5 s and 60 s
    /// after their load, and 5 s after a reload and the same load.
    #[arg(long)]
    rest: bool,
    /// Folder of the scripts [default: scripts/programs, else where `make install` put them].
    #[arg(long, value_name = "FOLDER")]
    scripts: Option<PathBuf>,
}

impl Defaults for Programs {
    const VARIANTS: &'static str = "glibc,jemalloc,quarry";
    const SAMPLES: &'static str = "6";
    const QUICK_SAMPLES: &'static str = "1";
}

/// `verdict` names a program whose CPU time, or memory after a rest, exceeds this times glibc's.
const MOST: f64 = 1.1;

impl Plan for Programs {
    const NAME: &'static str = "programs";

    fn stage(self, lab: &mut Lab<'_>) -> Result<Staged> {
        let mut contenders = lab.contenders(&self.common)?;
        let variants = Variants::new(&self.common, contenders::variants(&contenders), GLIBC)?;
        self.common.check_early()?;
        let folder = self.scripts.clone().unwrap_or_else(companion::scripts);
        let scripts = Script::names(&folder)?;
        let names = scripts.iter().map(String::as_str).chain(ALL.iter().map(|it| it.name));
        let wanted = options::exactly(&names.collect::<Vec<_>>(), &self.only, "program --only")?;
        let mut cast = Cast::new()?;
        if nix::unistd::geteuid().is_root() {
            cast.launcher.open_to_others()?;
            contenders.iter_mut().try_for_each(|it| cast.launcher.within_reach(it))?;
        }
        for name in scripts.iter().filter(|name| wanted.contains(&name.as_str())) {
            let asked = Script::ask(&folder, name).map_err(|advice| format!("{advice:#}"));
            if self.rest && asked.as_ref().is_ok_and(|script| !script.is_server) {
                continue;
            }
            let made = asked.map(|script| script.make_ready(self.common.quick, &cast.launcher));
            let made = made.map(|made| made.map(|program| program.resting(self.rest)));
            if !cast.add(made) {
                break;
            }
        }
        let is_wanted = |name| !self.rest && wanted.contains(&name);
        let real: Vec<_> = ALL.iter().filter(|it| is_wanted(it.name)).collect();
        cast.add_real(&real, self.common.quick);
        cast.announce(lab, 0)?;
        let Cast { ready, broken, launcher, interrupt, .. } = cast;
        let programs = Rc::new(ready);
        let sampler = ReadyPrograms { contenders, programs: Rc::clone(&programs), launcher };
        let workloads = workloads(programs.iter().map(|it| &it.label.name));
        let mut plan = experiment(&self.common, variants, workloads, sampler)?;
        plan.about = "all processes of a program, from its start to its end.".to_owned();
        plan.meta.metrics = metrics(self.rest);
        // Each program's first run, on glibc with its calls counted, has warmed up the files.
        plan.warm_up = false;
        for program in programs.iter() {
            plan = plan.option(&program.label.name, &program.label.version);
        }
        let staged = Staged::new(plan, move |run, out| print(run, &programs, out));
        Ok(staged.of_programs(interrupt, broken))
    }
}

fn metrics(rest: bool) -> Vec<Metric> {
    if rest {
        return vec![
            mib("after 5 s", "rest_5"),
            mib("after 60 s", "rest_60").primary(),
            mib("after a reload", "rest_reload"),
        ];
    }
    vec![
        lower("CPU", "s", "cpu_ns").times(1e-9).digits(3).primary(),
        lower("elapsed", "s", "wall_ns").times(1e-9).digits(3),
        mib("peak", "peak_bytes"),
    ]
}

fn print(run: &Run, programs: &[ReadyProgram], out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}\n", overview(programs))?;
    for variant in run.meta.variants.iter().filter(|it| it.name != run.meta.baseline) {
        writeln!(out, "{}\n", ratios(run, programs, &variant.name))?;
        writeln!(out, "{}\n", verdict(run, programs, &variant.name))?;
    }
    Ok(())
}

fn overview(programs: &[ReadyProgram]) -> String {
    let words = ["program", "version", "what it does"].map(words);
    let numbers = ["allocations", "% CPU in malloc"].map(Entry::from);
    let row = |program: &ReadyProgram| {
        let calls = program.probe.calls;
        vec![
            program.label.name.clone(),
            program.label.version.clone(),
            program.label.what.clone(),
            calls.allocations.to_string(),
            table::figure(100.0 * program.probe.share()),
        ]
    };
    Table::of(words.into_iter().chain(numbers), programs.iter().map(row)).text()
}

fn judge(selection: &Selection<'_>, program: &str, variant: &str, metric: &Metric) -> Judgement {
    let row = selection.rows.iter().find(|row| row.workload == program);
    let column = selection.column(variant).expect("a variant of the run");
    selection.judge(column, &[*row.expect("a workload of the run")], metric)
}

fn ratios(run: &Run, programs: &[ReadyProgram], variant: &str) -> String {
    let baseline = &run.meta.baseline;
    let metrics = &run.meta.metrics;
    // The table has only the ratio of elapsed times, not the baseline's own time.
    let alone = |metric: &&Metric| metric.name != "elapsed";
    let mut head = vec![format!("{variant} / {baseline}"), "pairs".to_owned()];
    for metric in metrics {
        let of_baseline = || format!("{} on {baseline}, {}", metric.name, metric.unit);
        head.extend(alone(&metric).then(of_baseline));
        head.push(metric.name.clone());
    }
    head.push("wrong results".to_owned());
    let selection = Selection::of(run);
    let row = |program: &ReadyProgram| {
        let name = &program.label.name;
        let cell = Cell { workload: name, tasks: 1, variant };
        let wrong = run.samples_of(cell).filter(|sample| sample.failure.is_some()).count();
        let pairs = judge(&selection, name, variant, run.meta.primary()).pairs;
        let mut row = vec![name.clone(), pairs.to_string()];
        for metric in metrics {
            let values = run.values(Cell { variant: baseline, ..cell }, metric);
            let values: Vec<f64> = values.into_iter().flatten().collect();
            let median = || table::figure_or(statistics::median(&values), "-");
            row.extend(alone(&metric).then(median));
            row.push(match judge(&selection, name, variant, metric) {
                judgement if program.is_fixed && judgement.estimate.is_some() => judgement.text(),
                _ => "-".to_owned(),
            });
        }
        row.push(format!("{wrong} of {}", run.samples_of(cell).count()));
        row
    };
    Table::of(head, programs.iter().map(row)).text()
}

/// Names the programs of fixed work whose primary figure is above `MOST` times the baseline's.
fn verdict(run: &Run, programs: &[ReadyProgram], variant: &str) -> String {
    let selection = Selection::of(run);
    let above = programs.iter().filter(|program| program.is_fixed).filter_map(|program| {
        let judgement = judge(&selection, &program.label.name, variant, selection.metric);
        let is_above = judgement.ratio()? > MOST;
        is_above.then(|| format!("{} ({})", program.label.name, judgement.centre_text()))
    });
    let above: Vec<String> = above.collect();
    let names = if above.is_empty() { "none".to_owned() } else { above.join(", ") };
    let (what, baseline) = (&selection.metric.name, &run.meta.baseline);
    format!("{what}: above {MOST} times that of {baseline}: {names}.")
}
