//! Document 004: page faults of 1 to 64 processes and threads under four kernels.

use crate::documents::{self, Faults};
use crate::machine::MachineFile;
use crate::run::Run;
use anyhow::Result;
use quarry_predict::{Cell, Supposed, find, gain};
use quarry_replay::kernels::{Cast, Scenario, Setting, WorkRow};
use quarry_replay::solo::Space;

/// The machine's file.
pub(crate) const MACHINE: &str = "004";

/// The kernels of the document: each builds on the one before.
const KERNELS: [&str; 4] = [
    "slub-4.9+order0+single",
    "slub-4.9+order0-310+single",
    "slub-4.9+order0-310+batched",
    "slub-4.9+order0-310+splice",
];

/// Faults between mapping and unmapping; fewer than the document's 32,768, so that a run is over
/// in a few seconds, and more than a CPU's lists hold, 1,860 pages.
const ROUND: u32 = 2_560;

/// The cells that constants were fitted to: process or thread, and tasks.
const FITTED: [(bool, usize); 4] = [(false, 1), (false, 16), (false, 64), (true, 16)];

/// Numbers of threads of which the document says what stops them.
const STOPPED: [usize; 3] = [16, 32, 64];

/// Faults a second under one kernel.
fn rate(machine: &MachineFile, kernel: usize, tasks: usize, space: Space) -> Result<f64> {
    let work = WorkRow::of_ns(machine.value("fault_ns") as u64);
    let setting = Setting { amount: ROUND, work: Some(work), ..Setting::default() };
    let mut scenario = Scenario::of("page-fault", &setting);
    if let Cast::Solo(solo) = &mut scenario.cast {
        solo.space = space;
    }
    let run = Run {
        machine,
        policies: KERNELS[kernel - 1],
        scenario,
        tasks,
        cpus: machine.cpus(),
        warm_up_us: 15_000,
        measured_us: 15_000,
    };
    let replayed = run.replay()?;
    Ok(replayed.rate as f64)
}

/// The address space of processes, or the one of threads.
fn space(threads: bool) -> Space {
    if threads { Space::Shared } else { Space::Private }
}

fn row(tasks: usize, kernel: usize) -> String {
    format!("{tasks} tasks, kernel {kernel}")
}

/// The cells of the baseline that are fitted: rates under kernel 1.
pub(crate) fn calibration(machine: &MachineFile) -> Result<Vec<Cell>> {
    let table = documents::faults();
    let mut cells = Vec::new();
    for (threads, tasks) in FITTED {
        let known = |line: &&Faults| (line.kernel, line.tasks) == (1, tasks);
        let line = table.iter().find(known).expect("every number of tasks has a line");
        cells.push(baseline(line, threads, rate(machine, 1, tasks, space(threads))?));
    }
    Ok(cells)
}

fn baseline(line: &Faults, threads: bool, predicted: f64) -> Cell {
    let (column, document) = match threads {
        false => ("process faults/s", line.process_pgf_per_s),
        true => ("thread faults/s", line.thread_pgf_per_s),
    };
    let cell = Cell::figure(&row(line.tasks, 1), column, document, predicted);
    if FITTED.contains(&(threads, line.tasks)) { cell.calibrated() } else { cell }
}

/// All cells; with `only`, those of so many tasks.
pub(crate) fn predict(machine: &MachineFile, only: Option<usize>) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    let mut bases = [1.0; 2];
    let mut table = documents::faults();
    table.retain(|line| only.is_none_or(|tasks| tasks == line.tasks));
    table.sort_by_key(|line| line.tasks);
    for line in &table {
        for threads in [false, true] {
            let rate = rate(machine, line.kernel, line.tasks, space(threads))?;
            let base = &mut bases[usize::from(threads)];
            let document = match threads {
                false => line.process_speedup_percent,
                true => line.thread_speedup_percent,
            };
            match document {
                None => {
                    *base = rate;
                    cells.push(baseline(line, threads, rate));
                }
                Some(percent) => {
                    let column = if threads { "thread speedup" } else { "process speedup" };
                    let row = row(line.tasks, line.kernel);
                    cells.push(Cell::percent(&row, column, percent, gain(*base, rate)));
                }
            }
        }
    }
    Ok(cells)
}

/// The document's footnote: threads would gain as processes do if faults did not meet at the lock
/// of their address space. Here every fault, and every unmapping, locks its own range of it, as
/// range locks and speculative faults would have it.
///
/// `cells` has the figures with one lock; of numbers of threads that it lacks nothing is said.
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
