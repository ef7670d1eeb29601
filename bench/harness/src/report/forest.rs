//! Forest plots: every variant's ratio to the baseline or difference from it, with its interval.

use super::axes::{self, Field};
use super::boxes::exact;
use super::card::{Card, WIDTH, px};
use super::lane::{self, Head};
use super::palette::Palette;
use super::scale::Scale;
use crate::judge::{Judgement, MARGIN, Outcome, Row, Selection};
use crate::results::{Metric, Relation};
use crate::statistics::{Estimate, Interval};
use crate::table::{Entry, Table, words};
use maud::{Markup, html};

const TRACK: f64 = 20.0;
const RADIUS: f64 = 4.5;
const END: f64 = 5.0;

/// The subject of a picture: a row, or the mean of several rows, in one metric.
pub(super) struct Subject<'a> {
    pub(super) title: String,
    pub(super) rows: Vec<Row<'a>>,
    pub(super) metric: &'a Metric,
}

/// The picture of a subject; `None` if no variant can be judged.
pub(super) fn card<'a>(
    selection: &Selection<'a>,
    subject: &Subject<'a>,
    palette: &Palette,
) -> Option<Card> {
    let metric = subject.metric;
    let judge = |column| selection.judge(column, &subject.rows, metric);
    let mut judged: Vec<Judgement> = selection.columns[1..].iter().map(judge).collect();
    // The A/A copy stands below the other variants.
    judged.sort_by_key(|judgement| judgement.is_copy);
    // If some judgements are ratios and some differences, the axis shows ratios.
    let relation = judged.iter().filter(|it| it.estimate.is_some()).map(|it| it.relation);
    let relation = relation.min_by_key(|it| *it != Relation::Ratio)?;
    let lanes: Vec<Lane> = judged.iter().map(|it| Lane::new(it, relation)).collect();
    let (tops, bottom) = lane::stacked(4.0, lanes.iter().map(Lane::height));
    let field = Field { left: 14.0, right: WIDTH - 18.0, top: 2.0, bottom };
    let scale = scale(&judged, relation, (field.left, field.right))?;
    let kind = if scale.is_log() { ", logarithmic" } else { "" };
    let baseline = &selection.baseline().label;
    let better = format!("{kind}{}", axes::better(metric.direction));
    let times = match relation {
        Relation::Ratio => "times".to_owned(),
        Relation::Difference => format!("{} more than", metric.unit).trim_start().to_owned(),
    };
    let says = axes::fitting([
        format!("{times} {baseline}{better}"),
        format!("{times} the baseline{better}"),
        "beside the baseline".to_owned(),
    ]);
    let picture = html! {
        (bands(&judged, relation, &scale, &field))
        (field.horizontal(&scale, &says))
        @for (lane, top) in lanes.iter().zip(&tops) {
            (lane.markup(palette, &scale, *top))
        }
    };
    Some(Card {
        title: subject.title.clone(),
        note: if metric.label() == subject.title { String::new() } else { metric.label() },
        alt: judged.iter().map(|it| format!("{}: {}", it.variant, spoken(it))).collect(),
        height: bottom + 38.0,
        picture,
        data: data(&judged).into(),
    })
}

fn scale(judged: &[Judgement], relation: Relation, places: (f64, f64)) -> Option<Scale> {
    let on_axis = judged.iter().filter(|it| it.relation == relation);
    let estimates = on_axis.filter_map(|it| it.estimate);
    let ends = |it: Estimate| match it.interval {
        None => vec![it.centre],
        Some(Interval { low, high }) => vec![it.centre, low, high],
    };
    let mut values: Vec<f64> = estimates.flat_map(ends).filter(|it| it.is_finite()).collect();
    if values.is_empty() {
        return None;
    }
    Some(match relation {
        Relation::Ratio => {
            values.extend([1.0 - MARGIN, 1.0 + MARGIN]);
            Scale::of_ratios(&values, places)
        }
        Relation::Difference => Scale::from_zero(&values, places),
    })
}

fn bands(judged: &[Judgement], relation: Relation, scale: &Scale, field: &Field) -> Markup {
    let noise = judged.iter().find(|it| it.is_copy && it.relation == relation);
    let noise = noise.and_then(Judgement::interval);
    let zero = if relation == Relation::Ratio { 1.0 } else { 0.0 };
    let x = px(scale.at(zero));
    html! {
        @if let Some(Interval { low, high }) = noise {
            @let hint = "noise: what an equal copy of the baseline measured";
            (field.band(scale, [low, high], "noise", hint))
        }
        @if relation == Relation::Ratio {
            @let ends = [1.0 - MARGIN, 1.0 + MARGIN];
            (field.band(scale, ends, "margin", "what counts as the same"))
        }
        line.one x1=(x) x2=(x) y1=(px(field.top)) y2=(px(field.bottom)) {}
    }
}

fn spoken(judgement: &Judgement) -> String {
    let word = match judgement.outcome {
        Outcome::NoVerdict(_) => return judgement.outcome.word().to_owned(),
        _ if judgement.is_copy => "noise",
        outcome => outcome.word(),
    };
    format!("{} {word}", judgement.text())
}

struct Lane<'a> {
    judgement: &'a Judgement,
    head: Head,
    is_on_axis: bool,
}

impl<'a> Lane<'a> {
    fn new(judgement: &'a Judgement, relation: Relation) -> Self {
        let is_finite = judgement.estimate.is_some_and(|it| it.centre.is_finite());
        let is_on_axis = is_finite && judgement.relation == relation;
        let head = Head::new(&judgement.variant, &spoken(judgement));
        Self { judgement, head, is_on_axis }
    }

    fn height(&self) -> f64 {
        self.head.height() + if self.is_on_axis { TRACK } else { 5.0 }
    }

    fn markup(&self, palette: &Palette, scale: &Scale, top: f64) -> Markup {
        let y = top + self.head.height() + TRACK / 2.0 - 2.0;
        let label = &self.judgement.variant;
        html! {
            g class=(palette.class(label)) {
                (self.head.markup(top, lane::class(self.judgement)))
                @if let Some(estimate) = self.judgement.estimate.filter(|_| self.is_on_axis) {
                    @if let Some(Interval { low, high }) = estimate.interval {
                        @let (from, to) = (px(scale.at(low)), px(scale.at(high)));
                        line.interval x1=(from) x2=(to) y1=(px(y)) y2=(px(y)) {}
                        @for x in [&from, &to] {
                            line.interval x1=(x) x2=(x) y1=(px(y - END)) y2=(px(y + END)) {}
                        }
                    }
                    (palette.marker(label, (scale.at(estimate.centre), y), RADIUS))
                }
            }
        }
    }
}

fn data(judged: &[Judgement]) -> Table {
    let row = |it: &Judgement| {
        let end = |of: fn(&Interval) -> f64| {
            it.interval().map_or(String::new(), |interval| exact(of(&interval)))
        };
        let centre = it.estimate.map_or(String::new(), |it| exact(it.centre));
        let kind = if it.relation == Relation::Ratio { "ratio" } else { "difference" };
        let [low, high] = [end(|it| it.low), end(|it| it.high)];
        let word = if it.is_copy { "noise" } else { it.outcome.word() };
        let texts = [kind.to_owned(), centre, low, high, it.pairs.to_string(), word.to_owned()];
        std::iter::once(it.variant.clone()).chain(texts)
    };
    let numbers = ["estimate", "low", "high", "pairs"].map(Entry::from);
    let head = [words("variant"), words("relation")].into_iter();
    let head = head.chain(numbers).chain([words("verdict")]);
    Table::of(head, judged.iter().map(row))
}
