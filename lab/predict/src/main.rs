//! `quarry-predict`: the replays of the documents on the documents' machines, in simulated time.
//!
//! ```text
//! machine       the file of a machine: topology, costs, and work of the documents' programs
//! run           one replay on a machine
//! documents     the figures of the documents
//! faults        document 004
//! transactions  document 002
//! truncation    document 001, which gives no figure to predict
//! bulk          figures of Linux's frame allocator that others published
//! fit           constants fitted anew, with each cell left out in turn
//! counters      counts of two simulated CPUs, for comparison with real ones
//! ```
//!
//! A document's machine needs a file in `data/machines`, in which every constant names its source,
//! and a line in `machine`. A document's cells need a file here, a line of `DOCUMENTS`, arms in
//! `cells` and `suppositions`, and a value of `PredictArgs` in `lab/experiments/src/predict.rs`.

#[cfg(not(quarry_sim))]
compile_error!("quarry-predict needs RUSTFLAGS=\"--cfg quarry_sim\", as `make lab` sets it");

mod bulk;
mod counters;
mod documents;
mod faults;
mod fit;
mod machine;
mod run;
mod transactions;
mod truncation;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use machine::MachineFile;
use quarry_predict::{Cell, Moved, Printed, Shown, Supposed, skill};
use std::collections::BTreeSet;
use std::process::ExitCode;

const USAGE: &str = "\
quarry-predict DOCUMENT [--calibrate | --leave-out | --sensitivity] [--only N] [--quick]
               [--set CONSTANT=VALUE].. [--seed N] [--length half|one|two] [--other]
  DOCUMENT        001, 002 or 004; `llfree` for a cross-check; `counters` for the counts of
                  two CPUs
  --calibrate     only the cells that constants were fitted to
  --leave-out     fitted constants, as they are without each of these cells
  --sensitivity   each constant changed by a fifth, up and down: what moves by how much
  --only          only rows of so many tasks or threads (002, 004)
  --quick         a fifth of the simulated time, and no suppositions: for a look
  --set           another value of a constant of the machines; can be given several times
  --seed          each piece of work takes up to 1 % more or less, drawn from this number (002, 004)
  --length        the simulated time that counts, beside the usual one (002, 004)
  --other         the machine's other constants, which fit as well (004)";

/// Values of `--length`, with the halves of the usual time.
const LENGTHS: [(&str, u32); 3] = [("half", 1), ("one", 2), ("two", 4)];

/// Documents whose cells have scores.
const SCORED: [&str; 2] = ["002", "004"];

/// The word on the command line, in place of a document, that prints the counts of two CPUs.
const COUNTERS: &str = "counters";

/// The documents, each with the file of its machine.
const DOCUMENTS: [(&str, &str); 5] = [
    ("001", truncation::MACHINE),
    ("002", transactions::MACHINE),
    ("004", faults::MACHINE),
    (bulk::MACHINE, bulk::MACHINE),
    (COUNTERS, counters::MACHINE),
];

/// The largest value that `--set` accepts: one second in ns, so that no sum of a replay overflows.
const MOST: f64 = 1e9;

fn shown(machine: &MachineFile) -> Shown {
    let fitted = machine.constants.iter().filter(|(_, constant)| constant.fitted);
    let fitted = fitted.map(|(name, _)| name.clone()).collect();
    Shown { name: machine.name.to_owned(), about: machine.about.clone(), fitted }
}

/// The error for a name that is not accepted.
fn unknown(what: &str, name: &str, accepted: impl IntoIterator<Item = impl ToString>) -> Error {
    let accepted: Vec<String> = accepted.into_iter().map(|it| it.to_string()).collect();
    anyhow!("no {what} {name}; accepted: {}", accepted.join(", "))
}

fn halves(length: &str) -> Result<u32> {
    let known = LENGTHS.iter().find(|(name, _)| *name == length);
    let names = LENGTHS.map(|(name, _)| name);
    Ok(known.ok_or_else(|| unknown("length", length, names).context("--length"))?.1)
}

struct Options {
    document: String,
    machine: MachineFile,
    calibrate: bool,
    leave_out: bool,
    sensitivity: bool,
    only: Option<usize>,
}

impl Options {
    /// Reads the command line. Refuses rows, constants and values that the document and its
    /// machine do not have: else the replays would run for minutes and ignore such an option.
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let document = words.next().context("no document; `quarry-predict --help` lists them")?;
        let known = DOCUMENTS.iter().find(|(name, _)| *name == document);
        let names = DOCUMENTS.map(|(name, _)| name);
        let (_, machine) = known.ok_or_else(|| unknown("document", &document, names))?;
        let machine = MachineFile::named(machine);
        let (calibrate, leave_out, sensitivity, only) = (false, false, false, None);
        let mut options = Self { document, machine, calibrate, leave_out, sensitivity, only };
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word}: no value"));
            match word.as_str() {
                "--calibrate" => options.calibrate = true,
                "--leave-out" => (options.calibrate, options.leave_out) = (true, true),
                "--sensitivity" => options.sensitivity = true,
                "--quick" => options.machine.quick = true,
                "--only" => options.only = Some(options.row(&value()?)?),
                "--set" => options.set(&value()?)?,
                "--seed" | "--length" if !SCORED.contains(&options.document.as_str()) => {
                    bail!("{word}: accepted with {}", SCORED.join(" and "))
                }
                "--seed" => {
                    let seed = value()?.parse();
                    let seed = seed.ok().with_context(|| format!("{word}: accepted: a number"))?;
                    options.machine.seed = Some(seed);
                }
                "--length" => options.machine.halves = halves(&value()?)?,
                "--other" => options.take_other()?,
                _ => bail!("no option {word}; `quarry-predict --help` lists them"),
            }
        }
        options.machine.costs().context("--set")?;
        Ok(options)
    }

    /// The number of tasks or threads that `--only` asks for.
    fn row(&self, text: &str) -> Result<usize> {
        let rows: BTreeSet<usize> = match self.document.as_str() {
            "002" => documents::transactions(None).iter().map(|line| line.threads).collect(),
            "004" => documents::faults(None).iter().map(|line| line.tasks).collect(),
            other => bail!("--only {text}: no rows of tasks in {other}; accepted with 002 and 004"),
        };
        let row = text.parse().ok().filter(|it| rows.contains(it));
        row.ok_or_else(|| unknown("row", text, rows).context(format!("--only {text}")))
    }

    /// Gives the machine its other set of constants.
    fn take_other(&mut self) -> Result<()> {
        let MachineFile { name, ref other, ref mut constants, .. } = self.machine;
        ensure!(!other.is_empty(), "--other: {name} has no other set of constants");
        for (name, value) in other {
            constants.get_mut(name).with_context(|| format!("no constant {name}"))?.value = *value;
        }
        Ok(())
    }

    /// Gives a constant of the machine the value that `--set` asks for.
    fn set(&mut self, text: &str) -> Result<()> {
        let given = text.split_once('=').and_then(|(name, it)| Some((name, it.parse().ok()?)));
        let Some((name, value)) = given.filter(|(_, value)| (0.0..=MOST).contains(value)) else {
            bail!("--set {text}: accepted: CONSTANT=VALUE, a value from 0 to {MOST}");
        };
        let constants = &mut self.machine.constants;
        let Some(known) = constants.get_mut(name) else {
            let error = unknown("constant", name, constants.keys());
            return Err(error.context(format!("--set {text}")));
        };
        known.value = value;
        Ok(())
    }

    fn cells(&self, machine: &MachineFile) -> Result<Vec<Cell>> {
        match (self.document.as_str(), self.calibrate) {
            (bulk::MACHINE, true) => bulk::calibration(machine),
            (bulk::MACHINE, false) => bulk::predict(machine),
            ("002", true) => transactions::calibration(machine, self.only),
            ("002", false) => transactions::predict(machine, self.only),
            ("004", true) => faults::calibration(machine, self.only),
            ("004", false) => faults::predict(machine, self.only),
            // Document 001 has no figure to predict.
            _ => Ok(Vec::new()),
        }
    }

    /// Computes the document's suppositions on a machine, as changes of the figures in `cells`.
    fn suppositions(&self, machine: &MachineFile, cells: &[Cell]) -> Result<Vec<Supposed>> {
        match self.document.as_str() {
            _ if self.calibrate => Ok(Vec::new()),
            "001" => truncation::suppose(machine),
            _ if machine.quick || machine.seed.is_some() => Ok(Vec::new()),
            "002" if self.only.is_none() => transactions::suppose(machine),
            "004" => faults::suppose(machine, cells),
            _ => Ok(Vec::new()),
        }
    }

    fn moved(&self, machine: &MachineFile) -> Result<Vec<Moved>> {
        let plain = self.cells(machine)?;
        let mut all = Vec::new();
        for constant in machine.constants.keys() {
            let with = |factor: f64| {
                let mut machine = machine.clone();
                machine.constants.get_mut(constant).expect("a key").value *= factor;
                // A constant at its bound can move in one direction only.
                if machine.costs().is_ok() { self.cells(&machine) } else { Ok(plain.clone()) }
            };
            let (lower, higher) = (with(0.8)?, with(1.2)?);
            for ((cell, lower), higher) in plain.iter().zip(lower).zip(higher) {
                let (machine, constant) = (machine.name.to_owned(), constant.clone());
                let Cell { row, column, error_points, .. } = cell.clone();
                let [lower, higher] = [lower, higher].map(|it| it.error_points - error_points);
                all.push(Moved { machine, constant, row, column, lower, higher });
            }
        }
        Ok(all)
    }

    fn print(&self) -> Result<()> {
        if self.document == COUNTERS {
            let (replays, us) = (&counters::REPLAYS, counters::MEASURED_US);
            let counted = counters::count(&self.machine, replays, us)?;
            println!("{}", serde_json::to_string(&counted)?);
            return Ok(());
        }
        let machine = &self.machine;
        let (document, quick) = (self.document.clone(), machine.quick);
        let mut printed = Printed { document, quick, ..Printed::default() };
        printed.machines.push(shown(machine));
        if self.leave_out {
            printed.fits = fit::leave_out(machine, |it| self.cells(it))?;
        } else if self.sensitivity {
            printed.sensitivity = self.moved(machine)?;
        } else {
            printed.cells = self.cells(machine)?;
            printed.suppositions = self.suppositions(machine, &printed.cells)?;
        }
        run::end_of_progress();
        printed.skill = skill(&printed.cells);
        printed.events = run::events();
        println!("{}", serde_json::to_string(&printed)?);
        Ok(())
    }
}

/// Runs the command line. The status is 2 if the command line is wrong and nothing has run.
fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|word| word == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let options = Options::parse(std::env::args().skip(1)).map_err(|error| (error, 2));
    let done = options.and_then(|options| options.print().map_err(|error| (error, 1)));
    let Err((error, status)) = done else { return ExitCode::SUCCESS };
    eprintln!("quarry: {error:#}");
    ExitCode::from(status)
}
