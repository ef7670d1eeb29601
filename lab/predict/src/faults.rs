//! Document 004: page faults of 1 to 64 processes and threads under four kernels.

use crate::documents::{self, Faults};
use crate::machine::MachineFile;
use crate::run::Run;
use anyhow::Result;
use quarry_predict::{Cell, Supposed, find, gain};
use quarry_replay::kernels::{Cast, Scenario, Setting, WorkRow};
use quarry_replay::solo::{Pace, Space};
use quarry_replay::stage::Replayed;
use std::collections::BTreeMap;

/// The machine's file.
pub(crate) const MACHINE: &str = "004";

/// The four kernels of the document. Each has one more change than the one before.
const KERNELS: [&str; 4] = [
    "slub-4.9+order0+single",
    "slub-4.9+order0-310+single",
    "slub-4.9+order0-310+batched",
    "slub-4.9+order0-310+splice",
];

/// Faults of a task between its `mmap` and its `munmap`: page_fault1 maps 128 MiB.
const ROUND: u32 = 32_768;

/// Such faults in a quick run: still more than the 1,860 pages that a CPU's lists hold.
const QUICK_ROUND: u32 = 2_560;

/// `socket_bytes_per_ns` was fitted to the cell of this kernel and this number of processes, where
/// one socket clears more memory than in any other cell of the document.
const CLEARED: (usize, usize) = (4, 16);

/// Numbers of threads for which the document says what limits their gain.
const STOPPED: [usize; 3] = [16, 32, 64];

/// The number of the last kernel, with which the document's author measured the wait for locks and
/// tried larger batches.
const TRIED: usize = 4;

/// The last kernel with add batches of four times as many pages.
const LARGER: &str = "slub-4.9+order0-310+splice+add56";

/// For each number of processes, the gain in per cent from four times as many pages in a batch:
/// "nearly the same for all but the 64 process case, where it dropped by ~10%".
const LARGER_GAINS: [(usize, f64); 5] = [(1, 0.0), (4, 0.0), (16, 0.0), (32, 0.0), (64, -10.0)];

/// Numbers of processes between which the wait for `lru_lock` "nearly tripled".
const WAITING: [usize; 2] = [32, 64];
const TRIPLED: f64 = 3.0;

fn replay(machine: &MachineFile, policies: &str, tasks: usize, space: Space) -> Result<Replayed> {
    let work = WorkRow::of_ns(machine.value("fault_ns") as u64);
    let round = if machine.quick { QUICK_ROUND } else { ROUND };
    let setting = Setting { amount: round, work: Some(work), ..Setting::default() };
    let mut scenario = Scenario::of("page-fault", &setting);
    scenario.path.work.receiver = machine.value("unmap_ns") as u64;
    if let Cast::Solo(solo) = &mut scenario.cast {
        (solo.space, solo.pace) = (space, Pace::OutOfStep(machine.halves));
    }
    let run = Run {
        machine,
        policies,
        scenario,
        tasks,
        cpus: machine.cpus_by_core(),
        warm_up_us: 0,
        measured_us: 0,
    };
    run.replay()
}

/// Faults per second under one kernel.
fn rate(machine: &MachineFile, kernel: usize, tasks: usize, space: Space) -> Result<f64> {
    Ok(replay(machine, KERNELS[kernel - 1], tasks, space)?.rate as f64)
}

/// The address space of the tasks: one that all share if they are threads, else one each.
fn space(threads: bool) -> Space {
    if threads { Space::Shared } else { Space::Private }
}

fn row(tasks: usize, kernel: usize) -> String {
    format!("{tasks} task{}, kernel {kernel}", if tasks == 1 { "" } else { "s" })
}

/// The cells that constants are fitted to: rates of processes and of threads with kernel 1.
pub(crate) fn calibration(machine: &MachineFile, only: Option<usize>) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for line in documents::faults(only).iter().filter(|line| line.kernel == 1) {
        for threads in [false, true] {
            cells.push(baseline(line, threads, rate(machine, 1, line.tasks, space(threads))?));
        }
    }
    Ok(cells)
}

fn baseline(line: &Faults, threads: bool, predicted: f64) -> Cell {
    let (column, document) = match threads {
        false => ("process faults/s", line.process_pgf_per_s),
        true => ("thread faults/s", line.thread_pgf_per_s),
    };
    Cell::figure(&row(line.tasks, 1), column, document, predicted).calibrated()
}

/// Returns all cells or, with `only`, the cells for this number of tasks.
pub(crate) fn predict(machine: &MachineFile, only: Option<usize>) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    // The rates with kernel 1: first that of processes, then that of threads.
    let mut bases = [None, None];
    let mut tried = BTreeMap::new();
    let mut table = documents::faults(only);
    table.sort_by_key(|line| line.tasks);
    for line in &table {
        for threads in [false, true] {
            let policies = KERNELS[line.kernel - 1];
            let replayed = replay(machine, policies, line.tasks, space(threads))?;
            let rate = replayed.rate as f64;
            let base = &mut bases[usize::from(threads)];
            if line.kernel == 1 {
                *base = Some((line, rate));
                cells.push(baseline(line, threads, rate));
            } else if let Some((first, from)) = base {
                cells.push(speedup((first, line), threads, gain(*from, rate)));
            }
            if (line.kernel, threads) == (TRIED, false) {
                tried.insert(line.tasks, replayed);
            }
        }
    }
    cells.extend(larger_batches(machine, &tried)?);
    cells.extend(waiting(&tried));
    Ok(cells)
}

/// The cell for the gain of a kernel over kernel 1.
fn speedup((first, line): (&Faults, &Faults), threads: bool, predicted: f64) -> Cell {
    let (column, document) = match threads {
        false => ("process speedup", line.process_speedup_percent),
        true => ("thread speedup", line.thread_speedup_percent),
    };
    let rate = |line: &Faults| match threads {
        false => (line.process_pgf_per_s, line.process_stdev),
        true => (line.thread_pgf_per_s, line.thread_stdev),
    };
    let document = document.expect("all kernels but the first have a speedup");
    let group = if threads { "threads" } else { "processes" };
    let row = row(line.tasks, line.kernel);
    let cell = Cell::gain(group, (&row, column), document, predicted)
        .deviating(documents::deviation(rate(first), rate(line)));
    if (line.kernel, line.tasks, threads) == (CLEARED.0, CLEARED.1, false) {
        return cell.calibrated();
    }
    cell
}

/// The cells for what processes gain from larger add batches, with the last kernel.
fn larger_batches(machine: &MachineFile, tried: &BTreeMap<usize, Replayed>) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for (tasks, document) in LARGER_GAINS {
        let Some(before) = tried.get(&tasks) else { continue };
        let after = replay(machine, LARGER, tasks, Space::Private)?;
        let gained = gain(before.rate as f64, after.rate as f64);
        let row = row(tasks, TRIED) + ", batches of 56";
        cells.push(Cell::gain("batches of 56", (&row, "process speedup"), document, gained));
    }
    Ok(cells)
}

/// The cell for waits for LRU locks: by which factor they grow with twice as many processes.
fn waiting(tried: &BTreeMap<usize, Replayed>) -> Option<Cell> {
    let [few, many] = WAITING.map(|tasks| {
        let replayed = tried.get(&tasks)?;
        let waited = replayed.counters.lru_wait_ns + replayed.counters.batch_wait_ns;
        Some(waited as f64 / replayed.wall_ns as f64)
    });
    let row = format!("{} tasks for {}, kernel {TRIED}", WAITING[1], WAITING[0]);
    let times = (1.0, many? / few?);
    Some(Cell::effect("waiting for lru_lock", (&row, "LRU wait, times"), TRIPLED, times))
}

/// The supposition in the document's footnote: threads would gain as processes do if faults did not
/// all take the lock of their address space. Here no fault and no unmapping takes that lock, as if
/// each locked only its own range (range locks, speculative faults).
///
/// `cells` has the figures with one lock per address space. Rows without a cell in it are left out.
pub(crate) fn suppose(machine: &MachineFile, cells: &[Cell]) -> Result<Vec<Supposed>> {
    let mut all = Vec::new();
    for tasks in STOPPED {
        let mut base = None;
        for kernel in 1..=KERNELS.len() {
            let column = if kernel == 1 { "thread faults/s" } else { "thread speedup" };
            let Some(cell) = find(cells, &row(tasks, kernel), column) else { continue };
            let rate = rate(machine, kernel, tasks, Space::None)?;
            let base = *base.get_or_insert(rate);
            all.push(Supposed {
                row: format!("{tasks} threads, kernel {kernel}, ranges locked"),
                column: column.to_owned(),
                before: cell.predicted,
                after: if kernel == 1 { rate } else { gain(base, rate) },
            });
        }
    }
    Ok(all)
}
