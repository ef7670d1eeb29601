//! The output of a comparison: figures, verdicts, the evidence for them, and advice.

use super::closing;
use super::first_look::FirstLook;
use super::judgement::{Judgements, verdict};
use super::metrics::judged;
use super::raw::{EXIT_STATUS, IGNORE_FAILURE};
use super::readable::{readable, too_short};
use super::request::{Request, Work, line};
use super::side_by_side;
use super::weight::Weight;
use anyhow::Result;
use quarry_harness::judge::{Judgement, Selection};
use quarry_harness::report;
use quarry_harness::results::{Cell, Direction, Metric, Run, Variant, Workload};
use quarry_harness::table::{self, Table};
use serde_json::{Value, json};
use std::fmt;

const SCHEMA: &str = "quarry-compare/1";

pub(super) struct Answer<'a> {
    request: &'a Request,
    /// The programs of the run's workloads.
    pub(super) works: &'a [Work],
    pub(super) run: &'a Run,
    /// The run in units that suit its size (`readable.rs`).
    pub(super) shown: Run,
    pub(super) judgements: Judgements,
    shown_judgements: Judgements,
    /// For each workload, the result of the runs whose calls of malloc were counted, or the reason
    /// why it is missing.
    looks: Vec<&'a Result<FirstLook>>,
    /// Remarks for the head, one line each.
    remarks: Vec<String>,
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = &self.shown.meta;
        writeln!(f, "{}", meta.environment.summary())?;
        writeln!(f, "{}", self.head())?;
        self.remarks.iter().try_for_each(|remark| writeln!(f, "{remark}."))?;
        if self.run.rounds() == 0 {
            writeln!(f, "{}\n", self.calls(self.looks[0]))?;
            writeln!(f, "No round was completed.")?;
            return self.notes().iter().try_for_each(|line| writeln!(f, "{line}"));
        }
        for (row, look) in self.looks.iter().enumerate() {
            self.write_workload(f, row, look)?;
        }
        if self.request.aged {
            writeln!(f, "{}", side_by_side::text(&self.shown, &self.shown_judgements))?;
        }
        for variant in &meta.variants {
            if variant.copy_of.is_none() {
                writeln!(f, "* {}", self.evidence(&variant.name, &variant.description))?;
            }
        }
        let notes = self.notes();
        if !notes.is_empty() {
            writeln!(f)?;
        }
        notes.iter().try_for_each(|note| writeln!(f, "{note}"))?;
        writeln!(f)?;
        self.closing().iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl<'a> Answer<'a> {
    pub(super) fn new(
        request: &'a Request,
        works: &'a [Work],
        run: &'a Run,
        looks: Vec<&'a Result<FirstLook>>,
        remarks: Vec<String>,
    ) -> Self {
        let shown = readable(run);
        Self {
            request,
            works,
            run,
            judgements: Judgements::of(run),
            shown_judgements: Judgements::of(&shown),
            shown,
            looks,
            remarks,
        }
    }

    fn write_workload(
        &self,
        f: &mut fmt::Formatter<'_>,
        row: usize,
        look: &Result<FirstLook>,
    ) -> fmt::Result {
        if self.has_several() {
            writeln!(f, "\n## {}\n", self.run.meta.workloads[row].name)?;
        }
        writeln!(f, "{}\n", self.calls(look))?;
        writeln!(f, "Medians:\n\n{}\n", self.medians(row))?;
        writeln!(
            f,
            "Against {} (difference of paired runs with its 95 % interval; the A/A copy shows the \
             noise):\n\n{}\n",
            self.run.meta.baseline,
            self.verdicts(row)
        )
    }

    fn has_several(&self) -> bool {
        self.run.meta.workloads.len() > 1
    }

    /// Returns remarks to print beside the tables, with their workloads if the run has several.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (row, look) in self.looks.iter().enumerate() {
            let name = &self.run.meta.workloads[row].name;
            let mut of_row = self.shown_judgements.advice(name);
            of_row.extend(self.noise(name));
            of_row.extend(self.little(look.as_ref().ok()));
            of_row.extend(too_short(self.run, name));
            let prefix = if self.has_several() { format!("{name}: ") } else { String::new() };
            notes.extend(of_row.into_iter().map(|note| prefix.clone() + &note));
        }
        let looks = || self.looks.iter().filter_map(|look| look.as_ref().ok());
        notes.extend(looks().find_map(|look| look.probe.inside()));
        let failures = self.failures();
        if !self.request.ignore_failure && failures.iter().any(|it| it.contains(EXIT_STATUS)) {
            notes.push(IGNORE_FAILURE.to_owned());
        }
        notes.extend(failures);
        notes
    }

    pub(super) fn closing(&self) -> Vec<String> {
        let of = |workload: &Workload| {
            let text = closing::sentence(&self.shown, &self.shown_judgements, &workload.name);
            match self.has_several() {
                true => format!("In short, {}: {text}.", workload.name),
                false => format!("In short: {text}."),
            }
        };
        self.run.meta.workloads.iter().map(of).collect()
    }

    pub(super) fn page(&self) -> Result<Vec<u8>> {
        let name = self.run.meta.workloads[0].name.clone();
        Ok(report::page(vec![(name, self.shown.clone())], None)?.into_bytes())
    }

    pub(super) fn markdown(&self) -> String {
        format!("# quarry compare: `{}`\n\n{self}", line(&self.request.program.command))
    }

    fn head(&self) -> String {
        let rounds = self.run.rounds();
        let most = self.request.at_most();
        let asked = match self.request.target_ci {
            Some(share) => {
                format!(" (until every interval is within {} %, at most {most})", share * 100.0)
            }
            None if rounds < most as usize => format!(" of {most}"),
            None => String::new(),
        };
        format!(
            "{}\n{}{asked} in shuffled order, seed {}; a warm-up round is kept, not \
             counted.",
            line(&self.request.program.command),
            table::counted(rounds, "round"),
            self.run.meta.seed
        )
    }

    fn calls(&self, look: &Result<FirstLook>) -> String {
        match look {
            Ok(FirstLook { probe, .. }) => format!(
                "It asks for memory {} and frees {}: about {:.1} % of its CPU time \
                 (counted on glibc in runs of their own).",
                table::counted(probe.calls.allocations, "time"),
                table::counted(probe.calls.frees, "time"),
                probe.share() * 100.0
            ),
            Err(error) => format!("Calls of malloc could not be counted: {error:#}."),
        }
    }

    fn medians(&self, row: usize) -> String {
        let selection = Selection::of(&self.shown);
        let metrics = &self.shown.meta.metrics;
        let head = ["allocator", "runs"].map(str::to_owned).into_iter();
        let of_variant = |variant: &Variant| {
            let column = selection.column(&variant.name);
            let (failed, taken) = self.counts(row, &variant.name);
            let runs = match failed {
                0 => taken.to_string(),
                failed => format!("{failed} of {taken} failed"),
            };
            let median = |metric: &Metric| {
                let median = column.filter(|_| failed == 0);
                match median.and_then(|it| selection.median(it, selection.rows[row], metric)) {
                    Some(median) if metric.decimals == 0 => format!("{median:.0}"),
                    median => table::figure_or(median, "-"),
                }
            };
            let texts = [variant.name.clone(), runs].into_iter();
            texts.chain(metrics.iter().map(median)).collect::<Vec<String>>()
        };
        let rows = self.shown.meta.variants.iter().map(of_variant);
        Table::of(head.chain(metrics.iter().map(Metric::label)), rows).text()
    }

    /// Returns the numbers of failed and of counted runs of a variant on a workload.
    fn counts(&self, row: usize, variant: &str) -> (usize, usize) {
        let cell = Cell { workload: &self.run.meta.workloads[row].name, tasks: 1, variant };
        let failed = self.run.samples_of(cell).filter(|it| it.failure.is_some()).count();
        (failed, self.run.samples_of(cell).count())
    }

    fn verdicts(&self, row: usize) -> String {
        let judged = judged(&self.shown.meta.metrics);
        let mut head = vec!["allocator".to_owned()];
        head.extend(judged.iter().map(|metric| match metric.direction {
            Direction::None => format!("{} (no direction given)", metric.name),
            Direction::Higher => format!("{} (higher is better)", metric.name),
            Direction::Lower => metric.name.clone(),
        }));
        let meta = &self.shown.meta;
        let workload = &meta.workloads[row].name;
        let others = meta.variants.iter().filter(|it| it.name != meta.baseline);
        let rows = others.map(|variant| {
            let text = |metric: &&Metric| {
                let judgement = self.shown_judgements.get(workload, &variant.name, metric);
                judgement.map_or("-".to_owned(), verdict)
            };
            let texts: Vec<String> = judged.iter().map(text).collect();
            std::iter::once(variant.name.clone()).chain(texts)
        });
        Table::of(head, rows).text()
    }

    /// Describes a variant and the proof that its allocator served.
    fn evidence(&self, variant: &str, description: &str) -> String {
        let counted = self.run.samples.iter().filter(|it| it.variant == variant && it.round > 0);
        let mut served: Vec<&str> = counted
            .filter_map(|sample| Some(sample.measurement.as_ref()?.served_by.as_str()))
            .collect();
        let count = served.len();
        served.sort_unstable();
        served.dedup();
        let of_variant = self.run.samples.iter().filter(|sample| sample.variant == variant);
        let own = of_variant
            .filter_map(|it| it.measurement.as_ref()?.counters.get("quarry_allocations"))
            .next()
            .map(|count| format!("; by its own count {}", table::counted(count, "allocation")));
        match served[..] {
            [] => format!("{variant}: {description}; no run counts"),
            _ => format!(
                "{variant}: {description}; {} served by {}{}",
                table::counted(count, "run"),
                served.join(", "),
                own.unwrap_or_default()
            ),
        }
    }

    fn noise(&self, workload: &str) -> Option<String> {
        let is_floor = |it: &&Judgement| it.is_copy && it.workload == workload && it.metric.primary;
        let copy = self.judgements.all().find(is_floor)?;
        Some(format!(
            "noise floor: {} and its own copy differ by up to {:.1} % in {}",
            self.run.meta.baseline,
            copy.reach()? * 100.0,
            copy.metric.name
        ))
    }

    fn little(&self, look: Option<&FirstLook>) -> Option<String> {
        let look = look.filter(|look| matches!(look.weight, Weight::Little | Weight::Nothing))?;
        let share = look.probe.influence() * 100.0;
        Some(format!(
            "an allocator has an influence on about {share:.1} % of this program's CPU time \
             (median of {} of {:.3} s): what differs by more has other reasons",
            table::counted(look.runs, "run"),
            look.probe.wall_ns as f64 / 1e9,
        ))
    }

    /// Returns a line for each variant that failed, in the warm-up too.
    fn failures(&self) -> Vec<String> {
        let line = |variant: &Variant| {
            let samples = self.run.samples.iter().filter(|it| it.variant == variant.name);
            let failures: Vec<_> = samples.clone().filter_map(|it| it.failure.as_ref()).collect();
            let first = failures.first()?;
            let (failed, all) = (failures.len(), samples.count());
            let name = &variant.name;
            let all = table::counted(all, "run");
            Some(format!("{name}: {failed} of {all} failed, warm-up included: {first}"))
        };
        self.run.meta.variants.iter().filter_map(line).collect()
    }

    pub(super) fn as_json(&self) -> Value {
        let metrics = judged(&self.run.meta.metrics);
        let mut verdicts = Vec::new();
        for Workload { name, .. } in &self.run.meta.workloads {
            for variant in &self.run.meta.variants {
                let json = |metric: &&Metric| {
                    Some(self.judgements.get(name, &variant.name, metric)?.json())
                };
                verdicts.extend(metrics.iter().filter_map(json));
            }
        }
        let probes: Vec<Value> = self.looks.iter().map(|look| probe_json(look)).collect();
        let parameters = |work: &Work| {
            let pairs = work.variant.parameters.iter();
            Value::Object(pairs.map(|(name, value)| (name.clone(), json!(value))).collect())
        };
        json!({
            "schema": SCHEMA,
            "meta": self.run.meta,
            "parameters": self.works.iter().map(parameters).collect::<Vec<_>>(),
            "probe": probes[0],
            "probes": probes,
            "verdicts": verdicts,
            "remarks": self.remarks,
            "conclusion": self.closing(),
            "failures": self.run.failures(),
            "samples": self.run.samples,
        })
    }
}

pub(super) fn probe_json(look: &Result<FirstLook>) -> Value {
    let Ok(FirstLook { probe, runs, .. }) = look else { return Value::Null };
    json!({
        "runs": runs,
        "allocations": probe.calls.allocations,
        "frees": probe.calls.frees,
        "bytes": probe.calls.bytes,
        "call_ns": probe.calls.ns,
        "cpu_ns": probe.cpu_ns,
    })
}
