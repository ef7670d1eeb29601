//! Document 000: sockperf on the machine of two sockets, as much as possible and under load.

use crate::documents::{self, Mmtests};
use crate::machine::MachineFile;
use crate::messages::{GAIN, HOPCPU, VANILLA};
use crate::run::Run;
use anyhow::Result;
use quarry_predict::{Cell, Supposed, gain};
use quarry_replay::crew::{Load, Place};
use quarry_replay::kernels::{Scenario, Setting, WorkRow};
use quarry_replay::stage::Replayed;

/// The machine's name in the document.
const DOCUMENTED: &str = "2-socket modern machine";

/// Paths of sockperf's throughput, with the names of the document's tables.
const THROUGHPUTS: [(&str, &str); 2] =
    [("udp-linux-4-9", "sockperf-udp-throughput"), ("tcp-stream", "sockperf-tcp-throughput")];

/// Paths of sockperf under load, of which the document has no table.
const UNDER_LOAD: [(&str, &str); 2] = [("udp-linux-4-9", "UDP"), ("tcp-messages", "TCP")];

/// Messages a second under load, and their bytes.
const RATES: [u64; 2] = [10_000, 50_000];
const LOADED_BYTES: usize = 14;

/// One pair on two cores of the first socket.
fn pair(
    machine: &MachineFile,
    policies: &str,
    path: &str,
    (bytes, load): (usize, Option<Load>),
) -> Result<Replayed> {
    let ns = machine.value("packet_ns") + machine.value("byte_ns") * bytes as f64;
    // A message of a stream is no packet: its path has a cost of its own.
    let work = (path != "tcp-stream").then(|| WorkRow::of_ns(ns as u64));
    let setting = Setting { bytes, work, load, place: Place::Next, ..Setting::default() };
    let sockets = machine.topology().sockets as usize;
    let run = Run {
        machine,
        policies,
        scenario: Scenario::of(path, &setting),
        tasks: 1,
        cpus: vec![0, sockets],
        warm_up_us: 2_000,
        measured_us: 20_000,
    };
    run.replay()
}

fn mbit(replayed: &Replayed, bytes: usize) -> f64 {
    replayed.sent as f64 * bytes as f64 * 8.0 * 1e3 / replayed.wall_ns as f64
}

/// The cells of sockperf's throughput.
pub(crate) fn throughputs(machine: &MachineFile) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for (path, benchmark) in THROUGHPUTS {
        for Mmtests { row, candidate_percent, .. } in documents::means(DOCUMENTED, benchmark) {
            let bytes = row.parse().expect("rows are numbers of bytes");
            let rate = |policies| Ok(mbit(&pair(machine, policies, path, (bytes, None))?, bytes));
            let (vanilla, hopcpu): (Result<f64>, Result<f64>) = (rate(VANILLA), rate(HOPCPU));
            let row = format!("{benchmark}, {bytes} bytes");
            cells.push(Cell::percent(&row, GAIN, candidate_percent, gain(vanilla?, hopcpu?)));
        }
    }
    Ok(cells)
}

/// Mean time from sending a message to having read it, in microseconds.
fn latency_us(replayed: &Replayed) -> f64 {
    let all = &replayed.latencies;
    all.iter().sum::<u64>() as f64 / all.len().max(1) as f64 / 1e3
}

/// sockperf under load, of which the document says that hopcpu is generally lower.
pub(crate) fn suppose(machine: &MachineFile) -> Result<Vec<Supposed>> {
    let mut all = Vec::new();
    for (path, protocol) in UNDER_LOAD {
        for rate in RATES {
            let load = (LOADED_BYTES, Some(Load::Rate(rate)));
            let latency = |policies| Ok(latency_us(&pair(machine, policies, path, load)?));
            let (before, after): (Result<f64>, Result<f64>) = (latency(VANILLA), latency(HOPCPU));
            all.push(Supposed {
                row: format!("sockperf under load, {protocol}, {rate}/s, with hopcpu"),
                column: "us in the mean".to_owned(),
                before: before?,
                after: after?,
            });
        }
    }
    Ok(all)
}
