//! Memory over time of watched samples: for each variant the median of its samples, in a band.

use super::axes::Field;
use super::boxes::exact;
use super::card::{Card, Data, WIDTH, points, px};
use super::palette::Palette;
use super::scale::Scale;
use crate::judge::{Column, Row, Selection};
use crate::results::{Reading, Timeline};
use crate::statistics::Quartiles;
use crate::table::Table;
use maud::{Markup, html};

const HEIGHT: f64 = 270.0;
const FIELD: Field = Field { left: 46.0, right: WIDTH - 14.0, top: 24.0, bottom: HEIGHT - 40.0 };
const MIB: f64 = (1 << 20) as f64;
/// The phase that a program announces after it has freed all memory and calls malloc no more.
const IDLE: &str = "idle";
/// Points of a line: one for each two pixels.
const MOMENTS: usize = 160;
/// If every sample has fewer readings than this, their memory over time is not shown.
const READINGS: usize = 8;
const ROWS: usize = 200;

struct Course {
    round: u32,
    readings: Vec<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Moment {
    second: f64,
    resident: f64,
    charged: f64,
}

impl Course {
    /// Time 0 is when the program became idle, if `is_idle`. Else it is the start, and the last
    /// readings are left out, because a program that exits gives its memory back before it ends.
    fn new(round: u32, timeline: &Timeline, is_idle: bool) -> Self {
        let start = timeline.phase(IDLE).filter(|_| is_idle).map_or(0.0, |(start, _)| start);
        let mut readings = &timeline.readings[..];
        if !is_idle {
            let is_gone = |it: &&Reading| it.resident == 0;
            let gone = readings.iter().rev().take_while(is_gone).count();
            readings = &readings[..readings.len() - gone.max(1).min(readings.len())];
        }
        let readings = readings.iter().map(|reading| Moment {
            second: (reading.ms - start) / 1e3,
            resident: reading.resident as f64 / MIB,
            charged: reading.charged as f64 / MIB,
        });
        Self { round, readings: readings.collect() }
    }

    fn end(&self) -> f64 {
        self.readings.last().map_or(f64::NEG_INFINITY, |it| it.second)
    }

    /// The most resident memory between the seconds `from` and `to`; if no reading lies in between,
    /// the last one before. `None` if the readings begin too late or end too early.
    fn most(&self, from: f64, to: f64) -> Option<f64> {
        (to <= self.end()).then_some(())?;
        let [first, last] =
            [from, to].map(|it| self.readings.partition_point(|reading| reading.second <= it));
        let within = &self.readings[first.min(last.checked_sub(1)?)..last];
        within.iter().map(|it| it.resident).reduce(f64::max)
    }
}

struct Variant<'a> {
    label: &'a str,
    courses: Vec<Course>,
}

/// Resident memory at a second.
type Level = (f64, Quartiles);

impl Variant<'_> {
    /// Returns the level at each of `seconds` at which half of the samples or more still run.
    fn levels(&self, seconds: &[f64]) -> Vec<Level> {
        let level = |(index, &second): (usize, &f64)| {
            let from = if index == 0 { f64::NEG_INFINITY } else { seconds[index - 1] };
            let held: Vec<f64> =
                self.courses.iter().filter_map(|it| it.most(from, second)).collect();
            (held.len() * 2 >= self.courses.len()).then_some(())?;
            Some((second, Quartiles::of(held)?))
        };
        seconds.iter().enumerate().filter_map(level).collect()
    }
}

pub(super) fn note(selection: &Selection<'_>) -> String {
    let runs = selection.runs.iter();
    let timelines =
        || runs.clone().flat_map(|(_, run)| &run.samples).filter_map(|it| it.timeline.as_ref());
    let charged = match timelines().all(|timeline| timeline.in_group) {
        true => "what its control group says",
        false => "how much less the machine had free",
    };
    let is_charged = timelines().flat_map(|it| &it.readings).any(|it| it.charged != 0);
    let charged = match is_charged {
        true => format!(" In the data, charged is {charged}."),
        false => String::new(),
    };
    format!(
        "Line: the median of the samples; band: their quartiles; both as long as half of the \
         samples run. The reading at exit is left out.{charged}"
    )
}

/// The picture of a row; `None` without a watched sample.
pub(super) fn card(selection: &Selection<'_>, row: Row<'_>, palette: &Palette) -> Option<Card> {
    let columns = selection.columns.iter();
    let mut all = columns.clone().flat_map(|column| timelines(column, row));
    let is_idle = all.all(|(_, timeline)| timeline.phase(IDLE).is_some());
    let variant = |column| {
        let courses = timelines(column, row).map(|(round, it)| Course::new(round, it, is_idle));
        Variant { label: &column.label, courses: courses.collect() }
    };
    let variants: Vec<Variant<'_>> = columns.map(variant).collect();
    let mut courses = variants.iter().flat_map(|variant| &variant.courses);
    if courses.all(|course| course.readings.len() < READINGS) {
        return None;
    }
    let since = if is_idle { "seconds since the last free" } else { "seconds since the start" };
    let seconds = seconds(&variants);
    let levels: Vec<(&str, Vec<Level>)> =
        variants.iter().map(|it| (it.label, it.levels(&seconds))).collect();
    let last = |(label, levels): &(&str, Vec<Level>)| {
        levels.last().map(|(_, it)| format!("{label}: {} MiB at the end", exact(it.median)))
    };
    Some(Card {
        title: format!("{}, memory over time", row.label(selection.has_tasks())),
        note: "resident memory of the whole process, lower is better".to_owned(),
        alt: levels.iter().filter_map(last).collect(),
        height: HEIGHT,
        picture: picture(&levels, palette, since, is_idle),
        data: data(&variants),
    })
}

fn timelines<'s>(
    column: &'s Column<'_>,
    row: Row<'s>,
) -> impl Iterator<Item = (u32, &'s Timeline)> {
    let samples = column.run.samples_of(column.cell(row));
    samples.filter_map(|sample| Some((sample.round, sample.timeline.as_ref()?)))
}

fn seconds(variants: &[Variant<'_>]) -> Vec<f64> {
    let courses = || variants.iter().flat_map(|variant| &variant.courses);
    let first = courses().filter_map(|it| it.readings.first()).map(|it| it.second);
    let from = first.fold(f64::INFINITY, f64::min);
    let to = courses().map(Course::end).fold(f64::NEG_INFINITY, f64::max);
    let step = (to - from) / (MOMENTS - 1) as f64;
    (0..MOMENTS).map(|index| from + step * index as f64).collect()
}

fn picture(
    variants: &[(&str, Vec<Level>)],
    palette: &Palette,
    since: &str,
    is_idle: bool,
) -> Markup {
    let all = || variants.iter().flat_map(|(_, levels)| levels);
    let highest: Vec<f64> = all().map(|(_, level)| level.high).collect();
    let y = Scale::from_zero(&highest, (FIELD.bottom, FIELD.top));
    let from = all().map(|level| level.0).fold(f64::INFINITY, f64::min);
    let to = all().map(|level| level.0).fold(f64::NEG_INFINITY, f64::max);
    let x = Scale::exact(from, to, false, (FIELD.left, FIELD.right));
    // The baseline is the first column, and is drawn last, on top.
    let drawn = || variants.iter().rev().filter(|(_, levels)| !levels.is_empty());
    html! {
        (FIELD.vertical(&y, "resident, MiB"))
        (FIELD.horizontal(&x, since))
        @if is_idle {
            @let zero = px(x.at(0.0));
            line.mark x1=(zero) x2=(zero) y1=(px(FIELD.top)) y2=(px(FIELD.bottom)) {
                title { "the last free" }
            }
        }
        @for (label, levels) in drawn() {
            @let there = levels.iter().map(|(second, it)| (x.at(*second), y.at(it.high)));
            @let back = levels.iter().rev().map(|(second, it)| (x.at(*second), y.at(it.low)));
            g class=(palette.class(label)) { polygon.band points=(points(there.chain(back))) {} }
        }
        @for (label, levels) in drawn() {
            @let middle = levels.iter().map(|(second, it)| (x.at(*second), y.at(it.median)));
            g class=(palette.class(label)) {
                polyline.curve points=(points(middle)) { title { (label) } }
            }
        }
    }
}

/// Returns at most `most` readings: the highest of each group of neighbours, so no peak is lost.
fn thinned(readings: &[Moment], most: usize) -> Vec<Moment> {
    let each = readings.len().div_ceil(most).max(1);
    let highest = |some: &[Moment]| {
        some.iter().copied().max_by(|one, two| one.resident.total_cmp(&two.resident))
    };
    readings.chunks(each).filter_map(highest).collect()
}

fn data(variants: &[Variant<'_>]) -> Data {
    let header = ["variant", "round", "seconds", "resident, MiB", "charged, MiB"];
    let courses: Vec<(&str, &Course)> = variants
        .iter()
        .flat_map(|variant| variant.courses.iter().map(|course| (variant.label, course)))
        .collect();
    let row = |label: &str, round: u32, it: Moment| {
        let figures = [it.second, it.resident, it.charged].map(exact);
        [label.to_owned(), round.to_string()].into_iter().chain(figures)
    };
    let table = |most: usize| {
        let rows = courses.iter().flat_map(|(label, course)| {
            let readings = thinned(&course.readings, most).into_iter();
            readings.map(move |it| row(label, course.round, it))
        });
        Table::of(header, rows)
    };
    let all = table(usize::MAX);
    match all.rows.len() > ROWS {
        true => Data { table: table((ROWS / courses.len()).max(2)), download: Some(all) },
        false => all.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(mib: &[u64]) -> Timeline {
        let reading = |(index, mib): (usize, &u64)| Reading {
            ms: index as f64 * 1000.0,
            resident: mib << 20,
            charged: 0,
        };
        let readings = mib.iter().enumerate().map(reading).collect();
        Timeline { readings, ..Timeline::default() }
    }

    #[test]
    fn the_reading_at_exit_is_left_out() {
        let resident = |mib: &[u64], is_idle| -> Vec<f64> {
            let mut timeline = timeline(mib);
            timeline.phases = vec![(0.0, IDLE.to_owned())];
            let course = Course::new(1, &timeline, is_idle);
            course.readings.iter().map(|it| it.resident).collect()
        };
        assert_eq!(resident(&[1, 5, 5, 0], false), [1.0, 5.0, 5.0]);
        assert_eq!(resident(&[1, 5, 5, 3], false), [1.0, 5.0, 5.0], "half of it is gone");
        assert_eq!(resident(&[1, 5, 0, 0], false), [1.0, 5.0]);
        assert_eq!(resident(&[1, 5, 3], true), [1.0, 5.0, 3.0], "an idle program is still there");
        assert_eq!(resident(&[], false), [0.0; 0]);
    }

    #[test]
    fn the_line_is_the_median_while_half_of_the_samples_run() {
        let courses = [&[10, 10, 10, 9][..], &[20, 20, 20, 9], &[60, 9]]
            .map(|mib| Course::new(1, &timeline(mib), false));
        let variant = Variant { label: "a", courses: courses.into() };
        let levels = variant.levels(&[-1.0, 0.0, 0.5, 1.0, 2.0, 3.0]);
        let medians: Vec<(f64, f64)> =
            levels.iter().map(|(second, it)| (*second, it.median)).collect();
        assert_eq!(medians, [(0.0, 20.0), (0.5, 15.0), (1.0, 15.0), (2.0, 15.0)]);
        let (_, Quartiles { low, high, .. }) = levels[0];
        assert!(low >= 10.0 && high <= 60.0 && low < high, "{levels:?}");
    }

    #[test]
    fn thinning_keeps_peaks() {
        let reading = |index: usize| {
            let resident = if index == 577 { 900.0 } else { 1.0 };
            Moment { second: index as f64, resident, charged: 0.0 }
        };
        let readings: Vec<Moment> = (0..1000).map(reading).collect();
        let thin = thinned(&readings, 100);
        assert_eq!(thin.len(), 100);
        assert!(thin.iter().any(|reading| reading.resident == 900.0));
        assert_eq!(thinned(&readings[..7], 100).len(), 7);
        assert!(thinned(&[], 100).is_empty());
    }
}
