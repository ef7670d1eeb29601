//! Free page numbers, each of which is also the place of a free descriptor.
//!
//! Each slot has a stack of free numbers. Batches move between the stacks and the depot, which has
//! a bit for each free number. The depot hands out the lowest numbers, to keep descriptors in use
//! together, and purges system pages in which all descriptors are free (a free one is zero).
//!
//! Equation: `free bits + numbers on stacks + descriptors in use = descriptors mapped`.

use crate::lru::{Descriptor, DescriptorTable, PageNo};
use quarry_mm::frame::{
    GrowingArray, Metadata, MetadataKind, OsArray, Window, fresh_zero, page_bytes,
};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::SlotIndex;
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// Numbers that move together: as many as one scan frees.
const BATCH: usize = 32;
const ROOM: usize = 2 * BATCH;
/// Descriptors of a *group* (in this file): their free bits share a word, and they fill 4 KiB.
const GROUP: usize = 64;
/// Groups that the table grows by: 1 MiB of addresses, which take memory at the first access.
const STEP: usize = 256;

fresh_zero! {
    struct Stack {
        count: u32,
        numbers: [u32; ROOM],
    }

    /// `free`: a bit per number that the depot has. `is_touched`: 1 if descriptors may hold memory.
    struct Group {
        free: AtomicU64,
        is_touched: AtomicU64,
    }
}

struct Depot {
    /// No group below this one has a free number.
    lowest: usize,
    /// Groups that hold memory.
    touched: usize,
}

pub(super) struct FreePages {
    slots: OsArray<CountedLock<Stack>>,
    depot: CountedLock<Depot>,
    groups: GrowingArray<Group>,
    _window: Window,
}

impl FreePages {
    pub(super) fn build(os: &'static dyn Os, slots: u32, capacity: usize) -> OsResult<Self> {
        let groups = capacity.div_ceil(GROUP);
        let bytes = GrowingArray::<Group>::span(os, groups);
        let window = Window::choose(os, bytes, page_bytes(os))?;
        Ok(Self {
            slots: OsArray::zeroed(os, slots as usize)?,
            depot: CountedLock::new(Depot { lowest: 0, touched: 0 }),
            groups: GrowingArray::new(os, window.at(0), groups),
            _window: window,
        })
    }

    /// Takes a free number; `None` if the table is full or the system refuses memory.
    pub(super) fn take(
        &self,
        slot: SlotIndex,
        pages: &DescriptorTable,
        metadata: &Metadata,
    ) -> Option<PageNo> {
        let mut batch = [0; BATCH];
        let Some(mut own) = self.slots.at(slot.index()).try_lock() else {
            let taken = self.refill(&mut batch[..1], pages, metadata);
            return (taken == 1).then_some(PageNo(batch[0]));
        };
        if own.count == 0 {
            let taken = self.refill(&mut batch, pages, metadata);
            // The stack pops the lowest number first.
            for (place, number) in own.numbers.iter_mut().zip(batch[..taken].iter().rev()) {
                *place = *number;
            }
            own.count = taken as u32;
        }
        own.count = own.count.checked_sub(1)?;
        Some(PageNo(own.numbers[own.count as usize]))
    }

    /// Takes back free numbers, whose descriptors are all zero again. O(numbers).
    pub(super) fn put(&self, slot: SlotIndex, numbers: &[PageNo]) {
        let Some(mut own) = self.slots.at(slot.index()).try_lock() else {
            return self.flush(numbers.iter().map(|page| page.0));
        };
        for page in numbers {
            if own.count as usize == ROOM {
                // The numbers at the bottom have been unused for longest.
                self.flush(own.numbers[..BATCH].iter().copied());
                own.numbers.copy_within(BATCH.., 0);
                own.count -= BATCH as u32;
            }
            let count = own.count as usize;
            own.numbers[count] = page.0;
            own.count += 1;
        }
    }

    /// Takes numbers out of the depot, lowest first; returns how many.
    fn refill(&self, out: &mut [u32], pages: &DescriptorTable, metadata: &Metadata) -> usize {
        let (mut depot, mut taken) = (self.depot.lock(), 0);
        while taken < out.len() {
            if depot.lowest == self.groups.len() && self.grow(pages).is_err() {
                break;
            }
            let group = self.groups.at(depot.lowest);
            let mut free = group.free.load(Relaxed);
            if free != 0 && group.is_touched.load(Relaxed) == 0 {
                group.is_touched.store(1, Relaxed);
                depot.touched += 1;
                metadata.count(MetadataKind::CachedPages, GROUP * size_of::<Descriptor>());
            }
            while free != 0 && taken < out.len() {
                out[taken] = (depot.lowest * GROUP) as u32 + free.trailing_zeros();
                free &= free - 1;
                taken += 1;
            }
            group.free.store(free, Relaxed);
            if free == 0 {
                depot.lowest += 1;
            }
        }
        taken
    }

    fn grow(&self, pages: &DescriptorTable) -> OsResult<()> {
        let known = self.groups.len();
        let groups = (known + STEP).min(self.groups.capacity());
        if groups == known {
            return Err(quarry_sys::errno::OsError(libc::ENOMEM));
        }
        pages.grow(groups * GROUP)?;
        self.groups.grow(groups)?;
        (known..groups).for_each(|group| self.groups.at(group).free.store(u64::MAX, Relaxed));
        Ok(())
    }

    fn flush(&self, numbers: impl Iterator<Item = u32>) {
        let mut depot = self.depot.lock();
        for number in numbers {
            let at = number as usize / GROUP;
            let group = self.groups.at(at);
            let free = group.free.load(Relaxed);
            debug_assert!(free >> (number as usize % GROUP) & 1 == 0, "a number is freed once");
            group.free.store(free | 1 << (number as usize % GROUP), Relaxed);
            depot.lowest = depot.lowest.min(at);
        }
    }

    /// Empties all stacks, and purges system pages of free descriptors. Returns the purged bytes.
    pub(super) fn trim(&self, pages: &DescriptorTable, metadata: &Metadata) -> usize {
        for slot in 0..self.slots.len() {
            let mut own = self.slots.at(slot).lock();
            let count = own.count as usize;
            self.flush(own.numbers[..count].iter().copied());
            own.count = 0;
        }
        let mut depot = self.depot.lock();
        let together = pages.page_bytes().div_ceil(GROUP * size_of::<Descriptor>());
        let mut purged = 0;
        for first in (0..self.groups.len()).step_by(together) {
            let all =
                || (first..self.groups.len().min(first + together)).map(|at| self.groups.at(at));
            let is_free = all().all(|group| group.free.load(Relaxed) == u64::MAX);
            let touched = all().filter(|group| group.is_touched.load(Relaxed) == 1).count();
            let range = PageNo((first * GROUP) as u32);
            if is_free && touched > 0 && pages.purge(range, together * GROUP) {
                all().for_each(|group| group.is_touched.store(0, Relaxed));
                purged += touched;
            }
        }
        depot.touched -= purged;
        let bytes = purged * GROUP * size_of::<Descriptor>();
        metadata.uncount(MetadataKind::CachedPages, bytes);
        bytes
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        (0..self.slots.len())
            .for_each(|slot| visit("page_cache->descriptors", self.slots.at(slot)));
        visit("page_cache->depot", &self.depot);
    }

    pub(super) fn validate(&self, pages: &DescriptorTable, in_use: usize) -> Result<(), Broken> {
        let check = Check::of("free descriptors");
        let (mut free, mut touched) = (0, 0);
        for slot in 0..self.slots.len() {
            let own = self.slots.at(slot).lock();
            for number in &own.numbers[..own.count as usize] {
                let is_zero = pages.at(PageNo(*number)).state.load().0 == 0;
                check.at(u64::from(*number)).that(is_zero, "a free descriptor's state is 0")?;
            }
            free += own.count as usize;
        }
        let depot = self.depot.lock();
        for at in 0..self.groups.len() {
            let group = self.groups.at(at);
            let bits = group.free.load(Relaxed);
            let is_below = at < depot.lowest;
            check.at(at as u64).that(!is_below || bits == 0, "below lowest nothing is free")?;
            touched += usize::from(group.is_touched.load(Relaxed) == 1);
            free += bits.count_ones() as usize;
        }
        check.equal(touched as u64, depot.touched as u64, "groups that hold memory are counted")?;
        check.equal(
            (free + in_use) as u64,
            pages.len() as u64,
            "free bits + numbers on stacks + descriptors in use = descriptors mapped",
        )
    }
}
