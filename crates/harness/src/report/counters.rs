//! Counters that explain a rate: lock acquisitions, zone calls and others, per operation.

use super::boxes::exact;
use super::card::{Card, Data, LETTER, WIDTH, fitted, px};
use super::palette::Palette;
use crate::judge::{Row, Selection};
use crate::results::{Direction, Metric};
use crate::table::{Table, figure};
use maud::{Markup, html};

/// Height of a variant's bar, of a counter's name, and between counters.
const BAR: f64 = 16.0;
const HEAD: f64 = 20.0;
const GAP: f64 = 8.0;
/// Room for names at the left and for figures at the right.
const NAMES: f64 = 118.0;
const FIGURES: f64 = 52.0;

/// The counters of a run.
fn counters<'a>(selection: &Selection<'a>) -> impl Iterator<Item = &'a Metric> + use<'a> {
    let is_counter = |metric: &&Metric| !metric.primary && metric.direction == Direction::None;
    selection.baseline().run.meta.metrics.iter().filter(is_counter)
}

/// The picture of a row; `None` where nothing was counted.
pub(super) fn card(selection: &Selection<'_>, row: Row<'_>, palette: &Palette) -> Option<Card> {
    let medians = |metric: &Metric| -> Vec<Option<f64>> {
        selection.columns.iter().map(|column| selection.median(column, row, metric)).collect()
    };
    let counted: Vec<(&Metric, Vec<Option<f64>>)> = counters(selection)
        .map(|metric| (metric, medians(metric)))
        .filter(|(_, medians)| medians.iter().any(Option::is_some))
        .collect();
    if counted.is_empty() {
        return None;
    }
    let labels: Vec<&str> = selection.columns.iter().map(|column| column.label.as_str()).collect();
    let each = HEAD + BAR * labels.len() as f64 + GAP;
    Some(Card {
        title: format!("{}, counters", row.label(selection.has_tasks())),
        note: "medians; each counter has a scale of its own".to_owned(),
        height: each * counted.len() as f64,
        picture: html! {
            @for (index, (metric, medians)) in counted.iter().enumerate() {
                (bars(metric, &labels, medians, palette, each * index as f64))
            }
        },
        data: data(&counted, &labels),
    })
}

fn bars(
    metric: &Metric,
    labels: &[&str],
    medians: &[Option<f64>],
    palette: &Palette,
    top: f64,
) -> Markup {
    let most = medians.iter().flatten().copied().fold(0.0, f64::max);
    let length = |value: f64| match most > 0.0 {
        true => (value.max(0.0) / most) * (WIDTH - NAMES - FIGURES),
        false => 0.0,
    };
    html! {
        text.head x="4" y=(px(top + 14.0)) { (metric.label()) }
        @for (index, (label, median)) in labels.iter().zip(medians).enumerate() {
            @let y = top + HEAD + BAR * index as f64;
            g class=(palette.class(label)) {
                text.name x=(px(NAMES - 6.0)) y=(px(y + 12.0)) text-anchor="end" {
                    title { (label) }
                    (fitted(label, NAMES - LETTER))
                }
                @if let Some(value) = median {
                    rect.bar x=(px(NAMES)) y=(px(y + 2.0)) height=(px(BAR - 4.0))
                        width=(px(length(*value).max(0.5))) {}
                    text.said x=(px(NAMES + length(*value) + 5.0)) y=(px(y + 12.0)) {
                        (shown(*value, metric))
                    }
                }
            }
        }
    }
}

/// Small counts are the interesting ones: they keep the digits that their metric has.
fn shown(value: f64, metric: &Metric) -> String {
    let decimals = usize::from(metric.decimals).max(3);
    match value.abs() {
        0.0 => "0".to_owned(),
        it if it < 0.1 => format!("{value:.decimals$}"),
        _ => figure(value),
    }
}

fn data(counted: &[(&Metric, Vec<Option<f64>>)], labels: &[&str]) -> Data {
    let names = counted.iter().map(|(metric, _)| metric.label());
    let row = |(index, label): (usize, &&str)| {
        let cells = counted.iter().map(|(_, medians)| medians[index].map_or(String::new(), exact));
        std::iter::once((*label).to_owned()).chain(cells).collect()
    };
    let head = std::iter::once("variant".to_owned()).chain(names);
    Table::of(head, labels.iter().enumerate().map(row).collect::<Vec<Vec<String>>>()).into()
}
