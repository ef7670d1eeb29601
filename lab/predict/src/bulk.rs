//! A cross-check: how Linux's frame allocator scales, compared with figures that others published.
//!
//! L. Wrenger et al., "LLFree: Scalable and Optionally-Persistent Page-Frame Allocation", USENIX
//! ATC 2023: a frame of 4 KiB takes 94 ns on one core, and 984 ns when 26 cores allocate at once; a
//! frame of 2 MiB then takes 27 times as long as on one core. Linux 6.0 has per-CPU lists for
//! orders 0 to 3 and 9.

use crate::machine::MachineFile;
use crate::run::{Act, on_machine};
use anyhow::Result;
use quarry_predict::Cell;
use quarry_replay::bulk::Bulk;
use quarry_replay::file_cache::FileCache;
use quarry_replay::memory::Pages;

/// The name of the machine's file. It stands where other predictions have a document's number.
pub(crate) const MACHINE: &str = "llfree";

/// Linux 6.0: blocks of orders 0 to 3 and 9 are on per-CPU lists.
const LINUX: &str = "slub-4.9+v5.18";

const CORES: usize = 26;

/// The published figures: ns for a frame of 4 KiB on 1 and on 26 cores; for 2 MiB only the ratio.
const SMALL_NS: [f64; 2] = [94.0, 984.0];
const HUGE_TIMES: f64 = 27.0;

/// Blocks of each core: many times more than its lists hold, so most blocks come from the zone.
const SMALL_BLOCKS: u32 = 32_768;
const HUGE_BLOCKS: u32 = 256;

impl Act for Bulk {
    type Figure = f64;

    fn act<M: FileCache>(self, memory: &M) -> f64 {
        self.run(memory, &(0..self.tasks).collect::<Vec<usize>>())
    }
}

fn block_ns(machine: &MachineFile, order: u8, blocks: u32, tasks: usize) -> Result<f64> {
    let pages = Pages { order, movable: true };
    let work_ns = machine.value("block_ns") as u64;
    on_machine(machine, LINUX, Bulk { pages, tasks, blocks, work_ns })
}

/// The cell that `block_ns` was fitted to.
pub(crate) fn calibration(machine: &MachineFile) -> Result<Vec<Cell>> {
    let alone = block_ns(machine, 0, SMALL_BLOCKS, 1)?;
    Ok(vec![Cell::figure("4 KiB, 1 core", "ns a block", SMALL_NS[0], alone).calibrated()])
}

pub(crate) fn predict(machine: &MachineFile) -> Result<Vec<Cell>> {
    let mut cells = calibration(machine)?;
    let all = block_ns(machine, 0, SMALL_BLOCKS, CORES)?;
    cells.push(Cell::figure("4 KiB, 26 cores", "ns a block", SMALL_NS[1], all));
    let alone = block_ns(machine, 9, HUGE_BLOCKS, 1)?;
    let all = block_ns(machine, 9, HUGE_BLOCKS, CORES)?;
    cells.push(Cell::figure("2 MiB, 26 cores", "times 1 core", HUGE_TIMES, all / alone));
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twice as many blocks take as long per block, within a tenth: lists hold few of them.
    #[test]
    fn blocks_do_not_come_from_the_lists_of_their_core() {
        let machine = MachineFile::named(MACHINE);
        for (order, blocks) in [(0, SMALL_BLOCKS), (9, HUGE_BLOCKS)] {
            let [once, twice] =
                [1, 2].map(|times| block_ns(&machine, order, times * blocks, 1).unwrap());
            assert!((twice / once - 1.0).abs() < 0.1, "order {order}: {once}, {twice}");
        }
    }

    /// All cores begin at once, and together want more than one step by which the zone grows. A
    /// core that finds no free block makes the zone grow again, and no request is refused.
    #[test]
    fn as_many_cores_as_want_get_their_blocks_from_a_zone_that_grows() {
        let machine = MachineFile::named(MACHINE);
        for (order, blocks) in [(0, 512), (3, 64), (9, 4)] {
            let ns = block_ns(&machine, order, blocks, CORES).unwrap();
            assert!(ns >= machine.value("block_ns"), "order {order}: {ns}");
        }
    }
}
