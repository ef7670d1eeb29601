//! `--calibrate`: the cost of a message on this machine, with and without the computing that stands
//! for other work, and the page allocator's share of the cost. These figures serve to check the
//! constants of `paths.toml`.
//!
//! With several threads, the figures would depend more on this machine's scheduler than on the
//! path, because handing a burst over costs as much as sending it. So one thread walks both legs of
//! the path for each burst: with the other work, without it, and with the calls to the page
//! allocator timed. In a transaction most of a message's cost is the switch of threads. So each row
//! with receivers also has a line for each number of tasks, in CPU time of all threads.

use super::sample::ReplaySample;
use anyhow::{Result, bail};
use quarry_harness::environment::Environment;
use quarry_harness::results::Measurement;
use quarry_harness::table::{self, counted};
use quarry_replay::kernels::{Cast, Scenario};
use std::io::Write;

/// Share of the page allocator in document 003: `__free_pages_ok` and `get_page_from_freelist`.
const DOCUMENT_SHARE: f64 = 0.123_699 + 0.115_231;

/// Takes `samples` samples of each cost of each row, and prints the least cost beside the
/// document's. Only document 003 gives a share of the page allocator for comparison.
pub(super) fn print(
    document: &str,
    rows: &[(ReplaySample, Scenario)],
    tasks: &[u32],
    samples: u32,
    out: &mut dyn Write,
) -> Result<()> {
    let mut header = vec![
        "row",
        "walked by",
        "ns per message",
        "without other work",
        "other work",
        "in the document",
        "other work for that cost",
        "in the page allocator",
        "its share",
    ];
    let share = (document == "003").then(|| percent(DOCUMENT_SHARE));
    header.extend(share.as_ref().map(|_| "share in document 003"));
    let mut lines = Vec::new();
    for (path, scenario) in rows {
        let mut cells = by_one_thread(path, scenario, samples)?;
        cells.extend(share.clone());
        lines.push(cells);
        if matches!(scenario.cast, Cast::Crew(_)) {
            for &tasks in tasks {
                let path = ReplaySample { tasks, profiled: false, ..path.clone() };
                let (_, mut cells) = costs(&path, &counted(tasks, "task"), scenario, samples)?;
                cells.resize(header.len(), "-".to_owned());
                lines.push(cells);
            }
        }
    }
    let machine = Environment::capture().summary();
    let policies = &rows[0].0.policies;
    let samples = counted(samples, "sample");
    writeln!(out, "{machine}\n{policies}; the least of {samples}, in CPU time.\n")?;
    Ok(writeln!(out, "{}", table::render(header.into_iter().map(str::to_owned).collect(), lines))?)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The least value of a figure in several samples: disturbances can only increase it.
fn least(path: &ReplaySample, samples: u32, figure: impl Fn(&Measurement) -> f64) -> Result<f64> {
    (0..samples).try_fold(f64::INFINITY, |least, _| Ok(least.min(figure(&path.take()?))))
}

/// The nanoseconds of CPU time of a message, and the first cells of its line.
fn costs(
    path: &ReplaySample,
    walkers: &str,
    scenario: &Scenario,
    samples: u32,
) -> Result<(f64, Vec<String>)> {
    let cpu = |taken: &Measurement| taken.cpu_ns as f64 / taken.operations as f64;
    let total = least(path, samples, cpu)?;
    let bare = least(&ReplaySample { bare: true, ..path.clone() }, samples, cpu)?;
    let work = scenario.path.work.sender + scenario.path.work.receiver;
    if work > 0 && total <= bare {
        bail!("{}: other work takes no time: the machine is too busy to calibrate", path.row);
    }
    let documented = Some(scenario.documented_ns as f64).filter(|ns| *ns > 0.0);
    let cells = vec![
        path.row.clone(),
        walkers.to_owned(),
        table::figure(total),
        table::figure(bare),
        work.to_string(),
        table::figure_or(documented, "-"),
        table::figure_or(documented.map(|ns| (ns - bare).max(0.0)), "-"),
    ];
    Ok((total, cells))
}

fn by_one_thread(path: &ReplaySample, scenario: &Scenario, samples: u32) -> Result<Vec<String>> {
    let alone = ReplaySample { alone: true, profiled: false, ..path.clone() };
    let (total, mut cells) = costs(&alone, "one thread", scenario, samples)?;
    let in_pages =
        |taken: &Measurement| taken.figure("page_ns").unwrap_or(0.0) / taken.operations as f64;
    let pages = least(&ReplaySample { timed: true, ..alone }, samples, in_pages)?;
    cells.extend([table::figure(pages), percent(pages / total)]);
    Ok(cells)
}
