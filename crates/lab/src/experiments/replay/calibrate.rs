//! `--calibrate`: the page allocator's share of a replay, for a check of the constants.
//!
//! A profile of the threads would say more of this machine's scheduler than of the path: handing a
//! burst over costs as much as sending it. So one thread walks the path by itself, for each burst
//! the first leg and then the second: with other work, without it, and with the calls to the page
//! allocator timed.

use super::sample::ReplaySample;
use crate::replay::kernels::Scenario;
use anyhow::{Result, bail};
use quarry_harness::environment::Environment;
use quarry_harness::results::Measurement;
use quarry_harness::table;
use std::io::Write;

/// Share of the page allocator in document 003: `__free_pages_ok` and `get_page_from_freelist`.
const DOCUMENT_SHARE: f64 = 0.123_699 + 0.115_231;

/// Measures the shares of all rows, each by the least of `samples`, and prints them beside what a
/// message costs in the document.
pub(super) fn print(
    rows: &[(ReplaySample, Scenario)],
    samples: u32,
    out: &mut dyn Write,
) -> Result<()> {
    let header = [
        "row",
        "ns per message",
        "without other work",
        "other work",
        "in the document",
        "other work for that cost",
        "in the page allocator",
        "its share",
        "share in document 003",
    ];
    let lines = rows.iter().map(|(path, scenario)| line(path, scenario, samples));
    let lines = lines.collect::<Result<Vec<_>>>()?;
    let machine = Environment::capture().summary();
    let policies = &rows[0].0.policies;
    writeln!(out, "{machine}\n{policies}, one thread; the least of {samples} samples.\n")?;
    Ok(writeln!(out, "{}", table::render(header.map(str::to_owned).to_vec(), lines))?)
}

fn line(path: &ReplaySample, scenario: &Scenario, samples: u32) -> Result<Vec<String>> {
    // Disturbances only add to a sample.
    let least = |path: ReplaySample, figure: &dyn Fn(&Measurement) -> f64| {
        let mut least = f64::INFINITY;
        for _ in 0..samples {
            least = least.min(figure(&path.take()?));
        }
        anyhow::Ok(least)
    };
    let cpu = |taken: &Measurement| taken.cpu_ns as f64 / taken.operations as f64;
    let in_pages =
        |taken: &Measurement| taken.figure("page_ns").unwrap_or(0.0) / taken.operations as f64;
    let alone = ReplaySample { alone: true, profiled: false, ..path.clone() };
    let total = least(alone.clone(), &cpu)?;
    let bare = least(ReplaySample { bare: true, ..alone.clone() }, &cpu)?;
    let pages = least(ReplaySample { timed: true, ..alone }, &in_pages)?;
    let work = scenario.path.work.sender + scenario.path.work.receiver;
    if work > 0 && total <= bare {
        bail!("{}: other work takes no time: the machine is too busy to calibrate", path.row);
    }
    let documented = Some(scenario.documented_ns as f64).filter(|ns| *ns > 0.0);
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    Ok(vec![
        path.row.clone(),
        table::figure(total),
        table::figure(bare),
        work.to_string(),
        table::figure_or(documented, "-"),
        table::figure_or(documented.map(|ns| (ns - bare).max(0.0)), "-"),
        table::figure(pages),
        percent(pages / total),
        percent(DOCUMENT_SHARE),
    ])
}
