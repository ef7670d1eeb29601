//! `quarry lab predict --seeds`: the same predictions from several seeds, with half, once and twice
//! the usual time, and with each set of constants. No score then hangs on one run.

use crate::simulated::in_parallel;
use anyhow::{Context, Result, bail};
use quarry_harness::table::{Table, figure};
use quarry_predict::{Cell, Printed, Score};
use serde_json::{Value, json};
use std::process::Command;

/// The lengths of a run, with their parts of the usual time in halves.
pub(crate) const LENGTHS: [(&str, u64); 3] = [("half", 1), ("one", 2), ("two", 4)];

/// One run of `quarry-predict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    seed: u32,
    length: &'static str,
    /// True for the constants that fit the rates as well as those of the machine's file.
    other: bool,
}

/// All runs: for each set of constants and each length, one with each seed.
pub(crate) fn settings(document: &str, seeds: u32) -> Vec<Setting> {
    let sets = if document == "004" { &[false, true][..] } else { &[false] };
    let with = |other| LENGTHS.iter().map(move |(length, _)| (other, *length));
    let all = sets.iter().flat_map(|other| with(*other));
    let of = |(other, length)| (1..=seeds).map(move |seed| Setting { seed, length, other });
    all.flat_map(of).collect()
}

/// Returns the output of `quarry-predict` in each run. `command` is the part that all runs share.
pub(crate) fn ask_all(
    settings: &[Setting],
    command: impl Fn() -> Result<Command> + Sync,
) -> Result<Vec<Printed>> {
    let name = |it: &Setting| format!("seed {}, length {}", it.seed, it.length);
    in_parallel(settings, name, |Setting { seed, length, other }| {
        let mut command = command()?;
        command.args(["--seed", &seed.to_string(), "--length", length]);
        let output = command.args(other.then_some("--other")).output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim_end());
        }
        serde_json::from_slice(&output.stdout).context("quarry-predict")
    })
}

/// The runs of one set of constants and one length.
struct Runs<'a> {
    setting: Setting,
    of: Vec<&'a Printed>,
}

fn grouped<'a>(settings: &[Setting], printed: &'a [Printed]) -> Vec<Runs<'a>> {
    let mut all: Vec<Runs<'a>> = Vec::new();
    for (setting, printed) in settings.iter().zip(printed) {
        match all.last_mut() {
            Some(Runs { setting: known, of })
                if (known.other, known.length) == (setting.other, setting.length) =>
            {
                of.push(printed);
            }
            _ => all.push(Runs { setting: *setting, of: vec![printed] }),
        }
    }
    all
}

/// The median of figures, and their range. With five seeds the range has the median of all seeds
/// with 94 %, whatever their distribution.
pub(crate) fn range(figures: impl Iterator<Item = f64>, print: impl Fn(f64) -> String) -> String {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let [low, .., high] = figures[..] else {
        return figures.first().map_or("-".to_owned(), |only| print(*only));
    };
    let middle = (figures[(figures.len() - 1) / 2] + figures[figures.len() / 2]) / 2.0;
    format!("{} [{}, {}]", print(middle), print(low), print(high))
}

/// Prints the scores, and the cells under the constants of the machine's file.
pub(crate) fn tables(settings: &[Setting], printed: &[Printed], room: usize) -> String {
    let (all, short) = (grouped(settings, printed), |it: f64| format!("{it:.1}"));
    let own: Vec<_> = all.iter().filter(|runs| !runs.setting.other).collect();
    let cells = own.first().map_or(&[][..], |runs| &runs.of[0].cells);
    let line = |(at, cell): (usize, &Cell)| {
        let of = |runs: &&Runs<'_>| {
            let of_cell = runs.of.iter().filter_map(|it| Some(it.cells.get(at)?.predicted));
            let is_rate = cell.document.abs() >= 1000.0;
            range(of_cell, |it| if is_rate { figure(it) } else { short(it) })
        };
        let mut line = vec![cell.row.clone(), cell.column.clone()];
        line.push(if cell.calibrated { "fitted" } else { "" }.to_owned());
        line.push(figure(cell.document));
        line.extend(own.iter().map(of));
        line
    };
    let head = ["row", "column", "", "document", "half", "one", "two"];
    let cells = Table::of(head, cells.iter().enumerate().map(line));
    format!("{}\n\n{}\n", cells.text_of(room), scores(&all).text_of(room))
}

fn scores(all: &[Runs<'_>]) -> Table {
    let head =
        ["group", "cells", "constants", "length", "no effect", "error", "skill", "right sign"];
    let mut lines = Vec::new();
    for group in all.iter().flat_map(|it| it.of.first()).take(1).flat_map(|it| &it.skill) {
        let which: [(&str, fn(&quarry_predict::Skill) -> &Score); 2] =
            [("all", |it| &it.all), ("with an effect", |it| &it.effects)];
        for (name, score) in which.into_iter().filter(|(_, score)| score(group).cells > 0) {
            for Runs { setting, of } in all {
                let of_group = || {
                    let skills = of.iter().flat_map(|it| &it.skill);
                    skills.filter(|it| it.group == group.group).map(score)
                };
                let skill = range(of_group().filter_map(Score::skill), |it| format!("{it:.2}"));
                let error = range(of_group().map(|it| it.simulator), |it| format!("{it:.1}"));
                let sign = range(of_group().map(|it| it.right_sign as f64), |it| it.to_string());
                lines.push(vec![
                    group.group.clone(),
                    format!("{} {name}", score(group).cells),
                    if setting.other { "other" } else { "the file's" }.to_owned(),
                    setting.length.to_owned(),
                    format!("{:.1}", score(group).no_effect),
                    error,
                    skill,
                    sign,
                ]);
            }
        }
    }
    Table::of(head, lines)
}

/// The runs as an array.
pub(crate) fn json(settings: &[Setting], printed: &[Printed]) -> Value {
    let run = |(it, printed): (&Setting, &Printed)| {
        json!({
            "seed": it.seed, "length": it.length, "other_constants": it.other, "printed": printed,
        })
    };
    settings.iter().zip(printed).map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_predict::skill;

    fn run(predicted: f64) -> Printed {
        let rate = Cell::figure("4", "rate", 4_000.0, 4_000.0 + predicted).calibrated();
        let cells = vec![Cell::gain("gains", ("4", "gain"), 10.0, predicted), rate];
        Printed { skill: skill(&cells), cells, ..Printed::default() }
    }

    #[test]
    fn each_length_and_each_set_of_constants_has_all_seeds() {
        assert_eq!(settings("002", 5).len(), 3 * 5);
        let all = settings("004", 2);
        assert_eq!(all.len(), 2 * 3 * 2);
        assert_eq!(all[1], Setting { seed: 2, length: "half", other: false });
        assert_eq!(all[11], Setting { seed: 2, length: "two", other: true });
    }

    #[test]
    fn cells_and_scores_have_the_range_of_their_seeds() {
        let settings = settings("004", 3);
        let printed: Vec<_> = (0..settings.len()).map(|at| run(5.0 + at as f64)).collect();
        let text = tables(&settings, &printed, 120);
        assert!(text.contains("6.0 [5.0, 7.0]") && text.contains("12.0 [11.0, 13.0]"), "{text}");
        assert!(text.contains("0.60 [0.50, 0.70]"), "the first three, 4 of 10 points off: {text}");
        assert!(text.contains("| the file's |   half |"), "{text}");
        assert!(text.contains("|      other |    two |"), "{text}");
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_ones() {
        let print = |it: f64| it.to_string();
        assert_eq!(range([4.0, 1.0, 2.0, 3.0].into_iter(), print), "2.5 [1, 4]");
        assert_eq!(range([4.0].into_iter(), print), "4");
        assert_eq!(range([].into_iter(), print), "-");
    }
}
