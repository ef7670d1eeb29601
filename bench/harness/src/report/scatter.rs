//! Speed against memory; highlights each variant that no other one beats in both.

use super::axes::{self, Field};
use super::boxes::exact;
use super::card::{self, Card, Data, LETTER, WIDTH, px};
use super::palette::Palette;
use super::scale::Scale;
use crate::judge::{Column, Row, Selection};
use crate::results::{Direction, Metric};
use crate::table::Table;
use maud::{Markup, html};

const HEIGHT: f64 = 300.0;
const FIELD: Field = Field { left: 46.0, right: WIDTH - 14.0, top: 24.0, bottom: HEIGHT - 40.0 };
const RADIUS: f64 = 4.5;

#[derive(Clone, Debug, PartialEq)]
struct Point {
    label: String,
    memory: f64,
    speed: f64,
    is_copy: bool,
}

impl Point {
    fn hint(&self) -> String {
        let Self { label, memory, speed, .. } = self;
        format!("{label}: {memory:.3} and {speed:.3} times the baseline")
    }
}

/// The picture of `rows` together (their geometric mean); `None` without figures for it.
pub(super) fn card<'a>(
    selection: &Selection<'a>,
    rows: &[Row<'a>],
    title: &str,
    palette: &Palette,
) -> Option<Card> {
    let speed = selection.metric;
    let memory = selection.memory_metric().filter(|_| !speed.is_memory())?;
    let relation = |column: &Column<'a>, metric: &Metric| -> Option<f64> {
        selection.judge(column, rows, metric).ratio()
    };
    let point = |column: &Column<'a>| {
        Some(Point {
            label: column.label.clone(),
            memory: relation(column, memory)?,
            speed: relation(column, speed)?,
            is_copy: column.variant.copy_of.is_some(),
        })
    };
    let points: Vec<Point> = selection.columns.iter().filter_map(point).collect();
    if points.iter().filter(|point| !point.is_copy).count() < 2 {
        return None;
    }
    let baseline = &selection.baseline().label;
    let says = |metric: &Metric| {
        let (name, better) = (&metric.name, axes::better(metric.direction));
        axes::fitting([
            format!("{name}, times {baseline}{better}"),
            format!("{name}, times the baseline{better}"),
            format!("times the baseline{better}"),
        ])
    };
    let is_rate = speed.direction == Direction::Higher;
    Some(Card {
        title: title.to_owned(),
        note: "dashed: the variants that no other beats in both".to_owned(),
        alt: points.iter().map(Point::hint).collect(),
        height: HEIGHT,
        picture: picture(&points, palette, (&says(memory), &says(speed)), is_rate),
        data: data(&points, (memory, speed)),
    })
}

fn picture(points: &[Point], palette: &Palette, says: (&str, &str), is_rate: bool) -> Markup {
    let all = |of: fn(&Point) -> f64| -> Vec<f64> { points.iter().map(of).collect() };
    let x = Scale::covering(&all(|point| point.memory), (FIELD.left + 6.0, FIELD.right - 6.0));
    let y = Scale::covering(&all(|point| point.speed), (FIELD.bottom - 6.0, FIELD.top + 6.0));
    let place = |point: &Point| (x.at(point.memory), y.at(point.speed));
    let front = card::points(front(points, is_rate).into_iter().map(place));
    let places: Vec<(f64, f64)> = points.iter().map(place).collect();
    let names = names(points, &places);
    html! {
        (FIELD.vertical(&y, says.1))
        (FIELD.horizontal(&x, says.0))
        polyline.ideal points=(front) {}
        @for (index, point) in points.iter().enumerate() {
            g class=(palette.class(&point.label)) {
                title { (point.hint()) }
                (palette.marker(&point.label, places[index], RADIUS))
                @if let Some((left, baseline)) = names[index] {
                    text.name x=(px(left)) y=(px(baseline)) { (point.label) }
                }
            }
        }
    }
}

/// Returns, sorted by memory, the points that no other point equals or beats in both figures.
fn front(points: &[Point], is_rate: bool) -> Vec<&Point> {
    let cost = |point: &Point| if is_rate { -point.speed } else { point.speed };
    let mut sorted: Vec<&Point> = points.iter().filter(|point| !point.is_copy).collect();
    sorted.sort_by(|one, two| {
        one.memory.total_cmp(&two.memory).then(cost(one).total_cmp(&cost(two)))
    });
    let mut best = f64::INFINITY;
    sorted.retain(|point| {
        let is_better = cost(point) < best;
        best = best.min(cost(point));
        is_better
    });
    sorted
}

/// Places for names that touch neither each other nor points; a name without room has none.
fn names(points: &[Point], centres: &[(f64, f64)]) -> Vec<Option<(f64, f64)>> {
    let gap = RADIUS + 3.0;
    let mut taken: Vec<[f64; 4]> =
        centres.iter().map(|(x, y)| [x - gap, y - gap, x + gap, y + gap]).collect();
    let mut places = Vec::new();
    for (point, (x, y)) in points.iter().zip(centres) {
        let width = point.label.chars().count() as f64 * LETTER + 2.0;
        let area = |(left, baseline)| [left, baseline - 12.0, left + width, baseline + 3.0];
        let candidates = [
            (x + gap + 1.0, y + 4.0),
            (x - gap - 1.0 - width, y + 4.0),
            (x - width / 2.0, y - gap - 3.0),
            (x - width / 2.0, y + gap + 12.0),
        ];
        let free = candidates.into_iter().find(|place| {
            let area = area(*place);
            let is_inside = area[0] >= FIELD.left
                && area[2] <= WIDTH - 2.0
                && area[1] >= FIELD.top - 6.0
                && area[3] <= FIELD.bottom;
            is_inside && !taken.iter().any(|other| touch(&area, other))
        });
        taken.extend(free.map(area));
        places.push(free);
    }
    places
}

fn touch(one: &[f64; 4], two: &[f64; 4]) -> bool {
    one[0] < two[2] && two[0] < one[2] && one[1] < two[3] && two[1] < one[3]
}

fn data(points: &[Point], (memory, speed): (&Metric, &Metric)) -> Data {
    let row = |it: &Point| vec![it.label.clone(), exact(it.memory), exact(it.speed)];
    Table::of(["variant", &memory.name, &speed.name], points.iter().map(row)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(label: &str, memory: f64, speed: f64) -> Point {
        Point { label: label.to_owned(), memory, speed, is_copy: label.ends_with("A/A") }
    }

    #[test]
    fn the_front_is_what_nothing_beats() {
        let points = [
            point("fast and big", 3.0, 0.5),
            point("small and slow", 1.0, 2.0),
            point("beaten", 3.0, 1.0),
            point("middle", 2.0, 1.0),
            point("x A/A", 0.1, 0.1),
        ];
        let labels = |is_rate| -> Vec<String> {
            front(&points, is_rate).into_iter().map(|point| point.label.clone()).collect()
        };
        assert_eq!(labels(false), ["small and slow", "middle", "fast and big"]);
        assert_eq!(labels(true), ["small and slow"], "of rates the highest wins");
    }

    #[test]
    fn names_never_touch() {
        let points: Vec<Point> = (0..12).map(|_| point("a long name", 1.0, 1.0)).collect();
        let centres: Vec<(f64, f64)> =
            (0..12).map(|it| (100.0 + f64::from(it) * 9.0, 120.0)).collect();
        let areas: Vec<[f64; 4]> = names(&points, &centres)
            .iter()
            .flatten()
            .map(|(x, y)| [*x, y - 12.0, x + 11.0 * LETTER, y + 3.0])
            .collect();
        assert!(!areas.is_empty());
        for (index, one) in areas.iter().enumerate() {
            assert!(areas[index + 1..].iter().all(|two| !touch(one, two)), "{areas:?}");
        }
    }
}
