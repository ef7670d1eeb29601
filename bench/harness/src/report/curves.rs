//! Scaling curves: operations per second over the number of tasks, with the ideal line.

use super::axes::Field;
use super::boxes::exact;
use super::card::{Card, Data, WIDTH, points, px};
use super::palette::Palette;
use super::scale::Scale;
use crate::judge::{Row, Selection};
use crate::results::Metric;
use crate::statistics::Quartiles;
use crate::table::{Table, counted, figure};
use maud::{Markup, html};

const HEIGHT: f64 = 270.0;
const FIELD: Field = Field { left: 46.0, right: WIDTH - 14.0, top: 24.0, bottom: HEIGHT - 40.0 };
/// The axis is logarithmic if the largest number of tasks is at least this multiple of the least.
const DOUBLING: f64 = 8.0;

struct Curve<'a> {
    label: &'a str,
    /// Operations per second by number of tasks.
    points: Vec<(u32, Quartiles)>,
}

/// The picture of a workload; `None` with figures for fewer than two numbers of tasks.
pub(super) fn card(selection: &Selection<'_>, workload: &str, palette: &Palette) -> Option<Card> {
    let mut rows: Vec<Row<'_>> =
        selection.rows.iter().filter(|row| row.workload == workload).copied().collect();
    rows.sort_by_key(|row| row.tasks);
    let rate = Metric::rate("operations per second");
    let curves: Vec<Curve<'_>> = selection
        .columns
        .iter()
        .map(|column| {
            let point = |row: &Row<'_>| {
                Some((row.tasks, Quartiles::of(selection.samples(column, *row, &rate))?))
            };
            Curve { label: &column.label, points: rows.iter().filter_map(point).collect() }
        })
        .collect();
    let longest = curves.iter().map(|curve| curve.points.len()).max().unwrap_or(0);
    if rows.len() < 2 || longest < 2 {
        return None;
    }
    Some(Card {
        title: format!("{workload}, scaling"),
        note: "operations per second, higher is better; medians and quartiles; dashed: as many \
               times the baseline with the fewest tasks"
            .to_owned(),
        alt: Vec::new(),
        height: HEIGHT,
        picture: picture(&curves, palette),
        data: data(&curves),
    })
}

fn picture(curves: &[Curve<'_>], palette: &Palette) -> Markup {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let tops: Vec<f64> = all().map(|(_, rates)| rates.high.max(rates.median)).collect();
    let mut tasks: Vec<u32> = all().map(|(tasks, _)| *tasks).collect();
    tasks.sort_unstable();
    tasks.dedup();
    let (fewest, most) = (f64::from(tasks[0]), f64::from(tasks[tasks.len() - 1]));
    let y = Scale::from_zero(&tops, (FIELD.bottom, FIELD.top));
    let x = Scale::exact(
        fewest,
        most,
        most >= fewest * DOUBLING,
        (FIELD.left + 8.0, FIELD.right - 8.0),
    );
    html! {
        (FIELD.vertical(&y, "operations per second"))
        (task_axis(&tasks, &x))
        @if let Some(ideal) = ideal(curves, &x, &y, (fewest, most)) { (ideal) }
        @for curve in curves { (line(curve, palette, &x, &y)) }
    }
}

/// Labels the axis of tasks; a label that would touch the previous one is left out.
fn task_axis(tasks: &[u32], x: &Scale) -> Markup {
    let mut last = f64::NEG_INFINITY;
    let mut named = Vec::new();
    for &number in tasks {
        let (place, text) = (x.at(f64::from(number)), number.to_string());
        let half = text.len() as f64 * 4.0;
        if place - half > last + 4.0 {
            last = place + half;
            named.push((place, text));
        }
    }
    html! {
        @for (place, text) in &named {
            text x=(px(*place)) y=(px(FIELD.bottom + 15.0)) text-anchor="middle" { (text) }
        }
        text.axis x=(px((FIELD.left + FIELD.right) / 2.0)) y=(px(FIELD.bottom + 32.0))
            text-anchor="middle" { "tasks" }
    }
}

/// Draws the baseline as if its rate grew in proportion to the tasks, up to the end of the field.
fn ideal(curves: &[Curve<'_>], x: &Scale, y: &Scale, (fewest, most): (f64, f64)) -> Option<Markup> {
    let (tasks, rates) = curves.first()?.points.first()?;
    let per_task = rates.median / f64::from(*tasks);
    let end = most.min(y.high() / per_task);
    let place = |step: i32| {
        let number = fewest + (end - fewest).max(0.0) * f64::from(step) / 24.0;
        (x.at(number), y.at(per_task * number))
    };
    let points = points((0..=24).map(place));
    Some(html! { polyline.ideal points=(points) { title { "ideal scaling of the baseline" } } })
}

fn line(curve: &Curve<'_>, palette: &Palette, x: &Scale, y: &Scale) -> Markup {
    let place = |(tasks, rates): &(u32, Quartiles)| (x.at(f64::from(*tasks)), y.at(rates.median));
    let points = points(curve.points.iter().map(place));
    html! {
        g class=(palette.class(curve.label)) {
            polyline.curve points=(points) {}
            @for point @ (tasks, rates) in &curve.points {
                @let (across, up) = place(point);
                line.error x1=(px(across)) x2=(px(across)) y1=(px(y.at(rates.low)))
                    y2=(px(y.at(rates.high))) {}
                g {
                    title {
                        (curve.label) ", " (counted(tasks, "task")) ": "
                        (figure(rates.median)) " operations per second"
                    }
                    (palette.marker(curve.label, (across, up), 3.6))
                }
            }
        }
    }
}

fn data(curves: &[Curve<'_>]) -> Data {
    let row = |label: &str, (tasks, rates): &(u32, Quartiles)| {
        let figures = [rates.median, rates.low, rates.high].map(exact);
        [label.to_owned(), tasks.to_string()].into_iter().chain(figures)
    };
    let rows = curves.iter().flat_map(|it| it.points.iter().map(|point| row(it.label, point)));
    Table::of(["variant", "tasks", "median", "first quartile", "third"], rows).into()
}
