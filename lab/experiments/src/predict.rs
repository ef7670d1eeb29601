//! `quarry lab predict`: what a document measured beside what its machine does in simulated time.
//!
//! The machine is a program of its own, `quarry-predict`, because a program chooses the machine
//! behind the seam of `quarry-sys` when it is built.

use anyhow::{Context, Result, bail};
use clap::Args;
use maud::{DOCTYPE, html};
use quarry_compare::companion;
use quarry_predict::{Cell, Fit, Moved, Printed, Score, Skill, Supposed};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const NAME: &str = "quarry-predict";

/// `quarry lab predict ...`
#[derive(Args)]
pub struct PredictArgs {
    /// The document: 000 (`UDP_STREAM`, hackbench), 001 (truncation, of which there are
    /// suppositions only), 002 (`TCP_RR`), 003 (`UDP-U-4k`) or 004 (page faults); llfree: what
    /// others have published of Linux's frame allocator on 26 cores.
    #[arg(value_parser = ["000", "001", "002", "003", "004", "llfree"])]
    document: String,
    /// Print one object of JSON; `cells` has a line for each figure.
    #[arg(long)]
    json: bool,
    /// Write a page with the table to this file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "sensitivity"])]
    html: Option<PathBuf>,
    /// Only the cells that constants of the machine were fitted to.
    #[arg(long)]
    calibrate: bool,
    /// Fit the fitted constants anew to all but one of these cells, for each of them.
    #[arg(long)]
    leave_out: bool,
    /// Change each constant by a fifth, down and up, and print what moves; `--only` is shorter.
    #[arg(long)]
    sensitivity: bool,
    /// Only rows of so many tasks or threads (002, 004).
    #[arg(long, value_name = "N")]
    only: Option<usize>,
    /// A fifth of the time, and no suppositions: for a look, with other figures than the docs'.
    #[arg(long)]
    quick: bool,
    /// Another value for a constant of the machines; can be given several times.
    #[arg(long, value_name = "CONSTANT=VALUE")]
    set: Vec<String>,
}

impl PredictArgs {
    /// Starts the program and prints what it predicts.
    ///
    /// # Errors
    /// The program is not there, or has failed; the page cannot be written.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<()> {
        let text = self.ask()?;
        if self.json {
            return Ok(out.write_all(text.as_bytes())?);
        }
        let printed: Printed = serde_json::from_str(&text).context(NAME)?;
        if let Some(file) = &self.html {
            let page = page(&printed);
            return fs::write(file, page).with_context(|| file.display().to_string());
        }
        let lines = if self.sensitivity { moves(&printed.sensitivity) } else { tables(&printed) };
        Ok(out.write_all(lines.as_bytes())?)
    }

    fn ask(&self) -> Result<String> {
        let mut command = Command::new(companion::find(NAME, "QUARRY_PREDICT")?);
        command.arg(&self.document).stderr(Stdio::inherit());
        for (flag, wanted) in [
            ("--calibrate", self.calibrate),
            ("--leave-out", self.leave_out),
            ("--sensitivity", self.sensitivity),
            ("--quick", self.quick),
        ] {
            command.args(wanted.then_some(flag));
        }
        if let Some(only) = self.only {
            command.args(["--only", &only.to_string()]);
        }
        for set in &self.set {
            command.args(["--set", set]);
        }
        let output = command.output().context(NAME)?;
        if !output.status.success() {
            bail!("{NAME} {}: {}", self.document, output.status);
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// A figure with as many decimals as make sense of it.
fn figure(value: f64) -> String {
    if value.abs() < 1000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// Marks what was fitted, and what its author has withdrawn.
fn mark(cell: &Cell) -> &str {
    if cell.calibrated { "fitted" } else { &cell.note }
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

/// The score of each group beside that of predicting no effect.
fn scores(all: &[Skill]) -> String {
    let mut text = format!(
        "{:26} {:20} {:>6} {:>10} {:>10} {:>6} {:>12}\n",
        "mean errors", "cells", "number", "no effect", "simulator", "skill", "right sign"
    );
    for Skill { group, all, effects } in all {
        for (which, score) in [("all", all), ("with an effect", effects)] {
            let Score { cells, no_effect, simulator, right_sign } = score;
            let skill = score.skill().map_or("-".to_owned(), |skill| format!("{skill:.2}"));
            if *cells > 0 {
                text += &format!(
                    "{group:26} {which:20} {cells:>6} {no_effect:>10.1} {simulator:>10.1} \
                     {skill:>6} {:>12}\n",
                    format!("{right_sign} of {cells}")
                );
            }
        }
    }
    text
}

/// The mean error of the figures that are no effects, which nothing else predicts.
fn others(cells: &[Cell]) -> String {
    let predicted = cells.iter().filter(|cell| cell.is_prediction() && cell.scored.is_none());
    let errors: Vec<f64> = predicted.map(|cell| cell.error_points.abs()).collect();
    if errors.is_empty() {
        return String::new();
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    format!("{} rates and other figures: {mean:.1} in the mean\n", errors.len())
}

/// The cells, their scores, and below them what the document supposes without a figure.
fn tables(printed: &Printed) -> String {
    let mut text = if printed.cells.is_empty() { String::new() } else { table(&printed.cells) };
    if !printed.skill.is_empty() {
        text += "\n";
        text += &scores(&printed.skill);
    }
    text += &others(&printed.cells);
    if printed.quick {
        text += "quick: runs of a fifth of the time, whose figures are not the documentation's\n";
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

/// A line for each cell that is left out, with its error at the end; the first one has all cells.
fn fits(all: &[Fit]) -> String {
    let line = |Fit { without, constants, error_points: rms, predicted_points }: &Fit| {
        let values: String =
            constants.iter().map(|(name, it)| format!("{name} {it:.1}, ")).collect();
        let (out, error) = (without.as_deref().unwrap_or("-"), predicted_points.unwrap_or(0.0));
        format!("{out:36} {values}rms {rms:.1}, {error:+.1}\n")
    };
    all.iter().map(line).collect()
}

/// The table as a page that needs nothing else.
fn page(printed: &Printed) -> String {
    let Printed { document, cells, skill, .. } = printed;
    let title = format!("Document {document}: measured and predicted");
    let style = "body{font:15px sans-serif;margin:2em}td,th{padding:.2em .8em;text-align:right}\
                 td:nth-child(-n+2),th:nth-child(-n+2),td:last-child{text-align:left}\
                 .far{color:#b00}";
    html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; title { (title) } style { (style) } }
            body {
                h1 { (title) }
                p { "Errors are in points, of rates in per cent. Red: further than 5 points off." }
                pre { (scores(skill)) }
                table {
                    tr { th{"row"} th{"column"} th{"document"} th{"predicted"} th{"error"} th{} }
                    @for cell in cells {
                        tr class=[(cell.error_points.abs() > 5.0).then_some("far")] {
                            td { (cell.row) }
                            td { (cell.column) }
                            td { (figure(cell.document)) }
                            td { (figure(cell.predicted)) }
                            td { (format!("{:+.1}", cell.error_points)) }
                            td { (mark(cell)) }
                        }
                    }
                }
            }
        }
    }
    .into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed() -> Printed {
        let text = r#"{"document":"004","machines":[],"cells":[
            {"row":"1 tasks","column":"rate","document":705533.0,"predicted":698391.0,
             "error_points":-1.0,"calibrated":true},
            {"row":"4 tasks","column":"rate","document":100.0,"predicted":107.0,
             "error_points":7.0,"calibrated":false},
            {"row":"4 tasks","column":"gain","document":2.6,"predicted":12.0,
             "error_points":9.4,"calibrated":false,
             "scored":{"group":"gains","no_effect_points":-2.6,"deviation_points":0.0}},
            {"row":"send-64","column":"gain","document":46.0,"predicted":0.0,
             "error_points":-46.0,"calibrated":false,"note":"withdrawn",
             "scored":{"group":"gains","no_effect_points":-46.0,"deviation_points":0.0}}
        ],"events":1}"#;
        let printed: Printed = serde_json::from_str(text).unwrap();
        Printed { skill: quarry_predict::skill(&printed.cells), ..printed }
    }

    #[test]
    fn what_was_fitted_or_withdrawn_is_no_prediction() {
        let text = tables(&printed());
        assert!(text.contains("698391    -1.0 fitted\n"), "{text}");
        assert!(text.contains("-46.0 withdrawn\n"), "{text}");
        let score = "gains                      all                       1        2.6        9.4";
        assert!(text.contains(&format!("{score}  -2.62       1 of 1\n")), "{text}");
        assert!(!text.contains("with an effect"), "{text}");
        assert!(text.ends_with("1 rates and other figures: 7.0 in the mean\n"), "{text}");
    }

    #[test]
    fn a_quick_run_is_called_one() {
        let text = tables(&Printed { quick: true, ..printed() });
        assert!(text.contains("quick: "), "{text}");
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
        let below = tables(&Printed { suppositions: alone.suppositions, ..printed() });
        assert_eq!(below, format!("{}\n{suppositions}", tables(&printed())));
    }

    #[test]
    fn pages_mark_what_is_far_off() {
        let page = page(&printed());
        assert_eq!(page.matches("class=\"far\"").count(), 3);
        assert!(page.contains("<td>+9.4</td>") && page.contains("no effect"));
    }
}
