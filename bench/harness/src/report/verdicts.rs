//! Tables of verdicts: in all metrics over all workloads, and in one metric on each workload.

use super::axes;
use crate::judge::{Judgement, MARGIN, Outcome, Selection};
use crate::results::{Direction, Metric};
use crate::table::{Entry, Table, Tone, variant, words};

pub(super) fn matrix(selection: &Selection<'_>) -> Table {
    let metrics = said_metrics(selection);
    let head = metrics.iter().map(|metric| {
        let better = axes::better(metric.direction).trim_start_matches(", ");
        let all = selection.rows.len();
        let of = match selection.complete_rows(metric).len() {
            rows if rows == all || rows == 0 => String::new(),
            rows => format!("{rows} of {all} workloads"),
        };
        let texts = [better, &of].into_iter().filter(|text| !text.is_empty());
        let detail = texts.collect::<Vec<&str>>().join(", ");
        let detail = Some(detail).filter(|text| !text.is_empty());
        Entry { detail, ..Entry::from(metric.label()) }
    });
    let row = |column| {
        let entry = |metric: &&Metric| full(&selection.judge_all(column, metric));
        std::iter::once(variant(&column.label)).chain(metrics.iter().map(entry)).collect()
    };
    let rows: Vec<Vec<Entry>> = selection.columns[1..].iter().map(row).collect();
    Table::of(std::iter::once(words("variant")).chain(head), rows)
}

/// Returns the metrics with a figure of any variant, the primary one first.
pub(super) fn said_metrics<'a>(selection: &Selection<'a>) -> Vec<&'a Metric> {
    let all = &selection.baseline().run.meta.metrics;
    let is_said = |metric: &&Metric| {
        metric.primary || selection.rows.iter().any(|row| selection.is_measured(*row, metric))
    };
    let mut metrics: Vec<&Metric> = all.iter().filter(is_said).collect();
    metrics.sort_by_key(|metric| !metric.primary);
    metrics
}

pub(super) fn glance(selection: &Selection<'_>, metric: &Metric) -> Table {
    let others = &selection.columns[1..];
    let head = others.iter().map(|column| variant(&column.label));
    let row = |(name, rows): (String, Vec<_>)| {
        let brief = |column| brief(&selection.judge(column, &rows, metric));
        std::iter::once(words(name)).chain(others.iter().map(brief)).collect()
    };
    let rows: Vec<Vec<Entry>> = selection.subjects_of(metric).into_iter().map(row).collect();
    Table::of(std::iter::once(words("workload")).chain(head), rows)
}

pub(super) fn legend() -> String {
    format!("▲ better, ▼ worse, = within {:.0} %, ↑ higher, ↓ lower, ? undecided", MARGIN * 100.0)
}

fn full(judgement: &Judgement) -> Entry {
    let (mark, name, tone) = sign(judgement);
    let text = format!("{} {name}", mark.trim()).trim().to_owned();
    Entry { text, tone, detail: Some(judgement.text()), hint: None }
}

fn brief(judgement: &Judgement) -> Entry {
    let (mark, name, tone) = sign(judgement);
    match judgement.outcome {
        Outcome::NoVerdict(_) => Entry::toned(tone, name),
        _ => Entry {
            text: judgement.centre_text() + mark,
            tone,
            hint: Some(format!("{name}: {}", judgement.text())),
            detail: None,
        },
    }
}

/// A verdict's sign, word and tone. The A/A copy gets no verdict: it shows the noise.
fn sign(judgement: &Judgement) -> (&'static str, &'static str, Tone) {
    match judgement.outcome {
        Outcome::NoVerdict(_) => ("", judgement.outcome.word(), Tone::Muted),
        _ if judgement.is_copy => ("", "copy", Tone::Muted),
        Outcome::Better => (" ▲", "better", Tone::Better),
        Outcome::Worse => (" ▼", "worse", Tone::Worse),
        Outcome::Same => (" =", "same", Tone::Number),
        Outcome::Higher => (" ↑", "higher", Tone::Number),
        Outcome::Lower => (" ↓", "lower", Tone::Number),
        outcome => (" ?", outcome.word(), Tone::Muted),
    }
}

pub(super) fn further<'a>(selection: &Selection<'a>) -> Vec<&'a Metric> {
    let metrics = said_metrics(selection).into_iter();
    metrics.filter(|it| !it.primary && it.direction != Direction::None).collect()
}
