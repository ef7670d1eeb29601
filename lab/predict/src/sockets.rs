//! Document 000: sockperf on the machine of two sockets, at full throughput and under load.

use crate::documents;
use crate::machine::MachineFile;
use crate::messages::{GAIN, HOPCPU, VANILLA, mbit, packet, pair};
use anyhow::Result;
use quarry_predict::{Cell, Supposed, gain};
use quarry_replay::crew::Load;
use quarry_replay::kernels::Setting;
use quarry_replay::stage::Replayed;

/// The machine's name in the document.
const DOCUMENTED: &str = "2-socket modern machine";

/// Paths for sockperf at full throughput, with the names of the document's tables.
const THROUGHPUTS: [(&str, &str); 2] =
    [("udp-linux-4-9", "sockperf-udp-throughput"), ("tcp-stream", "sockperf-tcp-throughput")];

/// Paths for sockperf under load, for which the document has no table.
const UNDER_LOAD: [(&str, &str); 2] = [("udp-linux-4-9", "UDP"), ("tcp-messages", "TCP")];

const MEASURED_US: u64 = 20_000;

/// Messages per second under load, and the bytes of a message.
const RATES: [u64; 2] = [10_000, 50_000];
const LOADED_BYTES: usize = 14;

/// Replays one sender and one receiver. Except on `tcp-stream`, a message costs as netperf's does.
fn sockperf(
    machine: &MachineFile,
    policies: &str,
    path: &str,
    (bytes, load): (usize, Option<Load>),
) -> Result<Replayed> {
    // A message of a stream is not a packet: its path has a cost of its own.
    let work = (path != "tcp-stream").then(|| packet(machine));
    pair(machine, policies, path, Setting { bytes, work, load, ..Setting::default() }, MEASURED_US)
}

/// The cells of sockperf's throughput.
pub(crate) fn throughputs(machine: &MachineFile) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for (path, benchmark) in THROUGHPUTS {
        let [lines, deviations] =
            ["mean", "Stddev"].map(|it| documents::statistics(DOCUMENTED, benchmark, it));
        for (line, deviates) in lines.into_iter().zip(deviations) {
            let bytes = line.row.parse().expect("rows are numbers of bytes");
            let rate = |policies| {
                sockperf(machine, policies, path, (bytes, None)).map(|it| mbit(&it, bytes))
            };
            let row = format!("{benchmark}, {bytes} bytes");
            let gain = gain(rate(VANILLA)?, rate(HOPCPU)?);
            let cell = Cell::gain("sockperf", (&row, GAIN), line.candidate_percent, gain);
            let deviation = documents::deviation(
                (line.baseline_value, deviates.baseline_value),
                (line.candidate_value, deviates.candidate_value),
            );
            cells.push(cell.deviating(deviation));
        }
    }
    Ok(cells)
}

/// Returns the mean time from sending a message until it has been read, in microseconds.
fn latency_us(replayed: &Replayed) -> f64 {
    let all = &replayed.latencies;
    all.iter().sum::<u64>() as f64 / all.len().max(1) as f64 / 1e3
}

/// Supposes sockperf under load: the document reports a generally lower latency with hopcpu.
pub(crate) fn suppose(machine: &MachineFile) -> Result<Vec<Supposed>> {
    let mut all = Vec::new();
    for (path, protocol) in UNDER_LOAD {
        for rate in RATES {
            let load = (LOADED_BYTES, Some(Load::Rate(rate)));
            let latency =
                |policies| sockperf(machine, policies, path, load).map(|it| latency_us(&it));
            all.push(Supposed {
                row: format!("sockperf under load, {protocol}, {rate}/s, with hopcpu"),
                column: "us in the mean".to_owned(),
                before: latency(VANILLA)?,
                after: latency(HOPCPU)?,
            });
        }
    }
    Ok(all)
}
