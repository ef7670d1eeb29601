//! Document 002: TCP_RR of 16 to 160 threads, SLUB against SLAB.
//!
//! The client is simulated, with its 16 CPUs. A transaction is a request, which the network card's
//! side frees on another CPU once it is sent, and an answer, which that side allocates; between
//! them lie the wire and the server, in which no CPU of the client has anything to do.

use crate::documents::{self, Transactions};
use crate::machine::MachineFile;
use crate::run::Run;
use anyhow::Result;
use quarry_predict::{Cell, gain};
use quarry_replay::kernels::{Scenario, Setting, WorkRow};

/// The machine's file.
pub(crate) const MACHINE: &str = "002";

const SLUB: &str = "slub-3.0+order0";
const SLAB: &str = "slab+order0";
const LOCKLESS: &str = "slub-3.1+order0";

/// The row that the constant was fitted to.
const FITTED: usize = 16;

fn rate(machine: &MachineFile, policies: &str, threads: usize) -> Result<f64> {
    let own_ns = machine.value("transaction_ns");
    let setting =
        Setting { bytes: 1, work: Some(WorkRow::of_ns(own_ns as u64)), ..Setting::default() };
    let mut scenario = Scenario::of("tcp-transactions", &setting);
    // The other host has as much to do, while this one waits.
    scenario.path.work.wire = (machine.value("wire_ns") + own_ns) as u64;
    let run = Run {
        machine,
        policies,
        scenario,
        tasks: threads,
        cpus: machine.cpus(),
        warm_up_us: 20_000,
        measured_us: 400_000,
    };
    let replayed = run.replay()?;
    Ok(replayed.sent as f64 * 1e9 / replayed.wall_ns as f64)
}

fn baseline(line: &Transactions, rate: f64) -> Cell {
    let cell = Cell::figure(&line.threads.to_string(), "SLUB transactions/s", line.slub, rate);
    if line.threads == FITTED { cell.calibrated() } else { cell }
}

/// The cell of the baseline that is fitted.
pub(crate) fn calibration(machine: &MachineFile) -> Result<Vec<Cell>> {
    let table = documents::transactions();
    let line = table.iter().find(|line| line.threads == FITTED).expect("the table has the row");
    Ok(vec![baseline(line, rate(machine, SLUB, FITTED)?)])
}

/// All cells; with `only`, those of so many threads.
pub(crate) fn predict(machine: &MachineFile, only: Option<usize>) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for line in documents::transactions() {
        if only.is_some_and(|threads| threads != line.threads) {
            continue;
        }
        let row = line.threads.to_string();
        let slub = rate(machine, SLUB, line.threads)?;
        cells.push(baseline(&line, slub));
        let slab = rate(machine, SLAB, line.threads)?;
        cells.push(Cell::figure(&row, "SLAB transactions/s", line.slab, slab));
        cells.push(Cell::percent(&row, "difference", line.diff_percent, gain(slub, slab)));
        if line.threads == 160 {
            // "~2.3% speedup", for which the document does not say how many threads there were.
            let lockless = gain(slub, rate(machine, LOCKLESS, line.threads)?);
            cells.push(Cell::percent(&row, "lockless slow paths", 2.3, lockless));
        }
    }
    Ok(cells)
}
