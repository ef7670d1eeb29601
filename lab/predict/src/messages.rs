//! Document 000: what UDP_STREAM and hackbench gain when per-CPU lists also hold higher orders.

use crate::documents::{self, Mmtests};
use crate::machine::MachineFile;
use crate::run::Run;
use anyhow::Result;
use quarry_predict::{Cell, Supposed, find, gain};
use quarry_replay::crew::Place;
use quarry_replay::kernels::{Scenario, Setting, WorkRow};
use quarry_replay::stage::Replayed;

/// The machines' files, with the machines' names in the document.
pub(crate) const MACHINES: [(&str, &str); 2] = [
    ("000-two-sockets", "2-socket modern machine"),
    ("000-one-socket", "1-socket 6 year old machine"),
];

pub(crate) const VANILLA: &str = "slub-4.9+order0";
pub(crate) const HOPCPU: &str = "slub-4.9+v2016";
const MAINLINE: &str = "slub-4.9+v5.14";

/// Sizes of packets in bytes: constants were fitted to the rows of these sizes.
const FITTED: [usize; 2] = [8192, 16384];

/// The column for the gain from lists of higher orders.
pub(crate) const GAIN: &str = "hopcpu gain";

/// The group of cells for packets whose buffers come from the page allocator.
const STREAMS: &str = "UDP_STREAM, 8 and 16 KiB";

const NOISE: &str = "not scored: runs that differ in nothing else differ by 18 points and more";

const WITHDRAWN: &str = "withdrawn by its author, and nothing was fitted to it";

/// Paths of hackbench, with the names of the document's tables.
const HACKBENCHES: [(&str, &str); 2] =
    [("pipe", "hackbench-process-pipes"), ("socket", "hackbench-process-sockets")];

/// Groups of hackbench with threads: the smallest and the largest number in the document.
const THREAD_GROUPS: [usize; 2] = [1, 16];

/// Constants of instructions, which double at half the clock; times to fetch lines from other cores
/// or memory do not. `ghz` cannot double them: it scales what tasks compute, not the stack's costs.
const INSTRUCTIONS: [&str; 9] = [
    "hit_ns",
    "locked_ns",
    "sequence_ns",
    "zone_block_ns",
    "slab_slow_ns",
    "call_ns",
    "wake_ns",
    "switch_ns",
    "packet_ns",
];

/// Turns of each sender of hackbench. One turn of a group's senders is one of the document's loops.
const TURNS: u32 = 20;

/// The work for a packet, besides memory management and besides the cache lines of its bytes.
pub(crate) fn packet(machine: &MachineFile) -> WorkRow {
    WorkRow::of_ns(machine.value("packet_ns") as u64)
}

/// Replays one sender and one receiver, on two cores of the first socket.
pub(crate) fn pair(
    machine: &MachineFile,
    policies: &str,
    path: &str,
    setting: Setting,
    measured_us: u64,
) -> Result<Replayed> {
    let setting = Setting { place: Place::Next, ..setting };
    let sockets = machine.topology().sockets as usize;
    let run = Run {
        machine,
        policies,
        scenario: Scenario::of(path, &setting),
        tasks: 1,
        cpus: vec![0, sockets],
        warm_up_us: 2_000,
        measured_us,
    };
    run.replay()
}

/// Replays one sender and one receiver as mmtests ran them.
fn stream(machine: &MachineFile, policies: &str, bytes: usize) -> Result<Replayed> {
    let work = Some(packet(machine));
    pair(machine, policies, "udp-mmtests", Setting { bytes, work, ..Setting::default() }, 10_000)
}

/// Mbit per second that the sender has sent.
pub(crate) fn mbit(replayed: &Replayed, bytes: usize) -> f64 {
    replayed.sent as f64 * bytes as f64 * 8.0 * 1e3 / replayed.wall_ns as f64
}

fn sent_rows(machine: &str) -> Vec<(usize, Mmtests)> {
    let (_, name) = MACHINES.iter().find(|(known, _)| *known == machine).expect("a machine");
    let lines = documents::statistics(name, "netperf-udp-stream", "mean");
    let bytes = |line: &Mmtests| line.row.strip_prefix("send-").and_then(|it| it.parse().ok());
    lines.into_iter().filter_map(|line| Some((bytes(&line)?, line))).collect()
}

fn baseline(machine: &str, bytes: usize, line: &Mmtests, replayed: &Replayed) -> Cell {
    let row = format!("{machine}, {}", line.row);
    let mbit = mbit(replayed, bytes);
    let cell = Cell::figure(&row, "vanilla Mbit/s", line.baseline_value, mbit);
    if FITTED.contains(&bytes) { cell.calibrated() } else { cell.noting(WITHDRAWN) }
}

/// The baseline's cells that constants are fitted to.
pub(crate) fn calibration(machine: &MachineFile) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for (bytes, line) in sent_rows(machine.name) {
        if FITTED.contains(&bytes) {
            cells.push(baseline(machine.name, bytes, &line, &stream(machine, VANILLA, bytes)?));
        }
    }
    Ok(cells)
}

/// The cells of UDP_STREAM on a machine.
pub(crate) fn streams(machine: &MachineFile) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for (bytes, line) in sent_rows(machine.name) {
        let vanilla = stream(machine, VANILLA, bytes)?;
        cells.push(baseline(machine.name, bytes, &line, &vanilla));
        let hopcpu = stream(machine, HOPCPU, bytes)?;
        let gain = gain(mbit(&vanilla, bytes), mbit(&hopcpu, bytes));
        let row = format!("{}, {}", machine.name, line.row);
        let cell = Cell::gain(STREAMS, (&row, GAIN), line.candidate_percent, gain);
        cells.push(if FITTED.contains(&bytes) { cell } else { cell.noting(WITHDRAWN) });
    }
    Ok(cells)
}

/// Returns how many ns hackbench runs with processes or, if `threads`, threads that share files.
fn hackbench(
    machine: &MachineFile,
    policies: &str,
    path: &str,
    groups: usize,
    threads: bool,
) -> Result<f64> {
    let setting = Setting { bytes: 100, amount: TURNS, threads, ..Setting::default() };
    let run = Run {
        machine,
        policies,
        scenario: Scenario::of(path, &setting),
        tasks: groups,
        // The scheduler places processes.
        cpus: Vec::new(),
        warm_up_us: 0,
        measured_us: 0,
    };
    Ok(run.replay()?.wall_ns as f64)
}

/// The part of a run's time that lists of higher orders save, in per cent.
fn saved(machine: &MachineFile, path: &str, groups: usize, threads: bool) -> Result<f64> {
    let time = |policies| hackbench(machine, policies, path, groups, threads);
    Ok((1.0 - time(HOPCPU)? / time(VANILLA)?) * 100.0)
}

/// The gain of UDP_STREAM with packets of `bytes` bytes from lists of higher orders, in per cent.
fn gained(machine: &MachineFile, lists: &str, bytes: usize) -> Result<f64> {
    let mbit = |policies| anyhow::Ok(mbit(&stream(machine, policies, bytes)?, bytes));
    Ok(gain(mbit(VANILLA)?, mbit(lists)?))
}

/// Supposes UDP_STREAM at half the clock, and at the full clock with the lists of Linux 5.14. The
/// governor pcc-cpufreq, with which the document saw almost no gain, may halve the clock.
pub(crate) fn suppose_streams(machine: &MachineFile, cells: &[Cell]) -> Result<Vec<Supposed>> {
    let mut slow = machine.clone();
    for constant in INSTRUCTIONS {
        slow.constants.get_mut(constant).expect("machines of the document have it").value *= 2.0;
    }
    let mut all = Vec::new();
    for bytes in FITTED {
        let row = format!("{}, send-{bytes}", machine.name);
        let Some(cell) = find(cells, &row, GAIN) else { continue };
        for (what, machine, lists) in
            [("half the clock", &slow, HOPCPU), ("lists of Linux 5.14", machine, MAINLINE)]
        {
            all.push(Supposed {
                row: format!("{row}, {what}"),
                column: GAIN.to_owned(),
                before: cell.predicted,
                after: gained(machine, lists, bytes)?,
            });
        }
    }
    Ok(all)
}

/// The name of the row for a benchmark with this number of groups.
fn row(benchmark: &str, groups: usize) -> String {
    format!("{benchmark}, {groups} group{}", if groups == 1 { "" } else { "s" })
}

/// Supposes hackbench with threads, not run in the document. `cells` has the cells of processes.
pub(crate) fn suppose(machine: &MachineFile, cells: &[Cell]) -> Result<Vec<Supposed>> {
    let mut all = Vec::new();
    for (path, benchmark) in HACKBENCHES {
        for groups in THREAD_GROUPS {
            let row = row(benchmark, groups);
            let Some(cell) = find(cells, &row, GAIN) else { continue };
            all.push(Supposed {
                row: format!("{row}, with threads"),
                column: GAIN.to_owned(),
                before: cell.predicted,
                after: saved(machine, path, groups, true)?,
            });
        }
    }
    Ok(all)
}

/// The cells of hackbench on the machine with one socket. A quick run has those of one group only.
pub(crate) fn hackbenches(machine: &MachineFile) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for (path, benchmark) in HACKBENCHES {
        for line in documents::statistics("1-socket machine", benchmark, "mean") {
            let groups = line.row.parse().expect("rows are numbers of groups");
            if machine.quick && groups > 1 {
                continue;
            }
            let saved = saved(machine, path, groups, false)?;
            let row = row(benchmark, groups);
            let cell = Cell::gain("hackbench", (&row, GAIN), line.candidate_percent, saved);
            cells.push(cell.noting(NOISE));
        }
    }
    Ok(cells)
}
