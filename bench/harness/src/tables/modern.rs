//! A table of medians with quartiles, judgements, and explaining metrics.

use crate::judge::{Column, Judgement, MARGIN, Outcome, Reason, Row, Selection};
use crate::results::{Direction, Metric};
use crate::statistics::Quartiles;
use crate::table::{Entry, Table, Tone, figure, figure_or, variant, words};

/// Returns the table: a line for each row and variant, the geometric means last.
pub fn table(selection: &Selection<'_>) -> Table {
    let metric = selection.metric;
    let further = further_metrics(selection);
    let mut head = vec![
        words("workload"),
        words("variant"),
        Entry::from(format!("{} [quartiles]", metric.unit)),
        Entry::from(format!("{} / {} [95 %]", metric.name, selection.baseline().label)),
        Entry::from("n"),
        words("verdict"),
    ];
    head.extend(further.iter().map(|metric| Entry::from(metric.label())));
    let mut table = Table { head, rows: Vec::new() };
    for (name, rows) in selection.subjects_of(selection.metric) {
        // A mean has no line for the baseline.
        let columns = selection.columns.iter().skip(usize::from(rows.len() > 1));
        table.rows.extend(columns.map(|it| line(selection, &name, &rows, it, &further)));
    }
    table
}

fn further_metrics<'a>(selection: &Selection<'a>) -> Vec<&'a Metric> {
    let baseline = selection.baseline();
    let says = |metric: &&Metric| {
        let has_value = |row: &Row<'_>| selection.median(baseline, *row, metric).is_some();
        !metric.primary && selection.rows.iter().any(has_value)
    };
    baseline.run.meta.metrics.iter().filter(says).collect()
}

fn line<'a>(
    selection: &Selection<'a>,
    name: &str,
    rows: &[Row<'a>],
    column: &Column<'a>,
    further: &[&Metric],
) -> Vec<Entry> {
    let metric = selection.metric;
    let judgement = selection.judge(column, rows, metric);
    let is_baseline = judgement.outcome == Outcome::NoVerdict(Reason::Baseline);
    let (value, count) = match rows {
        [row] => {
            let samples = selection.samples(column, *row, metric);
            let count = samples.len();
            (described(samples), count)
        }
        _ => (String::new(), judgement.pairs),
    };
    let ratio = if is_baseline { "1".to_owned() } else { judgement.text() };
    let mut line = vec![
        words(name),
        variant(&column.label),
        Entry::from(value),
        Entry::from(ratio),
        Entry::from(count.to_string()),
        verdict(&judgement),
    ];
    line.extend(further.iter().map(|metric| match rows {
        [row] => Entry::from(figure_or(selection.median(column, *row, metric), "-")),
        _ => Entry::default(),
    }));
    line
}

/// Writes median and quartiles, which only describe the samples.
fn described(samples: Vec<f64>) -> String {
    let Some(it) = Quartiles::of(samples) else { return "failed".to_owned() };
    format!("{} [{}, {}]", figure(it.median), figure(it.low), figure(it.high))
}

fn verdict(judgement: &Judgement) -> Entry {
    let tone = match judgement.outcome {
        _ if judgement.is_copy => Tone::Words,
        Outcome::Better => Tone::Better,
        Outcome::Worse => Tone::Worse,
        _ => Tone::Words,
    };
    Entry::toned(tone, judgement.said())
}

/// Explains how to read the table.
pub fn legend(selection: &Selection<'_>) -> String {
    let better = match selection.metric.direction {
        Direction::Higher => "Higher is better.",
        Direction::Lower => "Lower is better.",
        Direction::None => "Neither way is better.",
    };
    let mut text = format!(
        "{better} Medians with the quartiles of the samples; ratios (Hodges-Lehmann, Wilcoxon) are \
         paired within rounds.\nsame: within {:.0} %. better, worse: beyond 1 \
         with 95 %, seen against both copies of the baseline.\nundecided, N more: N more samples \
         would settle it, if what was seen stays as it is.",
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
