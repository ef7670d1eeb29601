//! Page faults: maps memory, touches each page, and unmaps it (`page_fault1` of will-it-scale).

use super::gate::{Done, Task};
use anyhow::{Context, Result};
use memmap2::{Advice, MmapMut};

/// Bytes of a page; a kernel with larger pages has fewer faults than pages touched.
const PAGE: usize = 4096;

fn round(pages: u32) -> Result<u64> {
    let mut memory = MmapMut::map_anon(pages as usize * PAGE).context("cannot map memory")?;
    // A kernel without huge pages refuses the advice, and needs none.
    let _ = memory.advise(Advice::NoHugePage);
    let mut touched = 0;
    for page in memory.chunks_mut(PAGE) {
        page[0] = 1;
        // New memory must be zero; else it still has another owner's data.
        touched += u64::from(page[PAGE - 1] == 0);
    }
    Ok(touched)
}

/// A task of `operations` faults, in rounds of `pages`.
pub(super) fn task(pages: u32, operations: u64) -> Task<'static> {
    Box::new(move |gate| {
        round(pages)?;
        gate.pass();
        let mut done = Done::default();
        while done.operations < operations {
            done.verified += round(pages)?;
            done.operations += u64::from(pages);
        }
        Ok(Box::new(|| done))
    })
}
