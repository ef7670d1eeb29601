//! Medians with their intervals, ratios with verdicts, and what explains them.

use super::selection::{Column, Row, Selection};
use crate::results::{Direction, Metric};
use crate::statistics::verdict::{MARGIN, Verdict};
use crate::statistics::{self, Interval};
use crate::table;
use crate::targets::TargetsOf;

/// Decimals of ratios.
const RATIO_DECIMALS: usize = 3;

/// The column of verdicts.
pub const VERDICT: usize = 6;
/// Columns of words: workload, variant, verdict.
const TEXT_COLUMNS: [usize; 3] = [0, 1, VERDICT];

/// The machine, the table, and how it is to be read.
pub(super) fn tables(selection: &Selection<'_>, targets: TargetsOf<'_>) -> String {
    let mut text = String::new();
    for (place, run) in selection.runs() {
        text += &format!("{place}, {}: {}", run.meta.experiment, run.head("see meta.json."));
    }
    let Judged { header, lines } = judged(selection);
    let mut rows: Vec<Vec<String>> = lines.into_iter().map(|line| line.cells).collect();
    // A name is printed once.
    for index in (1..rows.len()).rev() {
        if rows[index][0] == rows[index - 1][0] {
            rows[index][0].clear();
        }
    }
    for targets in selection.runs().iter().filter_map(|(_, run)| targets(run)) {
        text += &format!("\n{}\n", targets.text());
    }
    text += &format!("\n{}\n\n", table::render_aligned(header, rows, &TEXT_COLUMNS));
    text + &legend(selection)
}

/// The table with the judgements that its words come from.
pub struct Judged {
    /// Names of columns.
    pub header: Vec<String>,
    /// A line for each row and variant; the geometric means come last.
    pub lines: Vec<Line>,
}

/// A line of the table.
pub struct Line {
    /// As they are printed: the row's name first, then the variant's.
    pub cells: Vec<String>,
    /// `None` for the baseline, and where nothing can be said.
    pub verdict: Option<Verdict>,
}

/// Judges every variant on every row, and on all of them together.
pub fn judged(selection: &Selection<'_>) -> Judged {
    let further: Vec<&Metric> = further_metrics(selection);
    let mut lines = Vec::new();
    for &row in &selection.rows {
        lines.extend(selection.columns.iter().map(|column| line(selection, row, column, &further)));
    }
    if selection.rows.len() > 1 {
        lines.extend(means(selection, further.len()));
    }
    Judged { header: header(selection, &further), lines }
}

/// Every other metric that says something in one of the rows.
fn further_metrics<'a>(selection: &Selection<'a>) -> Vec<&'a Metric> {
    let baseline = selection.baseline();
    let says = |metric: &&Metric| {
        let has_value = |row: &Row<'_>| {
            selection.values_of(baseline, *row, metric).into_iter().flatten().next().is_some()
        };
        !metric.primary && selection.rows.iter().any(has_value)
    };
    baseline.run.meta.metrics.iter().filter(says).collect()
}

fn header(selection: &Selection<'_>, further: &[&Metric]) -> Vec<String> {
    let metric = selection.metric;
    let baseline = &selection.baseline().label;
    let mut header = vec![
        "workload".to_owned(),
        "variant".to_owned(),
        format!("{} [95 %]", metric.unit),
        format!("{} / {baseline} [95 %]", metric.name),
        "p".to_owned(),
        "n".to_owned(),
        "verdict".to_owned(),
    ];
    header.extend(further.iter().map(|metric| metric.label()));
    header
}

fn line(selection: &Selection<'_>, row: Row<'_>, column: &Column<'_>, further: &[&Metric]) -> Line {
    let samples = selection.samples(column, row);
    let estimate = statistics::estimate(&samples);
    let value = estimate.map_or("failed".to_owned(), |estimate| {
        with_interval(estimate.median, estimate.interval, table::figure)
    });
    let mut cells = vec![row.label(selection.has_tasks()), column.label.clone(), value];
    let mut verdict = None;
    if std::ptr::eq(column, selection.baseline()) {
        cells.extend(["1".to_owned(), String::new(), samples.len().to_string(), String::new()]);
    } else {
        verdict = selection.judge(column, |column| selection.values(column, row));
        let others = selection.samples(selection.baseline(), row);
        let p = statistics::mann_whitney(&samples, &others);
        cells.push(verdict.map_or(String::new(), |it| ratio(&it)));
        cells.push(p.map_or(String::new(), |p| format!("{p:.3}")));
        cells.push(samples.len().to_string());
        cells.push(said(selection, column, verdict));
    }
    cells.extend(further.iter().map(|metric| {
        let values: Vec<f64> =
            selection.values_of(column, row, metric).into_iter().flatten().collect();
        statistics::median(&values).map_or("-".to_owned(), table::figure)
    }));
    Line { cells, verdict }
}

/// Geometric means over the rows in which every column has samples.
fn means(selection: &Selection<'_>, further: usize) -> Vec<Line> {
    let has_all = |row: &&Row<'_>| {
        selection.columns.iter().all(|column| !selection.samples(column, **row).is_empty())
    };
    let rows: Vec<Row<'_>> = selection.rows.iter().filter(has_all).copied().collect();
    let left_out = selection.rows.len() - rows.len();
    let name = match left_out {
        0 => format!("geometric mean of {}", rows.len()),
        _ => format!("geometric mean of {}, {left_out} left out", rows.len()),
    };
    // Per round; rounds in which one of the rows has a gap are left out.
    let by_round = |column: &Column<'_>| -> Vec<Option<f64>> {
        let values: Vec<Vec<Option<f64>>> =
            rows.iter().map(|row| selection.values(column, *row)).collect();
        let mean = |round: usize| {
            let of_round: Option<Vec<f64>> = values.iter().map(|rounds| rounds[round]).collect();
            statistics::geometric_mean(&of_round?)
        };
        (0..column.run.rounds()).map(mean).collect()
    };
    let line = |column: &Column<'_>| {
        let verdict = selection.judge(column, by_round);
        let (name, label) = (name.clone(), column.label.clone());
        let runs = verdict.map_or(String::new(), |it| it.runs.to_string());
        let ratio = verdict.map_or(String::new(), |it| ratio(&it));
        let said = said(selection, column, verdict);
        let mut cells = vec![name, label, String::new(), ratio, String::new(), runs, said];
        cells.extend(std::iter::repeat_n(String::new(), further));
        Line { cells, verdict }
    };
    match rows.is_empty() {
        true => Vec::new(),
        false => selection.columns[1..].iter().map(line).collect(),
    }
}

fn ratio(verdict: &Verdict) -> String {
    with_interval(verdict.centre, verdict.interval, |it| format!("{it:.RATIO_DECIMALS$}"))
}

fn with_interval(value: f64, interval: Option<Interval>, print: fn(f64) -> String) -> String {
    match interval {
        Some(Interval { low, high }) => {
            format!("{} [{}, {}]", print(value), print(low), print(high))
        }
        None => print(value),
    }
}

fn said(selection: &Selection<'_>, column: &Column<'_>, verdict: Option<Verdict>) -> String {
    let Some(verdict) = verdict else { return "-".to_owned() };
    if selection.is_copy(column) {
        let floor = verdict.interval.map(|it| (it.high.ln().max(-it.low.ln()).exp() - 1.0) * 100.0);
        return floor.map_or("noise".to_owned(), |floor| format!("noise: {floor:.1} %"));
    }
    let apart = if selection.is_paired(column) { "" } else { ", unpaired" };
    match verdict.more_runs {
        Some(more) => format!("{}, {more} more{apart}", verdict.outcome.word()),
        None => format!("{}{apart}", verdict.outcome.word()),
    }
}

/// How the table is to be read.
pub fn legend(selection: &Selection<'_>) -> String {
    let better = match selection.metric.direction {
        Direction::Higher => "Higher is better.",
        Direction::Lower => "Lower is better.",
        Direction::None => "Neither way is better.",
    };
    let mut text = format!(
        "{better} Medians with bootstrap intervals; ratios (Hodges-Lehmann) are paired within \
         rounds; p: Mann-Whitney.\nsame: within {:.0} %. better, worse: beyond 1 with 95 %, seen \
         against both copies of the baseline.\nundecided, N more: so many more samples would \
         settle it, if what was seen stays so.",
        MARGIN * 100.0
    );
    if selection.copy().is_none() {
        text += "\nNo A/A copy ran along: better and worse are beyond the margin.";
    }
    if selection.columns.iter().any(|column| !selection.is_paired(column)) {
        text += "\nunpaired: from another run than the baseline; what changed between the runs \
                 enters the ratio.";
    }
    text
}
