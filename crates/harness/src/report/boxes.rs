//! Box plots: one picture per workload, one box per variant, every sample a dot.

use super::axes::{self, Field};
use super::card::{Card, Data, LETTER, WIDTH, fitted, px};
use super::palette::Palette;
use super::scale::Scale;
use crate::judge::{Column, Outcome, Reason, Row, Selection};
use crate::results::{Direction, Relation};
use crate::statistics::mmtests::Sorted;
use crate::statistics::{self, Interval};
use crate::table::{Table, figure};
use maud::{Markup, html};

/// Height of a variant: its name and its box.
const LANE: f64 = 42.0;
/// Half the height of a box.
const HALF: f64 = 8.0;
/// Whiskers reach to the last sample within this many interquartile ranges (Tukey 1977).
const WHISKERS: f64 = 1.5;

/// The picture of a row; `None` where nothing was measured.
pub(super) fn card<'a>(
    selection: &'a Selection<'a>,
    row: Row<'a>,
    palette: &Palette,
) -> Option<Card> {
    let lanes: Vec<Lane<'_>> =
        selection.columns.iter().map(|column| Lane::new(selection, column, row)).collect();
    let values: Vec<f64> = lanes.iter().flat_map(|lane| lane.values.iter().copied()).collect();
    if values.is_empty() {
        return None;
    }
    let bottom = 4.0 + LANE * lanes.len() as f64;
    let field = Field { left: 14.0, right: WIDTH - 18.0, top: 2.0, bottom };
    let scale = Scale::covering(&values, (field.left, field.right));
    let metric = selection.metric;
    let kind = if scale.is_log() { ", logarithmic" } else { "" };
    let picture = html! {
        @if let Some(band) = noise_band(selection, row, &scale, &field) { (band) }
        (field.horizontal(&scale, &format!("{}{kind}", axes::says(metric))))
        @for (index, lane) in lanes.iter().enumerate() {
            (lane.markup(palette, &scale, 4.0 + LANE * index as f64, metric.direction))
        }
    };
    Some(Card {
        title: row.label(selection.has_tasks()),
        note: metric.name.clone(),
        height: bottom + 38.0,
        picture,
        data: data(selection, row),
    })
}

/// Draws the noise: the interval of the A/A copy around the baseline's median.
fn noise_band<'a>(
    selection: &Selection<'a>,
    row: Row<'a>,
    scale: &Scale,
    field: &Field,
) -> Option<Markup> {
    let copy = selection.copy()?;
    let Interval { low, high } = selection.judge(copy, &[row], selection.metric).ratios()?;
    let median = selection.median(selection.baseline(), row, selection.metric)?;
    let (from, to) = (scale.at(median * low), scale.at(median * high));
    let width = (to - from).max(1.0);
    let hint = format!("noise: an equal copy measured {low:.3} to {high:.3} of the baseline");
    Some(html! {
        rect.noise x=(px(from)) width=(px(width)) y=(px(field.top))
            height=(px(field.bottom - field.top)) { title { (hint) } }
    })
}

/// A variant in the picture.
struct Lane<'a> {
    label: &'a str,
    values: Vec<f64>,
    median: Option<f64>,
    said: String,
    outcome: Option<Outcome>,
}

impl<'a> Lane<'a> {
    fn new(selection: &Selection<'a>, column: &'a Column<'a>, row: Row<'a>) -> Self {
        let judgement = selection.judge(column, &[row], selection.metric);
        let times = match judgement.relation {
            Relation::Ratio => format!("×{}", judgement.centre_text()),
            Relation::Difference => judgement.centre_text(),
        };
        let said = match judgement.outcome {
            Outcome::NoVerdict(Reason::Baseline) => "baseline".to_owned(),
            Outcome::NoVerdict(_) => String::new(),
            _ if judgement.is_copy => times,
            outcome => format!("{times} {}", outcome.word()),
        };
        let values = selection.samples(column, row, selection.metric);
        let median = statistics::median(&values);
        let outcome = Some(judgement.outcome).filter(|_| !judgement.is_copy);
        Self { label: &column.label, values, median, said, outcome }
    }

    fn markup(&self, palette: &Palette, scale: &Scale, top: f64, direction: Direction) -> Markup {
        let sorted = Sorted::new(self.values.clone());
        let said = match self.median {
            None => "failed".to_owned(),
            Some(median) if self.said.is_empty() => figure(median),
            Some(median) => format!("{} · {}", figure(median), self.said),
        };
        let said_class = match self.outcome {
            Some(Outcome::Better) => "said better",
            Some(Outcome::Worse) => "said worse",
            _ => "said",
        };
        let room = WIDTH - 16.0 - (said.chars().count() + 1) as f64 * LETTER;
        html! {
            g class=(palette.class(self.label)) {
                text.name x="4" y=(px(top + 13.0)) {
                    title { (self.label) }
                    (fitted(self.label, room))
                }
                text class=(said_class) x=(px(WIDTH - 4.0)) y=(px(top + 13.0)) text-anchor="end" {
                    (said)
                }
                @if let Some(sorted) = &sorted {
                    (self.drawn(sorted, scale, top + 28.0, direction))
                }
            }
        }
    }

    fn drawn(&self, sorted: &Sorted, scale: &Scale, y: f64, direction: Direction) -> Markup {
        let (low, high) = (sorted.at(0.25), sorted.at(0.75));
        let median = self.median.unwrap_or(low);
        let reach = WHISKERS * (high - low);
        let inside = || self.values.iter().filter(|it| (low - reach..=high + reach).contains(*it));
        let least = inside().copied().fold(low, f64::min);
        let most = inside().copied().fold(high, f64::max);
        let hint = format!(
            "{}: median {}, quartiles {} and {}, {} samples{}",
            self.label,
            figure(median),
            figure(low),
            figure(high),
            self.values.len(),
            axes::better(direction)
        );
        let x = |value: f64| px(scale.at(value));
        html! {
            line.whisker x1=(x(least)) x2=(x(most)) y1=(px(y)) y2=(px(y)) {}
            rect.box x=(x(low)) y=(px(y - HALF)) height=(px(2.0 * HALF))
                width=(px((scale.at(high) - scale.at(low)).max(1.0))) { title { (hint) } }
            @for (index, value) in self.values.iter().enumerate() {
                circle.dot cx=(x(*value)) cy=(px(y + spread(index))) r="1.8" {}
            }
            line.median x1=(x(median)) x2=(x(median)) y1=(px(y - HALF - 2.0))
                y2=(px(y + HALF + 2.0)) {}
        }
    }
}

/// Keeps dots apart: the golden ratio's multiples never come close to each other.
fn spread(index: usize) -> f64 {
    ((index as f64 * 0.618_034).fract() - 0.5) * 2.0 * (HALF - 2.0)
}

/// A row per round, a column per variant.
fn data(selection: &Selection<'_>, row: Row<'_>) -> Data {
    let columns: Vec<Vec<Option<f64>>> =
        selection.columns.iter().map(|it| selection.values(it, row, selection.metric)).collect();
    let rounds = columns.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |column: &Vec<Option<f64>>, round: usize| {
        column.get(round).copied().flatten().map_or(String::new(), exact)
    };
    let line = |round: usize| {
        let cells = columns.iter().map(|column| cell(column, round));
        std::iter::once((round + 1).to_string()).chain(cells).collect()
    };
    let labels = selection.columns.iter().map(|column| column.label.clone());
    let head = std::iter::once("round".to_owned()).chain(labels);
    Table::of(head, (0..rounds).map(line).collect::<Vec<Vec<String>>>()).into()
}

/// Writes a sample with all of its significant digits.
pub(super) fn exact(value: f64) -> String {
    match value.abs() {
        it if it >= 1e6 || it == 0.0 => format!("{value:.0}"),
        it => {
            let decimals = (6.0 - it.log10().floor()).clamp(0.0, 12.0) as usize;
            let text = format!("{value:.decimals$}");
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_written_exactly() {
        let of = [0.0, 2.5, 1_234_567.8, 0.001_234_5, 100.0, -3.25].map(exact);
        assert_eq!(of, ["0", "2.5", "1234568", "0.0012345", "100", "-3.25"]);
    }

    #[test]
    fn dots_stay_in_their_box() {
        assert!((0..1000).all(|index| spread(index).abs() <= HALF - 2.0));
    }
}
