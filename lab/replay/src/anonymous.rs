//! The LRU lists for the anonymous pages of simulated programs. As in the kernel, every frame of
//! the stack has a descriptor, found by the frame's number.

use crate::host::Mutex;
use anyhow::{Result, anyhow};
use quarry_cache::lru::{DescriptorTable, LruOptions, LruSet, PageNo, State};
use quarry_eras::lru::Chosen;
use quarry_mm::frame::{NodeId, Pfn};
use quarry_sys::os::Linux;
use quarry_sys::percpu::SlotIndex;
use std::sync::atomic::Ordering::Relaxed;

/// Descriptors are mapped in steps; one step covers this many frames: 128 MiB of pages.
const STEP: usize = 1 << 15;

/// The lists, and the descriptors of the pages on them.
///
/// A page has the state `LIVE` while a page table refers to it.
pub(crate) struct AnonymousLru {
    table: DescriptorTable,
    lists: LruSet<Chosen>,
    /// Held while descriptors are mapped.
    growing: Mutex<()>,
}

impl AnonymousLru {
    /// Makes empty lists for a stack with this many frames, slots and nodes.
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

    pub(crate) fn lists(&self) -> &LruSet<Chosen> {
        &self.lists
    }

    /// Adds a page to which a page table now refers. If this fills the add batch, the batch is
    /// drained; frames of pages whose last reference the drain drops go to `free`.
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
        // The reference of the page fault. It is dropped once the page is in the batch.
        descriptor.state.begin(State(State::LIVE | State::UPTODATE | 1));
        self.lists.add(&self.table, slot, page, true, &mut |page| free(self.take(page)));
        let is_last = descriptor.state.unpin();
        debug_assert!(!is_last, "a page table names it");
    }

    /// Unmaps pages. A page without another user leaves its list and stays in `frames`, for the
    /// caller to free; any other page is freed later, by its last user. The slot's add batch is
    /// drained first, as Linux 4.15 does before it frees what an `mmu_gather` holds.
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

    /// Drops the last use of a page without a drain. Returns the frame for the caller to free; none
    /// if an add batch refers to the page, because the drain of the batch then frees it.
    pub(crate) fn drop_page(&self, frame: Pfn) -> Option<Pfn> {
        let page = PageNo(frame.0);
        let is_last = self.table.at(page).state.clear(State::LIVE).pins() == 0;
        is_last.then(|| {
            self.lists.remove(&self.table, &[page]);
            self.take(page)
        })
    }

    /// Takes back the descriptor of a page that is on no list and has no user.
    fn take(&self, page: PageNo) -> Pfn {
        self.table.at(page).state.begin(State(0));
        Pfn(page.0)
    }

    /// Empties the add batches of all CPUs: a task that moved to another CPU has left pages in the
    /// batch of its former CPU.
    pub(crate) fn drain_all(&self, free: &mut dyn FnMut(Pfn)) {
        self.lists.drain_all(&self.table, &mut |page| free(self.take(page)));
    }

    /// Checks lists and batches after all pages have been released, while no thread is at work.
    pub(crate) fn check_at_end(&self, nodes: u8) -> Result<(), String> {
        self.lists.validate(&self.table).map_err(|broken| broken.to_string())?;
        let pages = |node| self.lists.sizes(NodeId(node));
        match (0..nodes).map(pages).map(|sizes| sizes.active + sizes.inactive).sum() {
            0 => Ok(()),
            left => Err(format!("{left} pages are left on LRU lists")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::file_cache::FileCache;
    use crate::kernels::{Scenario, Setting};
    use crate::memory::Counters;
    use crate::policies::Policies;
    use crate::stack::{Machine, Replay};
    use crate::stage::Scale;
    use quarry_eras::lru::LRU_POLICIES;
    use std::time::Duration;

    /// Faults of which one in 15 is of a page that dies in the add batch.
    struct Dying;

    impl Replay for Dying {
        /// The number of faults of pages that live, and the counts.
        type Output = (u64, Counters);

        fn on<M: FileCache>(self, memory: &M) -> Self::Output {
            let setting = Setting { length: 14, amount: 512, ..Setting::default() };
            let mut scenario = Scenario::of("fault-and-die", &setting);
            scenario.path.work = Default::default();
            let (warm_up, measured) = (Duration::ZERO, Duration::from_millis(2));
            let scale = Scale { tasks: 1, cpus: &[], warm_up, measured };
            let replayed = scenario.run(memory, scale);
            assert_eq!(memory.check_at_end(), Ok(()), "each page is freed once");
            (replayed.sent, replayed.counters)
        }
    }

    #[test]
    fn dead_pages_reach_a_list_only_where_the_variant_says_so() {
        let machine = Machine { cpus: 16, memory: 0, nodes: 1, budget: 0 };
        let run = |parts: &str| {
            let policies: Policies = format!("sheaf+v6.18+{parts}+add31").parse().unwrap();
            policies.replay(machine, Dying).unwrap()
        };
        for lru in LRU_POLICIES {
            let (faults, freed) = run(lru.name);
            assert_eq!(freed.lru_dead, 0, "{}", lru.name);
            let (again, added) = run(&format!("{}+adds_dead", lru.name));
            // A page whose addition fills its batch is on a list before it dies.
            let dead = added.lru_dead as f64 / again as f64;
            assert!((0.06..0.075).contains(&dead), "{}: {dead}", lru.name);
            let locks = |counters: Counters, faults: u64| counters.lru_lock as f64 / faults as f64;
            assert!(locks(freed, faults) < locks(added, again), "{}", lru.name);
        }
    }
}
