//! `quarry lab targets`: shows side by side how far each processor reached the targets. Each
//! processor has a record, a JSON file to be committed, which outlives the machine's samples.

use super::targets::{against, aim, unit};
use crate::judge::{Reached, Success, written};
use crate::results::{self, Relation, Run};
use crate::statistics::{Estimate, Interval};
use crate::table::{self, Entry, Table, words};
use crate::usage::Usage;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

const SCHEMA: &str = "quarry-targets/1";

/// Print, for each processor, which targets were reached.
///
/// Runs given as arguments are recorded first. Their results replace those that were recorded for
/// the same targets on the same processor.
#[derive(Args)]
pub struct TargetsArgs {
    /// Directories that `quarry lab run peers --out RUN` has made.
    #[arg(value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The directory with a record for each processor.
    #[arg(long, value_name = "DIR")]
    records: PathBuf,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    schema: String,
    processor: String,
    targets: Vec<Figure>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Figure {
    work: String,
    against: String,
    relation: Relation,
    unit: String,
    at_most: f64,
    /// `None` without a figure; the verdict then explains why.
    centre: Option<f64>,
    interval: Option<[f64; 2]>,
    verdict: String,
    /// The day of the run (UTC).
    date: String,
}

impl TargetsArgs {
    /// Records the runs and prints the table to `out`.
    ///
    /// # Errors
    /// A usage error if a run has no targets; a file that cannot be read or written.
    pub fn run(self, out: &mut dyn Write) -> Result<()> {
        for place in &self.runs {
            let run = results::read(place)?;
            if run.meta.targets.is_empty() {
                let experiment = &run.meta.experiment;
                bail!(Usage(format!(
                    "{}: {experiment} has no targets; accepted: runs of `quarry lab run peers`",
                    place.display()
                )));
            }
            Record::of(&run).write(&self.records)?;
        }
        let records = read(&self.records)?;
        ensure!(!records.is_empty(), "{}: no records yet", self.records.display());
        writeln!(out, "{}", table(&records).text())?;
        Ok(())
    }
}

impl Record {
    fn of(run: &Run) -> Self {
        let date = run.meta.origin.as_ref().map_or(String::new(), |it| it.date());
        let date = date.split(' ').next().unwrap_or_default();
        let all = Reached::all(run);
        let measured = all.iter().filter(|it| it.success != Success::NotRun);
        Self {
            schema: SCHEMA.to_owned(),
            processor: run.meta.environment.cpu.clone(),
            targets: measured.map(|it| Figure::of(it, run, date)).collect(),
        }
    }

    /// Writes the record to its file, and keeps that file's results for other targets.
    fn write(mut self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let place = directory.join(self.file_name());
        if place.exists() {
            let before = read_one(&place)?;
            let is_new = |it: &Figure| !self.targets.iter().any(|other| other.work == it.work);
            let kept: Vec<Figure> = before.targets.into_iter().filter(is_new).collect();
            self.targets.extend(kept);
        }
        let text = serde_json::to_string_pretty(&self)? + "\n";
        fs::write(&place, text).with_context(|| place.display().to_string())
    }

    fn file_name(&self) -> String {
        let letters = self.processor.to_lowercase();
        let words = letters.split(|letter: char| !letter.is_ascii_alphanumeric());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        format!("{}.json", words.join("-"))
    }
}

impl Figure {
    fn of(reached: &Reached<'_>, run: &Run, date: &str) -> Self {
        let target = reached.target;
        Self {
            work: target.work.clone(),
            against: against(target),
            relation: target.relation,
            unit: unit(target, run).to_owned(),
            at_most: target.at_most,
            centre: reached.estimate.map(|it| it.centre),
            interval: reached.estimate.and_then(|it| it.interval).map(|it| [it.low, it.high]),
            verdict: reached.success.to_string(),
            date: date.to_owned(),
        }
    }

    fn aim(&self) -> String {
        aim(self.relation, self.at_most, &self.unit)
    }

    /// The figure and its verdict; also the aim, if the run had another aim than the present one.
    fn text(&self, aim: &str) -> String {
        let estimate = self.centre.map(|centre| Estimate {
            centre,
            interval: self.interval.map(|[low, high]| Interval { low, high }),
        });
        let text = format!("{} {}", written(estimate, &self.unit, table::multiple), self.verdict);
        let text = text.trim_start();
        if self.aim() == aim { text.to_owned() } else { format!("{text} (aim {})", self.aim()) }
    }
}

/// Reads every record, the ones with the newest figures first.
fn read(directory: &Path) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    for entry in entries {
        let place = entry?.path();
        if place.extension().is_some_and(|it| it == "json") {
            records.push(read_one(&place)?);
        }
    }
    let newest = |it: &Record| it.targets.iter().map(|it| it.date.clone()).max();
    records.sort_by(|one, other| {
        newest(other).cmp(&newest(one)).then(one.processor.cmp(&other.processor))
    });
    Ok(records)
}

fn read_one(place: &Path) -> Result<Record> {
    let name = place.display();
    let text = fs::read_to_string(place).with_context(|| name.to_string())?;
    let record: Record = serde_json::from_str(&text).with_context(|| name.to_string())?;
    ensure!(record.schema == SCHEMA, "{name}: schema {}, and this reads {SCHEMA}", record.schema);
    Ok(record)
}

/// A row for each target in the order of the first record, and a column for each processor.
fn table(records: &[Record]) -> Table {
    let mut targets: Vec<&Figure> = Vec::new();
    for figure in records.iter().flat_map(|it| &it.targets) {
        if !targets.iter().any(|it| it.work == figure.work) {
            targets.push(figure);
        }
    }
    let head = [words("work"), words("against"), Entry::from("at most")];
    let head = head.into_iter().chain(records.iter().map(|it| Entry::from(column(it))));
    let row = |target: &&Figure| {
        let aim = target.aim();
        let of = |record: &Record| {
            let figure = record.targets.iter().find(|it| it.work == target.work);
            Entry::from(figure.map_or("-".to_owned(), |it| it.text(&aim)))
        };
        let head = [words(&target.work), words(&target.against), Entry::from(aim.clone())];
        head.into_iter().chain(records.iter().map(of)).collect::<Vec<Entry>>()
    };
    Table::of(head, targets.iter().map(row))
}

fn column(record: &Record) -> String {
    let mut days: Vec<&str> = record.targets.iter().map(|it| it.date.as_str()).collect();
    days.sort_unstable();
    match (days.first(), days.last()) {
        (Some(first), Some(last)) if first != last => {
            format!("{}; {first} to {last}", record.processor)
        }
        (Some(day), _) if !day.is_empty() => format!("{}; {day}", record.processor),
        _ => record.processor.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::examples::{Cells, run_of};
    use crate::results::{Against, Direction, Metric, Origin, Over, Target};

    fn run(processor: &str, began: u64, ours: f64, aims: &[(&str, f64)]) -> Run {
        let cells: Cells = [("quarry", ours), ("glibc", 10.0)]
            .map(|(name, ns)| ("thread".to_owned(), 1, name.to_owned(), vec![ns; 6]))
            .into();
        let metric = Metric::new("time", "ns", Direction::Lower, "value").primary();
        let mut run = run_of("peers", metric, &cells);
        let target = |(work, at_most): &(&str, f64)| Target {
            work: (*work).to_owned(),
            workloads: vec![if *work == "never" { "no" } else { "thread" }.to_owned()],
            metric: "time".to_owned(),
            against: Against::Best,
            over: Over::Mean,
            relation: Relation::Ratio,
            at_most: *at_most,
        };
        run.meta.targets = aims.iter().map(target).collect();
        run.meta.environment.cpu = processor.to_owned();
        run.meta.origin = Some(Origin { began, ..Origin::default() });
        run
    }

    #[test]
    fn each_processor_has_a_column_and_keeps_what_is_not_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let write = |run: Run| Record::of(&run).write(folder.path()).unwrap();
        let day = 24 * 60 * 60;
        write(run("Maker, family 1, model 2", 0, 9.0, &[("a", 1.0), ("b", 1.0), ("never", 1.0)]));
        write(run("Maker, family 1, model 2", day, 8.0, &[("a", 0.7), ("never", 1.0)]));
        write(run("Other (R) 7", 2 * day, 5.0, &[("a", 1.0)]));
        let mut files: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        files.sort();
        assert_eq!(files, ["maker-family-1-model-2.json", "other-r-7.json"]);
        let text = table(&read(folder.path()).unwrap()).text();
        let rows: Vec<Vec<&str>> =
            text.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
        let maker = "Maker, family 1, model 2; 1970-01-01 to 1970-01-02";
        assert_eq!(rows[0][1..6], ["work", "against", "at most", "Other (R) 7; 1970-01-03", maker]);
        let earlier_aim = "0.800 [0.800, 0.800] missed (aim 0.70)";
        assert_eq!(
            rows[2][1..6],
            ["a", "the best", "1.00", "0.500 [0.500, 0.500] met", earlier_aim]
        );
        assert_eq!(rows[3][1..6], ["b", "the best", "1.00", "-", "0.900 [0.900, 0.900] met"]);
        assert_eq!(rows.len(), 4);
    }

    #[test]
    fn a_file_of_another_layout_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::of(&run("x", 0, 9.0, &[("a", 1.0)]));
        record.schema = "quarry-targets/9".to_owned();
        record.write(folder.path()).unwrap();
        let error = format!("{:#}", read(folder.path()).unwrap_err());
        assert!(error.contains("x.json: schema quarry-targets/9"), "{error}");
        fs::write(folder.path().join("x.json"), "no").unwrap();
        let error = format!("{:#}", read(folder.path()).unwrap_err());
        assert!(error.contains("x.json: expected"), "{error}");
    }
}
