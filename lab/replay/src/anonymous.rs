//! The LRU lists of the pages of programs, which lie in no file: every page of the stack has a
//! descriptor of the number of its frame, as in the kernel.

use crate::host::Mutex;
use anyhow::{Result, anyhow};
use quarry_cache::lru::{DescriptorTable, LruOptions, LruSet, PageNo, State};
use quarry_eras::lru::Chosen;
use quarry_mm::frame::{NodeId, Pfn};
use quarry_sys::os::Linux;
use quarry_sys::percpu::SlotIndex;
use std::sync::atomic::Ordering::Relaxed;

/// Descriptors are mapped for so many frames at a time: 128 MiB of pages.
const STEP: usize = 1 << 15;

/// The lists, and the descriptors of the pages on them.
///
/// A page of a program is `LIVE` from when a page table names it until it is unmapped.
pub(crate) struct AnonymousLru {
    table: DescriptorTable,
    lists: LruSet<Chosen>,
    /// Held while descriptors are mapped.
    growing: Mutex<()>,
}

impl AnonymousLru {
    /// Empty lists for a stack of so many frames, slots and nodes.
    ///
    /// # Errors
    /// A call that the operating system refuses.
    pub(crate) fn build(
        options: LruOptions<Chosen>,
        frames: usize,
        slots: usize,
        nodes: usize,
    ) -> Result<Self> {
        let refused = |error| anyhow!("the LRU lists cannot be built: {error:?}");
        let table = DescriptorTable::reserve(&Linux, frames).map_err(refused)?;
        table.announce_as_of_frames();
        let lists = LruSet::build(&Linux, options, slots, nodes).map_err(refused)?;
        Ok(Self { table, lists, growing: Mutex::new(()) })
    }

    /// The lists, for their counts.
    pub(crate) fn lists(&self) -> &LruSet<Chosen> {
        &self.lists
    }

    /// Adds a page that a page table names from now on. Pages that the add batch was the last to
    /// know go to `free`.
    ///
    /// # Panics
    /// If the operating system has no memory for its descriptor.
    pub(crate) fn add(
        &self,
        (slot, node): (SlotIndex, NodeId),
        frame: Pfn,
        free: &mut dyn FnMut(Pfn),
    ) {
        let page = PageNo(frame.0);
        if frame.0 as usize >= self.table.len() {
            let _growing = self.growing.lock();
            let needed = (frame.0 as usize + 1).next_multiple_of(STEP);
            if needed > self.table.len() {
                self.table.grow(needed).expect("memory for descriptors");
            }
        }
        let descriptor = self.table.at(page);
        descriptor.pfn.store(frame.0, Relaxed);
        descriptor.node.store(node.0, Relaxed);
        // The fault's own reference, until the page is in the batch.
        descriptor.state.begin(State(State::LIVE | State::UPTODATE | 1));
        self.lists.add(&self.table, slot, page, true, &mut |page| free(self.take(page)));
        let is_last = descriptor.state.unpin();
        debug_assert!(!is_last, "a page table names it");
    }

    /// Unmaps pages: those without another user leave their lists and stay in `frames`, to be
    /// freed; the last user of each other page frees it later. The slot's add batch is drained
    /// before, as in Linux 4.15 before each gather is freed.
    pub(crate) fn release(
        &self,
        slot: SlotIndex,
        frames: &mut Vec<Pfn>,
        free: &mut dyn FnMut(Pfn),
    ) {
        self.lists.drain(&self.table, slot, &mut |page| free(self.take(page)));
        let mut pages = Vec::with_capacity(frames.len());
        for frame in frames.drain(..) {
            let state = &self.table.at(PageNo(frame.0)).state;
            if state.clear(State::LIVE).pins() == 0 {
                pages.push(PageNo(frame.0));
            }
        }
        self.lists.remove(&self.table, &pages);
        frames.extend(pages.into_iter().map(|page| self.take(page)));
    }

    /// Takes back the descriptor of a page that is on no list and has no user.
    fn take(&self, page: PageNo) -> Pfn {
        self.table.at(page).state.begin(State(0));
        Pfn(page.0)
    }

    /// Empties the add batches of all CPUs: a task that has changed its CPU leaves pages in the
    /// batch of the other one.
    pub(crate) fn drain_all(&self, free: &mut dyn FnMut(Pfn)) {
        self.lists.drain_all(&self.table, &mut |page| free(self.take(page)));
    }

    /// Checks lists and batches, once everything was released and no thread is at work.
    ///
    /// # Errors
    /// The first condition that does not hold.
    pub(crate) fn check_at_end(&self, nodes: u8) -> Result<(), String> {
        self.lists.validate(&self.table).map_err(|broken| broken.to_string())?;
        let pages = |node| self.lists.sizes(NodeId(node));
        match (0..nodes).map(pages).map(|sizes| sizes.active + sizes.inactive).sum() {
            0 => Ok(()),
            left => Err(format!("{left} pages are left on LRU lists")),
        }
    }
}
