//! `quarry lab predict`: a document's figures, and the figures of its machine in simulated time.
//!
//! The simulated machine is in another program, `quarry-predict`: the choice between a simulated
//! and the real machine under `quarry-sys` is made when a program is built.

use crate::seeds;
use crate::simulated::{cpus, reporting};
use anyhow::{Context, Result, bail};
use clap::Args;
use quarry_cli::exit_status::{EXIT_USAGE, say};
use quarry_compare::companion;
use quarry_harness::destination::{Destination, NEW};
use quarry_harness::picture::{Course, Picture};
use quarry_harness::report;
use quarry_harness::table::{Entry, Table, Tone, counted, words};
use quarry_harness::usage::Usage;
use quarry_predict::{Cell, Fit, Moved, Printed, Score, Shown, Skill, Supposed};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio, exit};

const NAME: &str = "quarry-predict";
/// The report marks each prediction that is wrong by more than this many percentage points.
const FAR: f64 = 5.0;
/// A curve needs at least this many numbers of tasks.
const LEAST_POINTS: usize = 3;

/// Seconds of CPU time that a document takes, in full and with `--quick`, on one CPU of an AMD EPYC
/// (family 25, model 1).
const SECONDS: [(&str, u64, u64); 4] =
    [("001", 1, 1), ("002", 45, 9), ("004", 250, 80), ("llfree", 10, 2)];
/// A document that takes less is not announced.
const LONG: u64 = 5;
/// `--sensitivity` runs each cell so many times, twice for each constant.
const MOVES: u64 = 60;

/// Letters of a line of a table.
const ROOM: usize = 120;

/// `quarry lab predict ...`
#[derive(Args)]
pub struct PredictArgs {
    /// The document: 001 (truncation, for which there are only suppositions), 002 (`TCP_RR`) or 004
    /// (page faults). `llfree` means published figures of Linux's frame allocator on 26 cores.
    #[arg(value_parser = ["001", "002", "004", "llfree"])]
    document: String,
    /// Print one object of JSON; `cells` has a line for each figure.
    #[arg(long)]
    json: bool,
    /// Write a page with the table to this new file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "sensitivity"])]
    html: Option<PathBuf>,
    /// Print only the cells to which constants of the machine were fitted.
    #[arg(long)]
    calibrate: bool,
    /// For each of the fitted cells, fit the constants again without that cell.
    #[arg(long)]
    leave_out: bool,
    /// Change each constant by a fifth, down and up, and print the changes; `--only` saves time.
    #[arg(long)]
    sensitivity: bool,
    /// Only rows with this number of tasks or threads (002, 004).
    #[arg(long, value_name = "N")]
    only: Option<String>,
    /// A fifth of the simulated time, and no suppositions, for a first impression. The figures
    /// differ from those of the documentation, so they get no score.
    #[arg(long)]
    quick: bool,
    /// Predict each cell from this many seeds, with half, once and twice the usual time, and with
    /// each set of constants that fits (002, 004): prints medians and ranges of cells and scores.
    /// With a seed each piece of work takes up to 1 % more or less.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100),
          conflicts_with_all = ["html", "calibrate", "leave_out", "sensitivity", "quick"])]
    seeds: Option<u32>,
    /// Another value for a constant of the machines; can be given several times.
    #[arg(long, value_name = "CONSTANT=VALUE")]
    set: Vec<String>,
}

impl PredictArgs {
    /// Starts the program and prints its predictions.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<()> {
        if let Some(seeds) = self.seeds {
            return self.from_seeds(seeds, out);
        }
        let html = self.html.as_deref();
        let html = html.map(|it| Destination::open("--html", it, NEW)).transpose()?;
        let Some(text) = self.ask()? else {
            // Removes the page's file, which `exit` would leave empty.
            drop(html);
            exit(EXIT_USAGE);
        };
        if self.json {
            return Ok(out.write_all(text.as_bytes())?);
        }
        let printed: Printed = serde_json::from_str(&text).context(NAME)?;
        if let Some(html) = html {
            return html.write(page(&printed).as_bytes());
        }
        let lines = if self.sensitivity { moves(&printed.sensitivity) } else { tables(&printed) };
        Ok(out.write_all(lines.as_bytes())?)
    }

    fn from_seeds(&self, seeds: u32, out: &mut dyn Write) -> Result<()> {
        let document = &self.document;
        if !["002", "004"].contains(&document.as_str()) {
            bail!(Usage(format!("--seeds: {document} has no scores; accepted with 002 and 004")));
        }
        let settings = seeds::settings(document, seeds);
        let runs = settings.len() as u64;
        let lengths = seeds::LENGTHS.iter().map(|(_, halves)| *halves).sum::<u64>();
        let seconds = self.seconds() * lengths * runs / (2 * seeds::LENGTHS.len() as u64);
        let cpus = runs.min(cpus() as u64);
        say(format_args!(
            "predict {document}: {runs} runs, {} of CPU time, {} on {}",
            time(seconds),
            time(seconds / cpus),
            counted(cpus as usize, "CPU")
        ));
        let printed = seeds::ask_all(&settings, || self.command())?;
        let text = match self.json {
            true => seeds::json(&settings, &printed).to_string() + "\n",
            false => seeds::tables(&settings, &printed, ROOM),
        };
        Ok(out.write_all(text.as_bytes())?)
    }

    /// About how many seconds of CPU time one run takes; at most so many with `--only`.
    fn seconds(&self) -> u64 {
        let known = SECONDS.iter().find(|(document, ..)| *document == self.document);
        let (_, whole, quick) = known.expect("clap accepts only these");
        let once = if self.quick { *quick } else { *whole };
        if self.sensitivity { once * MOVES } else { once }
    }

    fn command(&self) -> Result<Command> {
        let mut command = Command::new(companion::find(NAME, "QUARRY_PREDICT")?);
        command.arg(&self.document);
        for (flag, wanted) in [
            ("--calibrate", self.calibrate),
            ("--leave-out", self.leave_out),
            ("--sensitivity", self.sensitivity),
            ("--quick", self.quick),
        ] {
            command.args(wanted.then_some(flag));
        }
        command.args(self.only.iter().flat_map(|it| ["--only", it]));
        command.args(self.set.iter().flat_map(|it| ["--set", it]));
        Ok(command)
    }

    /// Returns the output of the program, or none if it refused the command line and said why. On a
    /// terminal the program itself shows how many replays have run.
    fn ask(&self) -> Result<Option<String>> {
        let (document, seconds) = (&self.document, self.seconds());
        let at_most = if self.only.is_some() { "at most " } else { "" };
        let takes = match seconds > LONG {
            true => format!("predict {document}: takes {at_most}{} of CPU time", time(seconds)),
            false => String::new(),
        };
        let progress = || format!("predict {document}: still running");
        let mut command = self.command()?;
        let command = command.stderr(Stdio::inherit());
        let output = reporting(&takes, progress, || command.output()).context(NAME)?;
        match output.status.code() {
            Some(0) => Ok(Some(String::from_utf8(output.stdout)?)),
            Some(EXIT_USAGE) => Ok(None),
            _ => bail!("{NAME} {}: {}", self.document, output.status),
        }
    }
}

/// A time in words.
fn time(seconds: u64) -> String {
    match seconds {
        ..120 => format!("about {seconds} s"),
        _ => format!("about {} minutes", seconds.div_ceil(60)),
    }
}

fn figure(value: f64) -> String {
    if value.abs() < 1000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn mark(cell: &Cell) -> &str {
    if cell.calibrated { "fitted" } else { "" }
}

fn table(cells: &[Cell]) -> String {
    let mut text = format!(
        "{:42} {:20} {:>12} {:>12} {:>7}\n",
        "row", "column", "document", "predicted", "error"
    );
    for cell in cells {
        let Cell { row, column, document, predicted, error_points, .. } = cell;
        let (document, predicted) = (figure(*document), figure(*predicted));
        let line = format!(
            "{row:42} {column:20} {document:>12} {predicted:>12} {error_points:>+7.1} {}",
            mark(cell)
        );
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// The mean error of the predicted figures that are not effects.
fn others(cells: &[Cell]) -> String {
    let predicted = cells.iter().filter(|cell| cell.is_prediction() && cell.scored.is_none());
    let errors: Vec<f64> = predicted.map(|cell| cell.error_points.abs()).collect();
    if errors.is_empty() {
        return String::new();
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    format!("{}: {mean:.1} in the mean\n", counted(errors.len(), "other figure"))
}

/// Prints the cells, their scores, and last the document's suppositions, which have no figures.
fn tables(printed: &Printed) -> String {
    let mut text = if printed.cells.is_empty() { String::new() } else { table(&printed.cells) };
    if printed.quick {
        text += "quick: runs of a fifth of the time, whose figures are not the documentation's and \
                 get no score\n";
    } else {
        if !printed.skill.is_empty() {
            text += &format!("\n{}\n", score_table(&printed.skill).plain());
            text += "This is one run of each cell: --seeds 5 prints ranges of cells and scores.\n";
        }
        text += &others(&printed.cells);
    }
    text += &fits(&printed.fits);
    if !printed.suppositions.is_empty() {
        text += if text.is_empty() { "" } else { "\n" };
        text += &format!("{:42} {:20} {:>12} {:>12}\n", "supposed", "", "without it", "with it");
    }
    for Supposed { row, column, before, after } in &printed.suppositions {
        let (before, after) = (figure(*before), figure(*after));
        text += &format!("{row:42} {column:20} {before:>12} {after:>12}\n");
    }
    text
}

/// A line for each fit: the cell that it leaves out (the first leaves out none), and its errors.
fn fits(all: &[Fit]) -> String {
    let line = |Fit { without, constants, error_points: rms, predicted_points }: &Fit| {
        let values = constants.iter().map(|(name, it)| format!("{name} {it:.1}, "));
        let (out, error) = (without.as_deref().unwrap_or("-"), predicted_points.unwrap_or(0.0));
        format!("{out:36} {}rms {rms:.1}, {error:+.1}\n", values.collect::<String>())
    };
    all.iter().map(line).collect()
}

fn moves(all: &[Moved]) -> String {
    let mut text = format!(
        "{:16} {:20} {:32} {:18} {:>7} {:>7}\n",
        "machine", "constant", "row", "column", "-20 %", "+20 %"
    );
    for Moved { machine, constant, row, column, lower, higher } in all {
        text += &format!(
            "{machine:16} {constant:20} {row:32} {column:18} {lower:>+7.1} {higher:>+7.1}\n"
        );
    }
    text
}

/// A page with the machines and their kernels, curves by number of tasks, scores, and all figures.
fn page(printed: &Printed) -> String {
    let machine = |it: &Shown| format!("{}: {}.", it.name, it.about.trim().trim_end_matches('.'));
    let mut remarks: Vec<String> = printed.machines.iter().map(machine).collect();
    remarks.push("Errors are in points, of rates in per cent; red: further than 5 off.".to_owned());
    if printed.quick {
        let quick = "A quick run, whose figures are not those of the documentation: no score.";
        remarks.push(quick.to_owned());
    }
    let row = |cell: &Cell| {
        let is_far = cell.error_points.abs() > FAR;
        let error = Entry::from(format!("{:+.1}", cell.error_points));
        let tone = if is_far { Tone::Worse } else { Tone::Number };
        let [document, predicted] = [cell.document, cell.predicted].map(|it| figure(it).into());
        let (row, column) = (words(cell.row.as_str()), words(cell.column.as_str()));
        vec![row, column, document, predicted, Entry { tone, ..error }, words(mark(cell))]
    };
    let [document, predicted, error] = ["document", "predicted", "error"].map(Entry::from);
    let head = vec![words("row"), words("column"), document, predicted, error, words("note")];
    let figures = Table { head, rows: printed.cells.iter().map(row).collect() };
    let scores = score_table(if printed.quick { &[] } else { &printed.skill });
    let supposed = supposed(&printed.suppositions);
    let all = [("Scores", scores), ("Figures", figures), ("Not in the document", supposed)];
    let filled = all.into_iter().filter(|(_, table)| !table.rows.is_empty());
    let tables: Vec<_> = filled.map(|(title, table)| (title.to_owned(), table)).collect();
    let title = format!("Document {}: measured and predicted", printed.document);
    report::sheet(&title, &remarks, &curves(&printed.cells), &tables)
}

fn supposed(all: &[Supposed]) -> Table {
    let rows = all.iter().map(|Supposed { row, column, before, after }| {
        vec![row.clone(), column.clone(), figure(*before), figure(*after)]
    });
    Table::of(["supposed", "figure", "without it", "with it"], rows)
}

/// The scores of the groups, and the score of predicting no effect.
fn score_table(all: &[Skill]) -> Table {
    let head = ["mean errors", "cells", "number", "no effect", "simulator", "skill", "right sign"];
    let row = |group: &str, which: &str, score: &Score| {
        let skill = score.skill().map_or("-".to_owned(), |skill| format!("{skill:.2}"));
        let [none, own] = [score.no_effect, score.simulator].map(|it| format!("{it:.1}"));
        let sign = format!("{} of {}", score.right_sign, score.cells);
        vec![group.into(), which.into(), score.cells.to_string(), none, own, skill, sign]
    };
    let rows = all.iter().flat_map(|Skill { group, all, effects }| {
        let both = [("all", all), ("with an effect", effects)].into_iter();
        both.filter(|(_, score)| score.cells > 0).map(move |(which, it)| row(group, which, it))
    });
    Table::of(head, rows)
}

/// The points of a curve: number of tasks, figure.
type Line = Vec<(f64, f64)>;

/// Draws the figures of a column by number of tasks: one picture for each set of three or more rows
/// that differ only in this number.
fn curves(cells: &[Cell]) -> Vec<Picture> {
    let mut found: Vec<(String, [Line; 2])> = Vec::new();
    for cell in cells {
        let Some((tasks, rest)) = cell.row.split_once(" task") else { continue };
        let Ok(tasks) = tasks.parse::<f64>() else { continue };
        let title = cell.column.clone() + rest.trim_start_matches('s');
        let at = found.iter().position(|(known, _)| *known == title).unwrap_or(found.len());
        if at == found.len() {
            found.push((title, Default::default()));
        }
        let points = [(tasks, cell.document), (tasks, cell.predicted)];
        found[at].1.iter_mut().zip(points).for_each(|(line, point)| line.push(point));
    }
    found.retain(|(_, [measured, _])| measured.len() >= LEAST_POINTS);
    let picture = |(title, lines): (String, [Line; 2])| {
        let named = ["document", "predicted"].into_iter().zip(lines);
        let course = |(name, points): (&str, _)| Course { name: name.to_owned(), points };
        Picture { title, x: "tasks", y: "figure", lines: named.map(course).collect() }
    };
    found.into_iter().map(picture).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed() -> Printed {
        let text = r#"{"document":"004","machines":[],"cells":[
            {"row":"1 task","column":"rate","document":705533.0,"predicted":698391.0,
             "error_points":-1.0,"calibrated":true},
            {"row":"4 tasks","column":"rate","document":100.0,"predicted":107.0,
             "error_points":7.0,"calibrated":false},
            {"row":"4 tasks","column":"gain","document":2.6,"predicted":12.0,
             "error_points":9.4,"calibrated":false,
             "scored":{"group":"gains","no_effect_points":-2.6,"deviation_points":0.0}}
        ],"events":1}"#;
        let printed: Printed = serde_json::from_str(text).unwrap();
        Printed { skill: quarry_predict::skill(&printed.cells), ..printed }
    }

    #[test]
    fn what_was_fitted_is_no_prediction() {
        let text = tables(&printed());
        assert!(text.contains("698391    -1.0 fitted\n"), "{text}");
        let score = text.lines().find(|line| line.starts_with(" gains")).expect(&text);
        let score: Vec<&str> = score.split_whitespace().collect();
        assert_eq!(score, ["gains", "all", "1", "2.6", "9.4", "-2.62", "1", "of", "1"]);
        assert!(!text.contains("with an effect"), "{text}");
        assert!(text.contains("--seeds 5"), "{text}");
        assert!(text.ends_with("1 other figure: 7.0 in the mean\n"), "{text}");
    }

    #[test]
    fn a_quick_run_is_called_one() {
        let quick = Printed { quick: true, ..printed() };
        let text = tables(&quick);
        assert!(text.contains("quick: ") && !text.contains("skill"), "{text}");
        assert!(!page(&quick).contains("Scores"), "its skill is not that of full runs");
    }

    #[test]
    fn suppositions_stand_below_the_cells_or_alone() {
        let supposed = Supposed {
            row: "64 threads, ranges locked".to_owned(),
            column: "thread speedup".to_owned(),
            before: 3.3,
            after: 92.7,
        };
        let alone = Printed { suppositions: vec![supposed], ..Printed::default() };
        let suppositions = tables(&alone);
        assert!(suppositions.starts_with("supposed"), "{suppositions}");
        assert!(suppositions.ends_with("3.3         92.7\n"), "{suppositions}");
        let page = page(&alone);
        assert!(page.contains("with it") && !page.contains("Scores"), "{page}");
        let below = tables(&Printed { suppositions: alone.suppositions, ..printed() });
        assert_eq!(below, format!("{}\n{suppositions}", tables(&printed())));
    }

    #[test]
    fn pages_mark_what_is_far_off_and_name_kernels() {
        let mut printed = printed();
        let cell = |row: &str| Cell { row: row.to_owned(), ..printed.cells[0].clone() };
        let more = ["2 tasks", "8 tasks"].map(cell);
        printed.cells.extend(more);
        let about = "Two Xeon, Linux 4.15".to_owned();
        printed.machines = vec![Shown { name: "004".to_owned(), about, fitted: Vec::new() }];
        let curve = &curves(&printed.cells)[0];
        assert_eq!((&*curve.title, curve.lines[0].points.len()), ("rate", 4), "one task, too");
        let page = page(&printed);
        assert_eq!(page.matches("class=\"worse\"").count(), 2, "{page}");
        for part in
            ["+9.4", "no effect", "Linux 4.15", "<svg", "color-scheme", "width=device-width"]
        {
            assert!(page.contains(part), "{part}");
        }
    }
}
