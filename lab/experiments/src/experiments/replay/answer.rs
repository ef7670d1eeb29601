//! The first lines of a run: a sentence of counts that answers the document's question, one of the
//! rates with their verdicts, and a table that fits a terminal. All three are made from the run.

use super::spec::{Answer, ROOM, Spec};
use super::tables::{columns, documented, wide};
use anyhow::Result;
use quarry_harness::judge::{Column, Judgement, Outcome, Reason, Row, Selection};
use quarry_harness::results::{Metric, Run};
use quarry_harness::statistics::MIN_PAIRS;
use quarry_harness::table::{self, Table, counted};
use std::io::Write;

pub(super) fn print(run: &Run, spec: &'static Spec, all: bool, out: &mut dyn Write) -> Result<()> {
    let selection = Selection::of(run);
    for sentence in [counts(&selection, &spec.answer), Some(rates(&selection))] {
        writeln!(out, "{}", sentence.unwrap_or_else(|| "No counts: no sample was taken.".into()))?;
    }
    let narrow = |intervals| narrow(&selection, spec, intervals).text_of(ROOM);
    let table = match (all, narrow(true)) {
        (true, _) => wide(&selection, spec),
        // Parts of a table that is too wide stand one below the other.
        (false, parts) if parts.contains("\n\n") => narrow(false),
        (false, whole) => whole,
    };
    Ok(writeln!(out, "\n{table}\n")?)
}

fn originals<'a, 'b>(of: &'b Selection<'a>) -> impl Iterator<Item = &'b Column<'a>> {
    columns(of).filter(|column| column.variant.copy_of.is_none())
}

fn metric<'a>(of: &Selection<'a>, name: &str) -> &'a Metric {
    let mut metrics = of.baseline().run.meta.metrics.iter();
    metrics.find(|metric| metric.name == name).expect("a test looks for the metric of each answer")
}

/// Counts below this are called seldom, and are named together.
const SELDOM: f64 = 0.01;

/// How often, in words: the figure is the table's.
fn often(value: f64) -> String {
    match &*table::figure(value) {
        _ if value == 0.0 => "never".to_owned(),
        "0.000" => "almost never".to_owned(),
        "1.00" => "once".to_owned(),
        "2.00" => "twice".to_owned(),
        figure if value < SELDOM => format!("hardly ever (at most {figure} times)"),
        figure => format!("{figure} times"),
    }
}

/// Returns the counts of the row in which the variants differ most; `None` without samples.
fn counts(of: &Selection<'_>, answer: &Answer) -> Option<String> {
    let first = metric(of, &answer.does.first()?.0);
    let spread = |row: Row<'_>| {
        let medians = originals(of).filter_map(|column| of.median(column, row, first));
        let (low, high) = medians.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        (high >= low).then_some((high - low, high))
    };
    let seen: Vec<_> = of.rows.iter().filter_map(|row| Some((*row, spread(*row)?))).collect();
    // The first of several equal rows.
    let (row, _) = seen.iter().rev().max_by(|one, two| one.1.0.total_cmp(&two.1.0))?;
    let clauses = answer.does.iter().map(|(name, does)| clause(of, *row, metric(of, name), does));
    let place = format!("{}, {}", row.workload, counted(row.tasks, "task"));
    let seldom = seen.iter().filter(|(_, (_, high))| *high < SELDOM).count();
    let elsewhere = match seldom {
        seldom if seldom == 0 || seldom == seen.len() => String::new(),
        _ => format!("; at most {SELDOM} times under each in {seldom} of {} rows", seen.len()),
    };
    let clauses = clauses.collect::<Vec<_>>().join(", and ");
    Some(format!("Each {} {clauses} ({place}{elsewhere}).", answer.each))
}

/// Returns how often under which variants, which are named together if their figures are equal.
fn clause(of: &Selection<'_>, row: Row<'_>, metric: &Metric, does: &str) -> String {
    let start = common(of);
    let medians = |column: &Column<'_>| of.median(column, row, metric);
    let seldom = originals(of).filter_map(medians).filter(|it| *it < SELDOM).fold(0.0, f64::max);
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for column in originals(of) {
        let words = medians(column).map(|it| often(if it < SELDOM { seldom } else { it }));
        let words = words.unwrap_or_else(|| "an unknown number of times".to_owned());
        let name = &column.label[start.len()..];
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, names)) => names.push(name),
            None => groups.push((words, vec![name])),
        }
    }
    let groups = groups.iter().map(|(words, names)| format!("{words} under {}", listed(names)));
    format!("{does} {}", groups.collect::<Vec<_>>().join(", "))
}

/// Writes `a, b and c`.
fn listed(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match &names[..] {
        [names @ .., last] if !names.is_empty() => format!("{} and {last}", names.join(", ")),
        names => names.concat(),
    }
}

/// Returns the verdict on each variant over all rows, the noise, and the verdicts of single rows.
pub(crate) fn rates(of: &Selection<'_>) -> String {
    let (metric, start) = (of.metric, common(of));
    let rivals: Vec<_> = originals(of).filter(|it| it.label != of.baseline().label).collect();
    let all: Vec<_> = rivals.iter().map(|column| of.judge_all(column, metric)).collect();
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for judged in &all {
        let (word, name) = (judged.outcome.word(), &judged.variant[start.len()..]);
        let named = format!("{name} ({})", judged.text()).replace(" ()", "");
        match groups.iter_mut().find(|(known, _)| *known == word) {
            Some((_, names)) => names.push(named),
            None => groups.push((word, vec![named])),
        }
    }
    let groups = groups.iter().map(|(word, names)| format!("{word} under {}", listed(names)));
    let (name, unit) = (metric.name[..1].to_uppercase() + &metric.name[1..], &metric.unit);
    let baseline = &of.baseline().label[start.len()..];
    let groups = groups.collect::<Vec<_>>().join("; ");
    let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
    let mut text = format!("{name}{unit} beside {baseline}: {groups}");
    if let Some(copy) = of.copy().map(|copy| of.judge_all(copy, metric)) {
        let off = copy.reach().or_else(|| copy.ratio().map(|ratio| (ratio - 1.0).abs()));
        text += &off.map_or(String::new(), |off| format!("; A/A {:.0} %", off * 100.0));
    }
    if all.iter().any(|it| (1..MIN_PAIRS).contains(&it.pairs)) {
        text += &format!("; a verdict needs --samples={MIN_PAIRS}");
    } else if of.rows.len() > 1 {
        text += &wins_and_losses(of, &rivals);
    }
    text + "."
}

/// Returns how many comparisons of a single row were won and lost.
fn wins_and_losses(of: &Selection<'_>, rivals: &[&Column<'_>]) -> String {
    let judged = of.rows.iter().flat_map(|row| rivals.iter().map(move |it| (*row, *it)));
    let outcomes: Vec<_> =
        judged.map(|(row, column)| of.judge(column, &[row], of.metric).outcome).collect();
    let with = |outcome| outcomes.iter().filter(|it| **it == outcome).count();
    format!(
        "; of {} by row {} better, {} worse, {} the same, {} undecided",
        counted(outcomes.len(), "comparison"),
        with(Outcome::Better),
        with(Outcome::Worse),
        with(Outcome::Same),
        with(Outcome::Undecided)
    )
}

/// Returns the part that all names have in common, up to a `+`.
fn common<'a>(of: &'a Selection<'_>) -> &'a str {
    let first = &of.baseline().label;
    let ends = first.match_indices('+').map(|(at, _)| &first[..=at]);
    let is_common = |start: &&str| of.columns.iter().all(|it| it.label.starts_with(start));
    ends.filter(is_common).last().unwrap_or("")
}

/// Returns the table of the answer's counts: a line for each variant, below its row's name. Without
/// `intervals` a sign stands for the verdict.
fn narrow(of: &Selection<'_>, spec: &'static Spec, intervals: bool) -> Table {
    let metrics: Vec<_> = spec.answer.columns().map(|name| metric(of, name)).collect();
    let start = common(of);
    let first = format!("row, policies {start}").trim_end().to_owned();
    let unit = of.metric.unit.clone();
    let names = [first, unit, "/ baseline".to_owned(), "document".to_owned()];
    let mut head: Vec<_> = names.into_iter().collect();
    head.extend(metrics.iter().map(|metric| match metric.unit.as_str() {
        unit if unit.starts_with("per ") => metric.name.clone(),
        unit => format!("{}, {unit}", metric.name),
    }));
    let mut rows = Vec::new();
    for &row in &of.rows {
        let title = format!("{}, {}", row.workload, counted(row.tasks, "task"));
        let blank = std::iter::repeat_with(String::new);
        rows.push([title].into_iter().chain(blank).take(head.len()).collect::<Vec<_>>());
        for column in columns(of) {
            let figure = |metric| table::figure_or(of.median(column, row, metric), "-");
            let ratio = ratio(&of.judge(column, &[row], of.metric), intervals);
            let document = documented(spec, row, column).0;
            let document = document.map_or(String::new(), |it| format!("{:.3}", it.ratio));
            let label = format!("  {}", &column.label[start.len()..]);
            let line = [label, figure(of.metric), ratio, document];
            rows.push(line.into_iter().chain(metrics.iter().map(|it| figure(it))).collect());
        }
    }
    Table::of(head, rows)
}

fn ratio(judged: &Judgement, intervals: bool) -> String {
    let sign = match judged.outcome {
        Outcome::NoVerdict(Reason::Baseline) => return "1".to_owned(),
        Outcome::NoVerdict(_) => return judged.outcome.word().to_owned(),
        Outcome::Better => "+",
        Outcome::Worse => "-",
        Outcome::Same => "=",
        _ => "?",
    };
    if intervals { judged.text() } else { format!("{} {sign}", judged.centre_text()) }
}
