//! Document 001: the cost of truncating a file that a CPU of another node has filled. The document
//! gives times of whole benchmarks, on machines that it does not name. It supposes that pages on
//! remote nodes are what makes its gains large.

use crate::machine::MachineFile;
use crate::run::{Act, on_machine};
use anyhow::Result;
use quarry_predict::Supposed;
use quarry_replay::file_cache::FileCache;
use quarry_replay::truncation::Truncation;
use std::time::Duration;

/// The machine's file. Any machine of two sockets would do; this one is of the document's years.
pub(crate) const MACHINE: &str = "004";

/// The document's kernels from oldest to newest, by the names of `TruncationPolicy`.
const KERNELS: [&str; 4] = ["vanilla", "jan", "oneirq", "mel"];

/// Pages of a file, as in sparsetruncate.
const PAGES: u64 = 1_024;

impl Act for Truncation {
    type Figure = Duration;

    fn act<M: FileCache>(self, memory: &M) -> Duration {
        self.run(memory)
    }
}

/// Nanoseconds per page to truncate a file on CPU 0 if CPU `filler` has read it.
fn per_page(machine: &MachineFile, policies: &str, filler: u32) -> Result<f64> {
    let filler = filler as usize;
    let work = Truncation { pages: PAGES, warm_ups: 2, filler, truncater: 0 };
    let took = on_machine(machine, policies, work)?;
    Ok(took.as_nanos() as f64 / PAGES as f64)
}

/// Supposes, for each kernel, that another core or another node filled the file, not the same CPU.
pub(crate) fn suppose(machine: &MachineFile) -> Result<Vec<Supposed>> {
    let topology = machine.topology();
    let other_core = (1..topology.cpus()).find(|cpu| topology.socket_of(*cpu) == 0);
    let remote = (1..topology.cpus()).find(|cpu| topology.socket_of(*cpu) != 0);
    let fillers = [("another core", other_core), ("another node", remote)];
    let mut all = Vec::new();
    for kernel in KERNELS {
        let before = per_page(machine, kernel, 0)?;
        for (who, filler) in fillers {
            let Some(filler) = filler else { continue };
            all.push(Supposed {
                row: format!("{kernel}, filled by {who}"),
                column: "ns a page truncated".to_owned(),
                before,
                after: per_page(machine, kernel, filler)?,
            });
        }
    }
    Ok(all)
}
