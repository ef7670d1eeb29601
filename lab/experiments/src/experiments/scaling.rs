//! `scaling`: the cost of a call of the heap on up to 128 simulated CPUs, and what they wait for.

use super::plan::*;
use crate::simulated::{FIGURES, WAITS, ask_all, costs_of, longest, waits};
use quarry_harness::table::{Entry, Table, figure, words};
use quarry_sim::simulate::{Answer, Cell as Simulated, Load, PATTERNS};
use quarry_sim::{Costs, Topology};
use quarry_trace::Trace;
use std::cell::RefCell;
use std::path::PathBuf;

/// Calls that each copy of a recorded program plays, as many as a copy of a pattern.
const CALLS: usize = 200_000;

/// The cost of a call of the heap on up to 128 simulated CPUs, and what they wait for.
///
/// Patterns of malloc-patterns, made shorter, run on the simulated machine of `quarry simulate`
/// (lab/docs/simulator.md), with the costs of a server of 2024. `--tasks` are CPUs. A pattern or a
/// recorded program (--traces) is copied until every CPU has a thread; all copies share one heap.
/// The same seed of a round gives the same figures, so one sample is enough.
///
/// Perfect scaling is a ratio of 1.00: a call takes as much CPU time, with the program's own work,
/// waits and idle CPUs, as on the first number of CPUs. All patterns but `random` have pairs of
/// threads: on one CPU no block moves to another CPU, so compare these with two CPUs as well.
#[derive(Args)]
pub(super) struct Scaling {
    #[command(flatten)]
    common: Common<Scaling>,
    /// Only patterns whose names begin with one of these, such as phases or mixed.
    #[arg(long, value_delimiter = ',', value_name = "PREFIX")]
    only: Vec<String>,
    /// Traces of `quarry record` that are played as well.
    #[arg(long, value_delimiter = ',', value_name = "FILE")]
    traces: Vec<PathBuf>,
    /// The costs of the machine, instead of those of 2024: a TOML file with fields of `Costs`.
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
}

impl Defaults for Scaling {
    const VARIANTS: &'static str = "sheaf";
    const TASKS: &'static str = "1,2,16,64,128";
    const QUICK_TASKS: &'static str = "1,8";
    const SAMPLES: &'static str = "1";
    const QUICK_SAMPLES: &'static str = "1";
    const MOST_TASKS: u32 = 1024;
}

impl Plan for Scaling {
    const NAME: &'static str = "scaling";

    fn stage(self, _: &mut Lab<'_>) -> Result<Staged> {
        self.common.check_early()?;
        let variants = slab_policies(&self.common, "sheaf")?;
        let (names, loads): (Vec<_>, Vec<_>) = self.loads()?.into_iter().unzip();
        let workloads = workloads(names);
        let costs = costs_of(self.costs.as_deref(), Costs::from_toml(Costs::OF_2024)?)?;
        let (tasks, slabs) = (self.common.tasks()?, self.common.variants.clone());
        let order = move |round: u32| {
            let machines = tasks.iter().flat_map(|cpus| slabs.iter().map(move |it| (*cpus, it)));
            let cell = |load: &Load, (cpus, slab): (u32, &String)| Simulated {
                load: load.clone(),
                topology: Topology::new(1, cpus),
                costs: costs.clone(),
                slab: slab.clone(),
                pages: "v6.18".to_owned(),
                calls: CALLS,
                seed: round.into(),
            };
            let of_load = |load| machines.clone().map(move |it| cell(load, it));
            loads.iter().flat_map(of_load).collect::<Vec<_>>()
        };
        let (tasks, slabs) = (self.common.tasks()?, self.common.variants.len());
        // All samples of a round are taken at once, on all CPUs of this machine.
        let taken = RefCell::new((0, Vec::<Answer>::new()));
        let sampler = move |key: SampleKey| {
            let mut taken = taken.borrow_mut();
            if taken.0 != key.round {
                *taken = (key.round, ask_all(&order(key.round))?);
            }
            let machine = tasks.iter().position(|cpus| *cpus == key.tasks).unwrap_or(0);
            Ok(measured(&taken.1[(key.workload * tasks.len() + machine) * slabs + key.variant]))
        };
        let mut plan = experiment(&self.common, variants, workloads, sampler)?;
        plan.about = "a simulated machine in a fresh process; tasks are CPUs.".to_owned();
        (plan.meta.metrics, plan.warm_up) = (metrics(), false);
        Ok(Staged::new(plan, print))
    }
}

impl Scaling {
    /// The chosen patterns and the traces, with their names.
    fn loads(&self) -> Result<Vec<(String, Load)>> {
        let patterns = PATTERNS.map(|(name, _)| name.to_owned()).to_vec();
        let patterns = options::named(patterns, &self.only, "pattern --only", |_| true)?;
        for trace in &self.traces {
            Trace::check(trace).map_err(|error| Usage(format!("--traces {error}")))?;
        }
        let traces =
            self.traces.iter().map(|it| (it.display().to_string(), Load::Trace(it.clone())));
        let patterns = patterns.into_iter().map(|name| (name.clone(), Load::Pattern(name)));
        Ok(patterns.chain(traces).collect())
    }
}

fn measured(answer: &Answer) -> Taken {
    let (calls, cpu_ns) = (answer.calls, answer.time_ns * u64::from(answer.cpus));
    let figures = FIGURES.iter().map(|(name, of)| ((*name).to_owned(), of(answer)));
    // A wait's name follows the head of its column.
    let waits = WAITS.iter().zip(waits(answer)).flat_map(|(head, waits)| {
        waits.into_iter().map(move |(name, wait)| (format!("{head}: {name}"), wait))
    });
    Measurement {
        verified: calls,
        figures: figures.chain(waits).collect(),
        ..Measurement::of_window(calls, cpu_ns, answer.time_ns, cpu_ns, "simulated")
    }
    .into()
}

fn metrics() -> Vec<Metric> {
    let mut all: Vec<_> = FIGURES.iter().map(|(name, _)| lower(name, "", name)).collect();
    all[0].primary = true;
    all
}

fn print(run: &Run, out: &mut dyn Write) -> Result<()> {
    let (metrics, first) = (&run.meta.metrics, run.meta.tasks[0]);
    for Variant { name: variant, .. } in &run.meta.variants {
        let row = |workload: &str, tasks: u32| {
            let cell = Cell { workload, tasks, variant };
            let median = |cell, metric| run.median(cell, metric).unwrap_or(f64::NAN);
            let medians = metrics.iter().map(|it| median(cell, it));
            let ratio =
                median(cell, &metrics[0]) / median(Cell { tasks: first, ..cell }, &metrics[0]);
            let sample = run.samples_of(cell).find_map(|it| it.measurement.as_ref());
            let waits =
                WAITS.map(|head| words(sample.map_or(String::new(), |it| waits_of(it, head))));
            let mut row = vec![words(workload), tasks.to_string().into(), figure(ratio).into()];
            row.extend(medians.map(|it| Entry::from(figure(it))).chain(waits));
            row
        };
        let of = |it: &Workload| {
            let rows = run.meta.tasks.iter().map(|tasks| row(&it.name, *tasks));
            rows.collect::<Vec<_>>()
        };
        let ratio = format!("/ {}", counted(first, "CPU"));
        let mut head = vec![words(variant), "CPUs".into(), ratio.into()];
        head.extend(metrics.iter().map(|it| Entry::from(&*it.name)).chain(WAITS.map(words)));
        let rows = run.meta.workloads.iter().flat_map(of).collect();
        writeln!(out, "{}\n", Table { head, rows }.text())?;
    }
    Ok(())
}

/// The longest waits of a column.
fn waits_of(measurement: &Measurement, head: &str) -> String {
    let named = measurement.figures.iter().filter_map(|(name, wait)| {
        Some((name.strip_prefix(head)?.strip_prefix(": ")?.to_owned(), *wait))
    });
    let mut waits: Vec<_> = named.collect();
    waits.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    longest(&waits)
}
