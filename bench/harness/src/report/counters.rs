//! Counters that explain a rate: lock acquisitions, calls of the zone and others, per operation.

use super::boxes::exact;
use super::card::{Card, Data, LETTER, WIDTH, px};
use super::lane::{self, Head};
use super::palette::Palette;
use crate::judge::{Row, Selection};
use crate::results::{Direction, Metric};
use crate::table::{Table, figure};
use maud::{Markup, html};

const BAR: f64 = 16.0;
const GAP: f64 = 12.0;
const NAMES: f64 = 118.0;
const FIGURES: f64 = 52.0;

/// The picture of a row; `None` without a counter.
pub(super) fn card(selection: &Selection<'_>, row: Row<'_>, palette: &Palette) -> Option<Card> {
    let medians = |metric: &Metric| -> Vec<Option<f64>> {
        selection.columns.iter().map(|column| selection.median(column, row, metric)).collect()
    };
    let all = selection.baseline().run.meta.metrics.iter();
    let counted: Vec<(&Metric, Vec<Option<f64>>)> = all
        .filter(|metric| !metric.primary && metric.direction == Direction::None)
        .map(|metric| (metric, medians(metric)))
        .filter(|(_, medians)| medians.iter().any(Option::is_some))
        .collect();
    if counted.is_empty() {
        return None;
    }
    let labels: Vec<&str> = selection.columns.iter().map(|column| column.label.as_str()).collect();
    let groups: Vec<Group<'_>> =
        counted.iter().map(|(metric, medians)| Group::new(metric, &labels, medians)).collect();
    let (tops, height) = lane::stacked(0.0, groups.iter().map(Group::height));
    Some(Card {
        title: format!("{}, counters", row.label(selection.has_tasks())),
        note: "medians; each counter has a scale of its own".to_owned(),
        alt: Vec::new(),
        height,
        picture: html! {
            @for (group, top) in groups.iter().zip(&tops) { (group.markup(palette, *top)) }
        },
        data: data(&counted, &labels),
    })
}

struct Group<'a> {
    head: Head,
    bars: Vec<Bar<'a>>,
    most: f64,
    is_narrow: bool,
}

struct Bar<'a> {
    label: &'a str,
    median: Option<f64>,
    said: String,
    head: Head,
}

impl<'a> Group<'a> {
    fn new(metric: &Metric, labels: &[&'a str], medians: &[Option<f64>]) -> Self {
        let bar = |(label, median): (&&'a str, &Option<f64>)| {
            let median = median.filter(|it| it.is_finite());
            let said = median.map_or("-".to_owned(), |median| shown(median, metric));
            Bar { label, median, head: Head::new(label, &said), said }
        };
        Self {
            head: Head::new(&metric.label(), ""),
            bars: labels.iter().zip(medians).map(bar).collect(),
            most: medians.iter().flatten().copied().fold(0.0, f64::max),
            is_narrow: labels.iter().all(|label| lane::extent(label) <= NAMES - LETTER),
        }
    }

    fn height(&self) -> f64 {
        self.head.height() + self.bars.iter().map(|it| self.of_bar(it)).sum::<f64>() + GAP
    }

    fn of_bar(&self, bar: &Bar<'_>) -> f64 {
        if self.is_narrow { BAR } else { BAR + bar.head.height() }
    }

    fn length(&self, value: f64, room: f64) -> f64 {
        let share = if self.most > 0.0 { value.max(0.0) / self.most } else { 0.0 };
        (share * room).max(0.5)
    }

    fn markup(&self, palette: &Palette, top: f64) -> Markup {
        let first = top + self.head.height() + 3.0;
        let (tops, _) = lane::stacked(first, self.bars.iter().map(|bar| self.of_bar(bar)));
        html! {
            (self.head.markup(top, "head"))
            @for (bar, top) in self.bars.iter().zip(&tops) {
                g class=(palette.class(bar.label)) {
                    @if self.is_narrow {
                        (self.beside(bar, *top))
                    } @else {
                        (self.below(bar, *top))
                    }
                }
            }
        }
    }

    fn beside(&self, bar: &Bar<'_>, top: f64) -> Markup {
        let length = bar.median.map_or(0.0, |it| self.length(it, WIDTH - NAMES - FIGURES));
        html! {
            text.name x=(px(NAMES - 6.0)) y=(px(top + 12.0)) text-anchor="end" { (bar.label) }
            rect.bar x=(px(NAMES)) y=(px(top + 2.0)) height=(px(BAR - 4.0)) width=(px(length)) {}
            text.said x=(px(NAMES + length + 5.0)) y=(px(top + 12.0)) { (bar.said) }
        }
    }

    fn below(&self, bar: &Bar<'_>, top: f64) -> Markup {
        let length = bar.median.map_or(0.0, |it| self.length(it, WIDTH - 8.0));
        let y = top + bar.head.height();
        html! {
            (bar.head.markup(top, "said"))
            rect.bar x="4" y=(px(y + 2.0)) height=(px(BAR - 8.0)) width=(px(length)) {}
        }
    }
}

/// Writes a figure; one below 0.1 gets the decimals of its metric, but at least three.
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
        let cells = counted.iter().map(move |(_, it)| it[index].map_or(String::new(), exact));
        std::iter::once((*label).to_owned()).chain(cells)
    };
    let head = std::iter::once("variant".to_owned()).chain(names);
    Table::of(head, labels.iter().enumerate().map(row)).into()
}
