//! `quarry lab predict`: what a document measured beside what its machine does in simulated time.
//!
//! The machine is a program of its own, `quarry-predict`, because a program chooses the machine
//! behind the seam of `quarry-sys` when it is built.

use anyhow::{Context, Result, bail};
use clap::Args;
use maud::{DOCTYPE, html};
use quarry_compare::companion;
use quarry_predict::{Cell, Moved, Printed, Supposed};
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
    /// Change each constant by a fifth, down and up, and print what that moves, in points. It runs
    /// everything some forty times: `--only` makes it shorter.
    #[arg(long)]
    sensitivity: bool,
    /// Only rows of so many tasks or threads (002, 004).
    #[arg(long, value_name = "N")]
    only: Option<usize>,
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
            let page = page(&self.document, &printed.cells);
            return fs::write(file, page).with_context(|| file.display().to_string());
        }
        let lines = if self.sensitivity { moves(&printed.sensitivity) } else { tables(&printed) };
        Ok(out.write_all(lines.as_bytes())?)
    }

    fn ask(&self) -> Result<String> {
        let mut command = Command::new(companion::find(NAME, "QUARRY_PREDICT")?);
        command.arg(&self.document).stderr(Stdio::inherit());
        for (flag, wanted) in [("--calibrate", self.calibrate), ("--sensitivity", self.sensitivity)]
        {
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
    let errors: Vec<f64> = cells
        .iter()
        .filter(|cell| cell.is_prediction())
        .map(|cell| cell.error_points.abs())
        .collect();
    let within = errors.iter().filter(|error| **error <= 5.0).count();
    text + &format!("{within} of {} predictions lie within 5 points\n", errors.len())
}

/// The cells, and below them what the document supposes without a figure.
fn tables(printed: &Printed) -> String {
    let mut text = if printed.cells.is_empty() { String::new() } else { table(&printed.cells) };
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

/// The table as a page that needs nothing else.
fn page(document: &str, cells: &[Cell]) -> String {
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

    fn cells() -> Vec<Cell> {
        let text = r#"{"document":"004","machines":[],"cells":[
            {"row":"1 tasks","column":"rate","document":705533.0,"predicted":698391.0,
             "error_points":-1.0,"calibrated":true},
            {"row":"4 tasks","column":"gain","document":2.6,"predicted":12.0,
             "error_points":9.4,"calibrated":false},
            {"row":"send-64","column":"gain","document":46.0,"predicted":0.0,
             "error_points":-46.0,"calibrated":false,"note":"withdrawn"}
        ],"events":1,"seconds":0.5}"#;
        serde_json::from_str::<Printed>(text).unwrap().cells
    }

    #[test]
    fn what_was_fitted_or_withdrawn_is_no_prediction() {
        let text = table(&cells());
        assert!(text.contains("705533       698391    -1.0 fitted\n"), "{text}");
        assert!(text.contains("-46.0 withdrawn\n"), "{text}");
        assert!(text.ends_with("0 of 1 predictions lie within 5 points\n"), "{text}");
    }

    #[test]
    fn suppositions_stand_below_the_cells_or_alone() {
        let supposed = Supposed {
            row: "64 threads, ranges locked".to_owned(),
            column: "thread speedup".to_owned(),
            before: 3.3,
            after: 92.7,
        };
        let mut printed = Printed { suppositions: vec![supposed], ..Printed::default() };
        let alone = tables(&printed);
        assert!(alone.starts_with("supposed") && alone.ends_with("3.3         92.7\n"), "{alone}");
        printed.cells = cells();
        let below = tables(&printed);
        assert_eq!(below, format!("{}\n{alone}", table(&printed.cells)));
    }

    #[test]
    fn pages_mark_what_is_far_off() {
        let page = page("004", &cells());
        assert_eq!(page.matches("class=\"far\"").count(), 2);
        assert!(page.contains("<td>+9.4</td>"));
    }
}
