//! The output of a comparison: figures, verdicts, the evidence for them, and advice.

use super::first_look::{self, FirstLook};
use super::judgement::Judgements;
use super::request::{Request, Runs};
use super::weight::Weight;
use quarry_harness::judge::{Outcome, Reason, Selection};
use quarry_harness::results::{Cell, Direction, Metric, Run, Variant};
use quarry_harness::table;
use serde_json::{Value, json};
use std::fmt;

/// Version of the layout of `--json`.
const SCHEMA: &str = "quarry-compare/1";

/// Everything that is known at the end.
pub(super) struct Answer<'a> {
    /// The request.
    request: &'a Request,
    /// The measured run.
    pub(super) run: &'a Run,
    /// The judgements on the run.
    judgements: Judgements,
    /// The result of runs under the counter, or the reason why there are none.
    look: Result<&'a FirstLook, &'a anyhow::Error>,
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = &self.run.meta;
        writeln!(f, "{}", meta.environment.summary())?;
        writeln!(f, "{}", self.head())?;
        writeln!(f, "{}\n", self.calls())?;
        if self.run.rounds() == 0 {
            writeln!(f, "No round was completed.")?;
            return self.failures().iter().try_for_each(|line| writeln!(f, "{line}"));
        }
        writeln!(f, "Medians:\n\n{}\n", self.medians())?;
        writeln!(
            f,
            "Against {} (difference of paired runs with its 95 % interval; the A/A copy shows the \
             noise):\n\n{}\n",
            meta.baseline,
            self.verdicts()
        )?;
        for variant in &meta.variants {
            if variant.copy_of.is_none() {
                writeln!(f, "* {}", self.evidence(&variant.name, &variant.description))?;
            }
        }
        let mut notes = self.judgements.advice();
        notes.extend(self.noise());
        notes.extend(self.little());
        notes.extend(self.pymalloc());
        notes.extend(self.failures());
        if !notes.is_empty() {
            writeln!(f)?;
        }
        notes.iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}

impl<'a> Answer<'a> {
    /// Judges a run.
    pub(super) fn new(
        request: &'a Request,
        run: &'a Run,
        look: Result<&'a FirstLook, &'a anyhow::Error>,
    ) -> Self {
        Self { request, run, judgements: Judgements::of(run), look }
    }

    fn head(&self) -> String {
        let words: Vec<_> = self.request.command.iter().map(|it| it.to_string_lossy()).collect();
        let rounds = self.run.rounds();
        let asked = match self.request.runs {
            Runs::Exactly(runs) if rounds < runs as usize => format!(" of {runs}"),
            Runs::Exactly(_) => String::new(),
            Runs::UntilInterval { share, at_most } => {
                format!(" (until every interval is within {} %, at most {at_most})", share * 100.0)
            }
        };
        format!(
            "{}\n{rounds} rounds{asked} in shuffled order, seed {}; a warm-up round is kept, not \
             counted.",
            words.join(" "),
            self.run.meta.seed
        )
    }

    fn calls(&self) -> String {
        match self.look {
            Ok(FirstLook { probe, .. }) => format!(
                "It asks for memory {} times and frees {} times: about {:.1} % of its CPU time \
                 (counted on glibc in runs of their own).",
                probe.calls.allocations,
                probe.calls.frees,
                probe.share() * 100.0
            ),
            Err(error) => format!("Calls of malloc could not be counted: {error:#}."),
        }
    }

    fn medians(&self) -> String {
        let selection = Selection::of(self.run);
        let metrics = &self.run.meta.metrics;
        let head = ["allocator".to_owned(), "runs".to_owned()].into_iter();
        let row = |variant: &Variant| {
            let column = selection.column(&variant.name);
            let (failed, taken) = self.counts(&variant.name);
            let runs = match failed {
                0 => taken.to_string(),
                failed => format!("{failed} of {taken} failed"),
            };
            let median = |metric: &Metric| {
                let median = column.filter(|_| failed == 0);
                match median.and_then(|it| selection.median(it, selection.rows[0], metric)) {
                    Some(median) if metric.decimals == 0 => format!("{median:.0}"),
                    median => table::figure_or(median, "-"),
                }
            };
            [variant.name.clone(), runs].into_iter().chain(metrics.iter().map(median)).collect()
        };
        let rows = self.run.meta.variants.iter().map(row).collect();
        table::render(head.chain(metrics.iter().map(Metric::label)).collect(), rows)
    }

    /// Returns the numbers of failed and of all counted runs of a variant.
    fn counts(&self, variant: &str) -> (usize, usize) {
        let cell = Cell { workload: &self.run.meta.workloads[0].name, tasks: 1, variant };
        let failed = self.run.samples_of(cell).filter(|it| it.failure.is_some()).count();
        (failed, self.run.samples_of(cell).count())
    }

    fn verdicts(&self) -> String {
        let judged = self.judged();
        let mut head = vec!["allocator".to_owned()];
        head.extend(judged.iter().map(|metric| match metric.direction {
            Direction::None => format!("{} (no direction given)", metric.name),
            Direction::Higher => format!("{} (higher is better)", metric.name),
            Direction::Lower => metric.name.clone(),
        }));
        let others = self.run.meta.variants.iter().filter(|it| it.name != self.run.meta.baseline);
        let rows = others.map(|variant| {
            let text = |metric: &&Metric| {
                let Some(judgement) = self.judgements.get(&variant.name, metric) else {
                    return "-".to_owned();
                };
                match judgement.outcome {
                    Outcome::NoVerdict(Reason::Failed) => "failed".to_owned(),
                    Outcome::NoVerdict(_) => "-".to_owned(),
                    _ if judgement.is_copy => judgement.change_text(),
                    outcome => format!("{} {}", outcome.word(), judgement.change_text()),
                }
            };
            std::iter::once(variant.name.clone()).chain(judged.iter().map(text)).collect()
        });
        table::render(head, rows.collect())
    }

    /// Returns the metrics with a verdict: those with a direction, and the primary one.
    fn judged(&self) -> Vec<&Metric> {
        let metrics = self.run.meta.metrics.iter();
        metrics.filter(|it| it.primary || it.direction != Direction::None).collect()
    }

    /// Describes a variant and the proof that it served.
    fn evidence(&self, variant: &str, description: &str) -> String {
        let workload = &self.run.meta.workloads[0].name;
        let mut served: Vec<&str> = self
            .run
            .samples_of(Cell { workload, tasks: 1, variant })
            .filter_map(|sample| sample.measurement.as_ref())
            .map(|measurement| measurement.served_by.as_str())
            .collect();
        let count = served.len();
        served.sort_unstable();
        served.dedup();
        let of_variant = self.run.samples.iter().filter(|sample| sample.variant == variant);
        let counters = of_variant.filter_map(|it| Some(&it.measurement.as_ref()?.counters));
        let mut own = counters.filter_map(|it| it.get("quarry_allocations"));
        let own = own.next().map(|count| format!("; by its own count {count} allocations"));
        match served[..] {
            [] => format!("{variant}: {description}; no run counts"),
            _ => format!(
                "{variant}: {description}; {count} runs served by {}{}",
                served.join(", "),
                own.unwrap_or_default()
            ),
        }
    }

    fn noise(&self) -> Option<String> {
        let copy = self.run.meta.copy()?;
        let primary = self.run.meta.primary();
        let floor = self.judgements.get(&copy.name, primary)?.reach()?;
        Some(format!(
            "noise floor: {} and its own copy differ by up to {:.1} % in {}",
            self.run.meta.baseline,
            floor * 100.0,
            primary.name
        ))
    }

    /// Says how little an allocator can change, where that is so.
    fn little(&self) -> Option<String> {
        let look = self.look.ok().filter(|look| look.weight == Weight::Little)?;
        let share = look.probe.influence() * 100.0;
        Some(format!(
            "an allocator has an influence on about {share:.1} % of this program's CPU time \
             (median of {} runs of {:.3} s): what differs by more has other reasons",
            look.runs,
            look.probe.wall_ns as f64 / 1e9,
        ))
    }

    fn pymalloc(&self) -> Option<String> {
        let on_own = self.look.ok()?.probe.is_on_pymalloc(first_look::python_malloc().as_deref());
        let text = "Python serves its small objects itself: with PYTHONMALLOC=malloc allocators \
                    get them, too";
        on_own.then(|| text.to_owned())
    }

    /// Returns a line for each variant that failed, the warm-up included.
    fn failures(&self) -> Vec<String> {
        let line = |variant: &Variant| {
            let samples = self.run.samples.iter().filter(|it| it.variant == variant.name);
            let failures: Vec<_> = samples.clone().filter_map(|it| it.failure.as_ref()).collect();
            let first = failures.first()?;
            let (failed, all) = (failures.len(), samples.count());
            let name = &variant.name;
            Some(format!("{name}: {failed} of {all} runs failed, warm-up included: {first}"))
        };
        self.run.meta.variants.iter().filter_map(line).collect()
    }

    /// Returns everything as JSON.
    pub(super) fn as_json(&self) -> Value {
        let metrics = self.judged();
        let of = |variant: &Variant| {
            let json = |metric| Some(self.judgements.get(&variant.name, metric)?.json());
            metrics.iter().copied().filter_map(json).collect::<Vec<Value>>()
        };
        let verdicts: Vec<Value> = self.run.meta.variants.iter().flat_map(of).collect();
        let probe = self.look.ok().map(|FirstLook { probe, runs, .. }| {
            json!({
                "runs": runs,
                "allocations": probe.calls.allocations,
                "frees": probe.calls.frees,
                "bytes": probe.calls.bytes,
                "call_ns": probe.calls.ns,
                "cpu_ns": probe.cpu_ns,
            })
        });
        json!({
            "schema": SCHEMA,
            "meta": self.run.meta,
            "probe": probe,
            "verdicts": verdicts,
            "failures": self.run.failures(),
            "samples": self.run.samples,
        })
    }
}
