//! Document 002: TCP_RR of 16 to 160 threads, SLUB against SLAB.
//!
//! Only the client is simulated, with its 16 CPUs; the server is assumed to be a copy of it. A
//! transaction is a request and an answer. The CPU that serves the network card's interrupts
//! allocates the answer, and frees the request once the answer has come. In the meantime, while the
//! packets are on the wire and at the server, no CPU of the client works on the transaction.

use crate::documents::{self, Transactions};
use crate::machine::MachineFile;
use crate::run::Run;
use anyhow::Result;
use quarry_predict::{Cell, Supposed, gain};
use quarry_replay::kernels::{Cast, Scenario, Setting, Work};
use quarry_replay::memory::Counters;
use quarry_replay::stage::Replayed;

/// The machine's file.
pub(crate) const MACHINE: &str = "002";

const SLUB: &str = "slub-3.0+order0";
const SLAB: &str = "slab+order0";
const LOCKLESS: &str = "slub-3.1+order0";

/// The group of cells for two gains: SLAB's over SLUB, and that of lockless slow paths over locked.
const GAIN: &str = "difference";

/// A line of the document, and the simulated rates of SLUB and SLAB.
type Rates = (Transactions, [f64; 2]);

fn rate(machine: &MachineFile, policies: &str, threads: usize) -> Result<f64> {
    let replayed = replay(machine, policies, threads)?;
    Ok(replayed.sent as f64 * 1e9 / replayed.wall_ns as f64)
}

fn replay(machine: &MachineFile, policies: &str, threads: usize) -> Result<Replayed> {
    let mut scenario =
        Scenario::of("tcp-through-card", &Setting { bytes: 1, ..Setting::default() });
    let [sender, receiver, wire_ns] =
        ["transaction_ns", "packet_ns", "wire_ns"].map(|name| machine.value(name) as u64);
    scenario.path.work = Work { sender, receiver, wire: 0 };
    if let Cast::Card(card) = &mut scenario.cast {
        card.wire_ns = wire_ns;
    }
    let run = Run {
        machine,
        policies,
        scenario,
        tasks: threads,
        cpus: machine.cpus(),
        warm_up_us: 20_000,
        measured_us: 400_000,
    };
    run.replay()
}

fn baseline(line: &Transactions, rate: f64) -> Cell {
    Cell::figure(&line.threads.to_string(), "SLUB transactions/s", line.slub, rate).calibrated()
}

/// Returns SLUB's cells, to which constants are fitted; with `only`, the cell for so many threads.
pub(crate) fn calibration(machine: &MachineFile, only: Option<usize>) -> Result<Vec<Cell>> {
    let lines = documents::transactions(only).into_iter();
    lines.map(|line| Ok(baseline(&line, rate(machine, SLUB, line.threads)?))).collect()
}

/// Returns all cells or, with `only`, the cells for this number of threads.
pub(crate) fn predict(machine: &MachineFile, only: Option<usize>) -> Result<Vec<Cell>> {
    let (mut cells, mut rates) = (Vec::new(), Vec::new());
    for line in documents::transactions(only) {
        let (threads, row) = (line.threads, line.threads.to_string());
        let slub = rate(machine, SLUB, threads)?;
        cells.push(baseline(&line, slub));
        let slab = rate(machine, SLAB, threads)?;
        cells.push(Cell::figure(&row, "SLAB transactions/s", line.slab, slab));
        let gained = gain(slub, slab);
        cells.push(Cell::gain(GAIN, (&row, "difference"), line.diff_percent, gained));
        rates.push((line, [slub, slab]));
        if threads == 160 {
            // "~2.3% speedup": the document does not say how many threads were used.
            let lockless = gain(slub, rate(machine, LOCKLESS, threads)?);
            cells.push(Cell::gain(GAIN, (&row, "lockless slow paths"), 2.3, lockless));
        }
    }
    cells.extend(round_trips(&rates));
    Ok(cells)
}

/// The shares of SLUB's allocations and frees that are slow, with 16 and 160 threads. The document
/// gives no such figures; its author found that SLUB loses because of its slow paths.
pub(crate) fn suppose(machine: &MachineFile) -> Result<Vec<Supposed>> {
    let [few, many] = [16, 160].map(|threads| replay(machine, SLUB, threads).map(|it| it.counters));
    let (few, many) = (few?, many?);
    let line = |column: &str, of: &dyn Fn(&Counters) -> (u64, u64)| {
        let share = |counters| {
            let (slow, fast) = of(counters);
            slow as f64 * 100.0 / (slow + fast).max(1) as f64
        };
        let row = "SLUB with 160 threads instead of 16".to_owned();
        Supposed { row, column: column.to_owned(), before: share(&few), after: share(&many) }
    };
    Ok(vec![
        line("slow allocations, %", &|it| (it.slow_allocs, it.fast_allocs)),
        line("slow frees, %", &|it| (it.slow_frees, it.fast_frees)),
    ])
}

/// The time of a transaction as its client sees it, by Little's law: the number of threads divided
/// by the transactions per second. In the document, from 48 threads on, each further thread adds
/// the same time to a transaction, as if all threads needed one resource in turn.
fn round_trips(rates: &[Rates]) -> Vec<Cell> {
    let documented = |line: &Transactions| [line.slub, line.slab];
    let line = |of: &dyn Fn(&Rates) -> f64| {
        let from_48 = rates.iter().filter(|(line, _)| line.threads >= 48);
        let points = from_48.map(|it| (it.0.threads as f64, it.0.threads as f64 * 1e6 / of(it)));
        straight_line(&points.collect::<Vec<_>>())
    };
    let mut cells = Vec::new();
    for (index, policy) in ["SLUB", "SLAB"].into_iter().enumerate() {
        let document = line(&|(it, _)| documented(it)[index]);
        let simulated = line(&|(_, rates)| rates[index]);
        let (Some(document), Some(simulated)) = (document, simulated) else { continue };
        let row = format!("R(N) from 48 threads on, {policy}");
        let slope = (0.0, simulated.1);
        let of_both = [
            Cell::effect("R(N)", (&row, "us for each thread"), document.1, slope),
            Cell::figure(&row, "us without threads", document.0, simulated.0),
        ];
        // The constants were fitted to SLUB's column.
        cells.extend(of_both.map(|cell| if index == 0 { cell.calibrated() } else { cell }));
    }
    cells
}

/// Fits a straight line to points by least squares. Returns its value at 0 and its slope; None if
/// there are fewer than two points.
fn straight_line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|it| it.0), mean(|it| it.1));
    let along: f64 = points.iter().map(|it| (it.0 - x) * (it.1 - y)).sum();
    let across: f64 = points.iter().map(|it| (it.0 - x).powi(2)).sum();
    (points.len() > 1).then(|| (y - along / across * x, along / across))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_takes_2_us_more_for_each_thread_of_the_document() {
        let table = documents::transactions(None);
        let rates: Vec<_> = table.into_iter().map(|line| (line, [1e5, 1e5])).collect();
        let cells = round_trips(&rates);
        let figures: Vec<String> =
            cells.iter().map(|cell| format!("{:.2}", cell.document)).collect();
        assert_eq!(figures, ["2.12", "205.20", "1.55", "235.42"]);
        assert!((cells[0].predicted - 10.0).abs() < 1e-9 && cells[1].predicted.abs() < 1e-9);
        assert_eq!(cells[0].scored.as_ref().map(|it| it.no_effect_points), Some(-100.0));
        assert!(round_trips(&[]).is_empty());
    }
}
