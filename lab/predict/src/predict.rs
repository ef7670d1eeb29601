//! The command line: the choice of a document, and which of its figures to print.

use crate::machine::MachineFile;
use crate::{
    bulk, counters, faults, fit, messages, packets, run, sockets, transactions, truncation,
};
use anyhow::{Context, Result, bail};
use quarry_predict::{Cell, Moved, Printed, Shown, Supposed, skill};
use std::process::ExitCode;

const USAGE: &str = "\
quarry-predict DOCUMENT [--calibrate | --leave-out | --sensitivity] [--only N] [--quick]
               [--set CONSTANT=VALUE]..
  DOCUMENT        000, 001, 002, 003 or 004; `llfree` for a cross-check; `counters` for the
                  counts of two CPUs
  --calibrate     only the cells that constants were fitted to
  --leave-out     fitted constants, as they are without each of these cells
  --sensitivity   each constant changed by a fifth, up and down: what moves by how much
  --only          only rows of so many tasks or threads
  --quick         a fifth of the simulated time, and no suppositions: for a look";

/// The machine on which the document ran hackbench.
const HACKBENCH_MACHINE: &str = "000-one-socket";

/// The machine on which the document ran sockperf.
const SOCKPERF_MACHINE: &str = "000-two-sockets";

/// The word on the command line, in place of a document, that prints the counts of two CPUs.
const COUNTERS: &str = "counters";

fn shown(name: &str, machine: &MachineFile) -> Shown {
    let fitted = machine.constants.iter().filter(|(_, constant)| constant.fitted);
    let fitted = fitted.map(|(name, _)| name.clone()).collect();
    Shown { name: name.to_owned(), about: machine.about.clone(), fitted }
}

#[derive(Default)]
struct Options {
    document: String,
    calibrate: bool,
    leave_out: bool,
    sensitivity: bool,
    only: Option<usize>,
    quick: bool,
    set: Vec<(String, f64)>,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let document = words.next().context(USAGE)?;
        let mut options = Self { document, ..Self::default() };
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word}: no value\n{USAGE}"));
            match word.as_str() {
                "--calibrate" => options.calibrate = true,
                "--leave-out" => (options.calibrate, options.leave_out) = (true, true),
                "--sensitivity" => options.sensitivity = true,
                "--quick" => options.quick = true,
                "--only" => options.only = Some(value()?.parse().context("--only: a number")?),
                "--set" => {
                    let text = value()?;
                    let (name, value) = text.split_once('=').context("--set: CONSTANT=VALUE")?;
                    options.set.push((name.to_owned(), value.parse().context("--set: a number")?));
                }
                _ => bail!("no option {word}\n{USAGE}"),
            }
        }
        Ok(options)
    }

    fn machine(&self, name: &str) -> Result<MachineFile> {
        let mut machine = MachineFile::named(name)?;
        machine.quick = self.quick;
        for (constant, value) in &self.set {
            if let Some(known) = machine.constants.get_mut(constant) {
                known.value = *value;
            }
        }
        Ok(machine)
    }

    fn machines(&self) -> Result<Vec<&'static str>> {
        Ok(match self.document.as_str() {
            "000" => messages::MACHINES.map(|(name, _)| name).to_vec(),
            "001" => vec![truncation::MACHINE],
            "002" => vec![transactions::MACHINE],
            "003" => vec![packets::MACHINE],
            bulk::MACHINE => vec![bulk::MACHINE],
            "004" => vec![faults::MACHINE],
            other => bail!("no document {other}; accepted: 000, 001, 002, 003, 004, llfree"),
        })
    }

    fn cells(&self, name: &str, machine: &MachineFile) -> Result<Vec<Cell>> {
        match (self.document.as_str(), self.calibrate) {
            ("001", _) => Ok(Vec::new()),
            (bulk::MACHINE, true) => bulk::calibration(machine),
            (bulk::MACHINE, false) => bulk::predict(machine),
            ("002", true) => transactions::calibration(machine, self.only),
            ("002", false) => transactions::predict(machine, self.only),
            ("003", true) => packets::calibration(machine),
            ("003", false) => packets::predict(machine),
            ("004", true) => faults::calibration(machine, self.only),
            ("004", false) => faults::predict(machine, self.only),
            (_, true) => messages::calibration(machine, name),
            (_, false) => {
                let mut cells = messages::streams(machine, name)?;
                if name == HACKBENCH_MACHINE && !self.sensitivity {
                    cells.extend(messages::hackbenches(machine)?);
                }
                if name == SOCKPERF_MACHINE {
                    cells.extend(sockets::throughputs(machine)?);
                }
                Ok(cells)
            }
        }
    }

    /// The suppositions of the document on the machine `name`, from the predictions in `cells`.
    fn suppositions(
        &self,
        name: &str,
        machine: &MachineFile,
        cells: &[Cell],
    ) -> Result<Vec<Supposed>> {
        match self.document.as_str() {
            "000" | "002" | "003" | "004" if self.quick => Ok(Vec::new()),
            "001" if !self.calibrate => truncation::suppose(machine),
            "002" if !self.calibrate && self.only.is_none() => transactions::suppose(machine),
            "003" if !self.calibrate => packets::suppose(machine),
            "004" if !self.calibrate => faults::suppose(machine, cells),
            "000" if !self.calibrate => {
                let mut all = messages::suppose_streams(machine, name, cells)?;
                all.extend(match name {
                    SOCKPERF_MACHINE => sockets::suppose(machine)?,
                    _ => messages::suppose(machine, cells)?,
                });
                Ok(all)
            }
            _ => Ok(Vec::new()),
        }
    }

    fn moved(&self, name: &str, machine: &MachineFile) -> Result<Vec<Moved>> {
        let plain = self.cells(name, machine)?;
        let mut all = Vec::new();
        for constant in machine.constants.keys() {
            let with = |factor: f64| {
                let mut machine = machine.clone();
                machine.constants.get_mut(constant).expect("a key").value *= factor;
                // A constant at its bound can move in one direction only.
                if machine.costs().is_err() {
                    Ok(plain.clone())
                } else {
                    self.cells(name, &machine)
                }
            };
            let (lower, higher) = (with(0.8)?, with(1.2)?);
            for ((cell, lower), higher) in plain.iter().zip(lower).zip(higher) {
                all.push(Moved {
                    machine: name.to_owned(),
                    constant: constant.clone(),
                    row: cell.row.clone(),
                    column: cell.column.clone(),
                    lower: lower.error_points - cell.error_points,
                    higher: higher.error_points - cell.error_points,
                });
            }
        }
        Ok(all)
    }

    fn print(&self) -> Result<()> {
        if self.document == COUNTERS {
            println!("{}", serde_json::to_string(&counters::count()?)?);
            return Ok(());
        }
        let (document, quick) = (self.document.clone(), self.quick);
        let mut printed = Printed { document, quick, ..Printed::default() };
        for name in self.machines()? {
            let machine = self.machine(name)?;
            printed.machines.push(shown(name, &machine));
            if self.leave_out {
                let calibrate = |machine: &MachineFile| self.cells(name, machine);
                printed.fits.extend(fit::leave_out(&machine, calibrate)?);
            } else if self.sensitivity {
                printed.sensitivity.extend(self.moved(name, &machine)?);
            } else {
                let cells = self.cells(name, &machine)?;
                printed.suppositions.extend(self.suppositions(name, &machine, &cells)?);
                printed.cells.extend(cells);
            }
        }
        run::end_of_progress();
        printed.skill = skill(&printed.cells);
        printed.events = run::events();
        println!("{}", serde_json::to_string(&printed)?);
        Ok(())
    }
}

pub(crate) fn main() -> ExitCode {
    let done = Options::parse(std::env::args().skip(1)).and_then(|options| options.print());
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quarry-predict: {error:#}");
            ExitCode::FAILURE
        }
    }
}
