//! Box plots: one picture per workload, one box per variant, every sample a dot.

use super::axes::{self, Field};
use super::card::{Card, Data, WIDTH, px};
use super::lane::{self, Head};
use super::palette::Palette;
use super::scale::Scale;
use crate::judge::{Column, Outcome, Reason, Row, Selection};
use crate::results::{Direction, Metric};
use crate::statistics::mmtests::Sorted;
use crate::statistics::{self, Interval};
use crate::table::{Table, counted, figure};
use maud::{Markup, html};

const TRACK: f64 = 27.0;
const HALF: f64 = 8.0;
/// Whiskers reach to the last sample within this many interquartile ranges of the box (Tukey 1977).
const WHISKERS: f64 = 1.5;

/// The picture of a row; `None` without a measurement.
pub(super) fn card<'a>(
    selection: &'a Selection<'a>,
    row: Row<'a>,
    metric: &Metric,
    palette: &Palette,
) -> Option<Card> {
    let lanes: Vec<Lane<'_>> =
        selection.columns.iter().map(|column| Lane::new(selection, column, row, metric)).collect();
    let values: Vec<f64> = lanes.iter().flat_map(|lane| lane.values.iter().copied()).collect();
    if values.is_empty() {
        return None;
    }
    let (tops, bottom) = lane::stacked(4.0, lanes.iter().map(Lane::height));
    let field = Field { left: 14.0, right: WIDTH - 18.0, top: 2.0, bottom };
    let scale = Scale::covering(&values, (field.left, field.right));
    let kind = if scale.is_log() { ", logarithmic" } else { "" };
    let picture = html! {
        @if let Some(band) = noise_band(selection, row, metric, &scale, &field) { (band) }
        (field.horizontal(&scale, &format!("{}{kind}", axes::says(metric))))
        @for (lane, top) in lanes.iter().zip(&tops) {
            (lane.markup(palette, &scale, *top, metric.direction))
        }
    };
    Some(Card {
        title: match selection.rows.len() {
            1 => format!("{}, samples", metric.label()),
            _ => row.label(selection.has_tasks()),
        },
        note: if selection.rows.len() == 1 { String::new() } else { metric.name.clone() },
        alt: lanes.iter().map(|lane| format!("{}: {}", lane.label, lane.said)).collect(),
        height: bottom + 38.0,
        picture,
        data: data(selection, row, metric),
    })
}

/// Draws the noise: the interval of the A/A copy around the baseline's median.
fn noise_band<'a>(
    selection: &Selection<'a>,
    row: Row<'a>,
    metric: &Metric,
    scale: &Scale,
    field: &Field,
) -> Option<Markup> {
    let copy = selection.copy()?;
    let Interval { low, high } = selection.judge(copy, &[row], metric).ratios()?;
    let median = selection.median(selection.baseline(), row, metric)?;
    let hint = format!("noise: an equal copy measured {low:.3} to {high:.3} of the baseline");
    Some(field.band(scale, [median * low, median * high], "noise", &hint))
}

struct Lane<'a> {
    label: &'a str,
    values: Vec<f64>,
    median: Option<f64>,
    said: String,
    head: Head,
    class: &'static str,
}

impl<'a> Lane<'a> {
    fn new(
        selection: &Selection<'a>,
        column: &'a Column<'a>,
        row: Row<'a>,
        metric: &Metric,
    ) -> Self {
        let judgement = selection.judge(column, &[row], metric);
        // The ratio is in the forest plot, with its interval. Here, beside medians, it would look
        // wrong, because it is not their quotient.
        let said = match judgement.outcome {
            Outcome::NoVerdict(Reason::Baseline) => "baseline",
            Outcome::NoVerdict(_) => "",
            _ if judgement.is_copy => "copy",
            outcome => outcome.word(),
        };
        let mut values = selection.samples(column, row, metric);
        values.retain(|value| value.is_finite());
        let median = statistics::median(&values);
        let said = match median {
            None => "failed".to_owned(),
            Some(median) if said.is_empty() => figure(median),
            Some(median) => format!("{} · {said}", figure(median)),
        };
        let head = Head::new(&column.label, &said);
        let class = lane::class(&judgement);
        Self { label: &column.label, values, median, said, head, class }
    }

    fn height(&self) -> f64 {
        self.head.height() + TRACK
    }

    fn markup(&self, palette: &Palette, scale: &Scale, top: f64, direction: Direction) -> Markup {
        let sorted = Sorted::new(self.values.clone());
        html! {
            g class=(palette.class(self.label)) {
                (self.head.markup(top, self.class))
                @if let Some(sorted) = &sorted {
                    (self.drawn(sorted, scale, top + self.head.height() + 13.0, direction))
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
        let [middle, first, third] = [median, low, high].map(figure);
        let samples = counted(self.values.len(), "sample") + axes::better(direction);
        let hint =
            format!("{}: median {middle}, quartiles {first} and {third}, {samples}", self.label);
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

/// Spreads dots vertically by multiples of the golden ratio, whose fractions are never close.
fn spread(index: usize) -> f64 {
    ((index as f64 * 0.618_034).fract() - 0.5) * 2.0 * (HALF - 2.0)
}

fn data(selection: &Selection<'_>, row: Row<'_>, metric: &Metric) -> Data {
    let columns: Vec<Vec<Option<f64>>> =
        selection.columns.iter().map(|it| selection.values(it, row, metric)).collect();
    let rounds = columns.iter().map(Vec::len).max().unwrap_or(0);
    let line = |round: usize| {
        let cells = columns
            .iter()
            .map(move |column| column.get(round).copied().flatten().map_or(String::new(), exact));
        std::iter::once((round + 1).to_string()).chain(cells)
    };
    let labels = selection.columns.iter().map(|column| column.label.clone());
    let head = std::iter::once("round".to_owned()).chain(labels);
    Table::of(head, (0..rounds).map(line)).into()
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
