//! Memory over time of watched samples.

use super::axes::Field;
use super::boxes::exact;
use super::card::{Card, Data, WIDTH, points, px};
use super::palette::Palette;
use super::scale::Scale;
use crate::judge::{Row, Selection};
use crate::results::{Cell, Reading, Timeline};
use crate::table::Table;
use maud::{Markup, html};

const HEIGHT: f64 = 270.0;
const FIELD: Field = Field { left: 46.0, right: WIDTH - 14.0, top: 24.0, bottom: HEIGHT - 40.0 };
const MIB: f64 = (1 << 20) as f64;
/// The phase that programs announce when they have freed everything and call nothing any more.
const IDLE: &str = "idle";
/// Points of a line: about one for each pixel.
const POINTS: usize = 300;
/// A program that is gone before this many readings has no course to show.
const READINGS: usize = 8;
/// Rows of a table that a reader might look through.
const ROWS: usize = 200;

/// A sample's line in the picture.
struct Course<'a> {
    label: &'a str,
    round: u32,
    points: Vec<Moment>,
}

impl<'a> Course<'a> {
    /// Time runs from when the program became idle, if `is_idle`, else from its start.
    fn new(label: &'a str, round: u32, timeline: &Timeline, is_idle: bool) -> Self {
        let start = timeline.phase(IDLE).filter(|_| is_idle).map_or(0.0, |(start, _)| start);
        let points = timeline.readings.iter().map(|it| point(it, start)).collect();
        Self { label, round, points }
    }
}

/// A reading on the axes of the picture.
#[derive(Clone, Copy, Debug)]
struct Moment {
    second: f64,
    resident: f64,
    charged: f64,
}

/// The picture of a row; `None` where no sample was watched.
pub(super) fn card(selection: &Selection<'_>, row: Row<'_>, palette: &Palette) -> Option<Card> {
    let mut lines = Vec::new();
    let (mut is_idle, mut in_group) = (true, true);
    for column in &selection.columns {
        let Row { workload, tasks } = row;
        let cell = Cell { workload, tasks, variant: &column.variant.name };
        for sample in column.run.samples_of(cell) {
            let Some(timeline) = &sample.timeline else { continue };
            is_idle &= timeline.phase(IDLE).is_some();
            in_group &= timeline.in_group;
            lines.push((column.label.as_str(), sample.round, timeline));
        }
    }
    let line = |(label, round, timeline)| Course::new(label, round, timeline, is_idle);
    let lines: Vec<Course<'_>> = lines.into_iter().map(line).collect();
    if lines.iter().all(|line| line.points.len() < READINGS) {
        return None;
    }
    let since = if is_idle { "seconds since the last free" } else { "seconds since the start" };
    let charged =
        if in_group { "what its control group says" } else { "how much less the machine had free" };
    Some(Card {
        title: format!("{}, memory over time", row.label(selection.has_tasks())),
        note: format!(
            "resident memory of the whole process, lower is better; every sample is a line; \
             charged, in the data, is {charged}"
        ),
        height: HEIGHT,
        picture: picture(&lines, palette, since, is_idle),
        data: data(&lines),
    })
}

fn point(reading: &Reading, start: f64) -> Moment {
    Moment {
        second: (reading.ms - start) / 1e3,
        resident: reading.resident as f64 / MIB,
        charged: reading.charged as f64 / MIB,
    }
}

fn picture(lines: &[Course<'_>], palette: &Palette, since: &str, is_idle: bool) -> Markup {
    let all = || lines.iter().flat_map(|line| &line.points);
    let highest: Vec<f64> = all().map(|point| point.resident).collect();
    let seconds: Vec<f64> = all().map(|point| point.second).collect();
    let y = Scale::from_zero(&highest, (FIELD.bottom, FIELD.top));
    let from = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let to = seconds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let x = Scale::exact(from, to, false, (FIELD.left, FIELD.right));
    html! {
        (FIELD.vertical(&y, "resident, MiB"))
        (FIELD.horizontal(&x, since))
        @if is_idle {
            @let zero = px(x.at(0.0));
            line.mark x1=(zero) x2=(zero) y1=(px(FIELD.top)) y2=(px(FIELD.bottom)) {
                title { "the last free" }
            }
        }
        // The baseline is the first column, and lies on top.
        @for line in lines.iter().rev() {
            @let thin = thinned(&line.points, POINTS).into_iter();
            @let places = points(thin.map(|it| (x.at(it.second), y.at(it.resident))));
            g class=(palette.class(line.label)) {
                polyline class="curve thin" points=(places) {
                    title { (line.label) ", round " (line.round) }
                }
            }
        }
    }
}

/// Returns at most about `most` points. The highest of each group stays, so that no peak is lost.
fn thinned(points: &[Moment], most: usize) -> Vec<Moment> {
    let each = points.len().div_ceil(most).max(1);
    let highest = |some: &[Moment]| {
        some.iter().copied().max_by(|one, two| one.resident.total_cmp(&two.resident))
    };
    points.chunks(each).filter_map(highest).collect()
}

fn data(lines: &[Course<'_>]) -> Data {
    let header = ["variant", "round", "seconds", "resident, MiB", "charged, MiB"];
    let rows = |most: usize| -> Vec<Vec<String>> {
        let of_line = |line: &Course<'_>| -> Vec<Vec<String>> {
            let row = |point: &Moment| {
                let Moment { second, resident, charged } = *point;
                let label = line.label.to_owned();
                let figures = [second, resident, charged].map(exact);
                [label, line.round.to_string()].into_iter().chain(figures).collect()
            };
            thinned(&line.points, most).iter().map(row).collect()
        };
        lines.iter().flat_map(of_line).collect()
    };
    let table = |most| Table::of(header, rows(most));
    let all = table(usize::MAX);
    match all.rows.len() > ROWS {
        true => Data { table: table((ROWS / lines.len()).max(2)), download: Some(all) },
        false => all.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_peaks() {
        let point = |index: usize| {
            let resident = if index == 577 { 900.0 } else { 1.0 };
            Moment { second: index as f64, resident, charged: 0.0 }
        };
        let points: Vec<Moment> = (0..1000).map(point).collect();
        let thin = thinned(&points, 100);
        assert_eq!(thin.len(), 100);
        assert!(thin.iter().any(|point| point.resident == 900.0));
        assert_eq!(thinned(&points[..7], 100).len(), 7);
        assert!(thinned(&[], 100).is_empty());
    }
}
