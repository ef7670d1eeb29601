//! Document 003: UDP-U-4k on 16 CPUs under SLUB of Linux 2.6.29, and the page allocator's share of
//! the CPUs' time.
//!
//! The document has a profile of functions. Here the page allocator's time is the time in which
//! tasks wait for the lock of a zone or hold it. Of the caches that the document lists, the path
//! uses one: the cache of packets' heads.

use crate::documents;
use crate::machine::MachineFile;
use crate::run::{Act, Run, on_machine};
use anyhow::{Context, Result};
use quarry_predict::{Cell, Supposed};
use quarry_replay::crew::Place;
use quarry_replay::file_cache::FileCache;
use quarry_replay::kernels::{Scenario, Setting, WorkRow};
use quarry_replay::memory::CacheCounts;
use quarry_replay::stage::Replayed;

/// The machine's file.
pub(crate) const MACHINE: &str = "003";

const SLUB: &str = "slub-2.6.29+order0";
const SLQB: &str = "slqb+order0";

/// The functions of the page allocator in the document's profile.
const PAGE_ALLOCATOR: [&str; 2] = ["__free_pages_ok", "get_page_from_freelist"];

/// The name of the cache of heads in the document, and its name in the path.
const HEADS: (&str, &str) = (":0000256", "skbuff_head_cache");

/// The bytes of a packet, and the other size that the document mentions.
const BYTES: usize = 4096;
const SMALLER: usize = 1024;

const SHARE: &str = "page allocator, %";

const IN_WORDS: &str = "in words: almost none";

/// A run that also returns the counts of the caches.
struct Counted<'a>(&'a Run<'a>);

impl Act for Counted<'_> {
    type Figure = (Replayed, Vec<CacheCounts>);

    fn act<M: FileCache>(self, memory: &M) -> Self::Figure {
        let replayed = self.0.act(memory);
        (replayed, memory.caches())
    }
}

/// Runs a client and a server on each CPU.
fn streams(
    machine: &MachineFile,
    policies: &str,
    bytes: usize,
) -> Result<(Replayed, Vec<CacheCounts>)> {
    let work = Some(WorkRow::of_ns(machine.value("packet_ns") as u64));
    let setting = Setting { bytes, work, place: Place::Same, ..Setting::default() };
    let cpus = machine.cpus();
    let run = Run {
        machine,
        policies,
        scenario: Scenario::of("udp-linux-2-6-29", &setting),
        tasks: cpus.len(),
        cpus,
        warm_up_us: 5_000,
        measured_us: 20_000,
    };
    on_machine(machine, policies, Counted(&run))
}

/// The page allocator's share of the CPUs' time, in per cent.
fn share(replayed: &Replayed) -> f64 {
    let counters = &replayed.counters;
    // Only some of the hold times were measured; this scales them to all acquisitions.
    let measured = counters.zone_hold_samples.max(1) as f64;
    let held_ns = counters.zone_hold_ns as f64 * counters.zone_lock as f64 / measured;
    (held_ns + counters.zone_wait_ns as f64) / replayed.cpu_ns as f64 * 100.0
}

fn documented() -> f64 {
    // A figure of oprofile: hits in the function, then their share of all hits in per cent.
    PAGE_ALLOCATOR
        .iter()
        .map(|name| documents::numbers("003", &format!("oprofile {name}"))[1])
        .sum()
}

fn baseline(replayed: &Replayed) -> Cell {
    Cell::percent("UDP-U-4k, SLUB", SHARE, documented(), share(replayed)).calibrated()
}

/// The cell that `packet_ns` was fitted to.
pub(crate) fn calibration(machine: &MachineFile) -> Result<Vec<Cell>> {
    Ok(vec![baseline(&streams(machine, SLUB, BYTES)?.0)])
}

pub(crate) fn predict(machine: &MachineFile) -> Result<Vec<Cell>> {
    let (slub, caches) = streams(machine, SLUB, BYTES)?;
    let mut cells = vec![baseline(&slub)];
    let (documented, ours) = HEADS;
    let heads = caches.iter().find(|cache| cache.name == ours).context("a cache of heads")?;
    // The line has objects, allocations, frees, and the shares of the latter two that were fast.
    let line = documents::numbers("003", &format!("slabinfo {documented}"));
    for (column, known, fast, all) in [
        ("fast allocations, %", line[3], heads.fast_allocs, heads.allocs),
        ("fast frees, %", line[4], heads.fast_frees, heads.frees),
    ] {
        let fast = fast as f64 / all.max(1) as f64 * 100.0;
        cells.push(Cell::percent("UDP-U-4k, SLUB, heads", column, known, fast));
    }
    let slqb = share(&streams(machine, SLQB, BYTES)?.0);
    cells.push(Cell::percent("UDP-U-4k, SLQB", SHARE, 0.0, slqb).noting(IN_WORDS));
    Ok(cells)
}

/// Thousands of packets per second.
fn rate(replayed: &Replayed) -> f64 {
    replayed.sent as f64 * 1e6 / replayed.wall_ns as f64
}

/// Supposes SLQB in place of SLUB at both sizes. In the document SLQB gains less at the smaller.
pub(crate) fn suppose(machine: &MachineFile) -> Result<Vec<Supposed>> {
    let sizes = [("UDP-U-4k", BYTES), ("UDP-U-1k", SMALLER)];
    sizes
        .into_iter()
        .map(|(name, bytes)| {
            Ok(Supposed {
                row: format!("{name}, SLQB in the place of SLUB"),
                column: "1,000 packets/s".to_owned(),
                before: rate(&streams(machine, SLUB, bytes)?.0),
                after: rate(&streams(machine, SLQB, bytes)?.0),
            })
        })
        .collect()
}
