//! Page faults: maps memory, touches each page, and unmaps it (`page_fault1` of will-it-scale).
//! Also frees lists of pages; of that work only the unmapping is measured.

use super::gate::{Done, Task};
use anyhow::{Context, Result};
use memmap2::{Advice, MmapMut};

/// Bytes of a page. A kernel with larger pages has fewer faults than this test touches pages.
const PAGE: usize = 4096;

fn touched(pages: u32) -> Result<(MmapMut, u64)> {
    let mut memory = MmapMut::map_anon(pages as usize * PAGE).context("cannot map memory")?;
    // A kernel without huge pages refuses the advice, but does not need it either.
    let _ = memory.advise(Advice::NoHugePage);
    let mut touched = 0;
    for page in memory.chunks_mut(PAGE) {
        page[0] = 1;
        // New memory must be zero; else it still has another owner's data.
        touched += u64::from(page[PAGE - 1] == 0);
    }
    Ok((memory, touched))
}

fn round(pages: u32) -> Result<u64> {
    Ok(touched(pages)?.1)
}

/// A task that frees `operations` pages in lists of `length`: each list is one mapping's pages.
pub(super) fn lists(length: u32, operations: u64) -> Task<'static> {
    Box::new(move |gate| {
        round(length)?;
        let lists: Result<Vec<_>> =
            (0..operations / u64::from(length)).map(|_| touched(length)).collect();
        let lists = lists?;
        gate.pass();
        let mut done = Done::default();
        for (memory, touched) in lists {
            drop(memory);
            done.operations += u64::from(length);
            done.verified += touched;
        }
        Ok(Box::new(|| done))
    })
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
