//! File mappings: the cached pages of one file or database each (the kernel's `address_space`).
//!
//! Mappings are type-stable: the memory of a mapping is never used for anything else. So a scan may
//! lock the mapping that a page names, and check then whether the page still belongs to it.
//!
//! Equation: a number is on the free list iff no live mapping has it; the generation of a number
//! counts how often a mapping gave it up.

use super::demand::Demand;
use super::index::{Index, IndexNodes, LockedIndex};
use Ordering::{Acquire, Relaxed, Release};
use quarry_mm::frame::{GrowingArray, Order, Window, fresh_zero, page_bytes};
use quarry_mm::slab::CacheId;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::primitive::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

const MOST_MAPPINGS: usize = 1 << 22;
/// Mappings whose memory becomes accessible together.
const STEP: usize = 64;

/// The name of a mapping: its number, and how often that number was given up before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MappingId {
    /// Place in the table of mappings; never 0.
    pub number: u32,
    /// Number of earlier mappings with this number.
    pub generation: u32,
}

/// The options of a new mapping.
#[derive(Clone, Copy, Debug, Default)]
pub struct MappingOptions {
    /// Each page has `4 KiB << order`.
    pub order: Order,
    /// The group that its pages are charged to.
    pub group: u16,
    /// No reclaim takes its pages (in-memory databases).
    pub is_unevictable: bool,
    /// At least 4 KiB after each page can be read as long as the page is cached. (The b-tree of
    /// SQLite reads up to 16 bytes beyond a page that is corrupt.)
    pub allows_overread: bool,
    /// The cache of the objects in its pages' private words. An object is freed with its page.
    pub private: Option<CacheId>,
    /// A word for the owner of the mapping.
    pub owner: u64,
}

fresh_zero! {
    /// A mapping. Its lock is the lock of its index, whose value is true while the mapping is live.
    #[repr(C, align(64))]
    pub(super) struct Mapping {
        generation: AtomicU32,
        order: AtomicU8,
        group: AtomicU16,
        is_unevictable: AtomicU8,
        allows_overread: AtomicU8,
        private: AtomicU32,
        next_free: AtomicU32,
        owner: AtomicU64,
        /// Pages that the index names, counted under its lock and read without it.
        pub(super) pages: AtomicU64,
        pub(super) index: Index<bool>,
        pub(super) demand: Demand,
    }
}

impl Mapping {
    #[inline(always)]
    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Acquire)
    }

    pub(super) fn order(&self) -> Order {
        Order::new(self.order.load(Relaxed))
    }

    pub(super) fn group(&self) -> u16 {
        self.group.load(Relaxed)
    }

    pub(super) fn is_unevictable(&self) -> bool {
        self.is_unevictable.load(Relaxed) != 0
    }

    pub(super) fn allows_overread(&self) -> bool {
        self.allows_overread.load(Relaxed) != 0
    }

    pub(super) fn private(&self) -> u32 {
        self.private.load(Relaxed)
    }

    pub(super) fn owner(&self) -> u64 {
        self.owner.load(Relaxed)
    }

    fn describe(&self, options: &MappingOptions) {
        self.order.store(options.order.get(), Relaxed);
        self.group.store(options.group, Relaxed);
        self.is_unevictable.store(options.is_unevictable.into(), Relaxed);
        self.allows_overread.store(options.allows_overread.into(), Relaxed);
        self.private.store(options.private.map_or(0, u32::from), Relaxed);
        self.owner.store(options.owner, Relaxed);
        self.demand.reset();
    }
}

pub(super) struct LockedMapping<'a> {
    pub(super) mapping: &'a Mapping,
    pub(super) tree: LockedIndex<'a, bool>,
}

impl LockedMapping<'_> {
    /// Stores the current numbers of entries, for readers without the lock.
    pub(super) fn publish(&self) {
        let counts = self.tree.counts();
        self.mapping.pages.store(counts.pages, Relaxed);
        self.mapping.demand.publish(counts.shadows);
    }
}

pub(super) struct Mappings {
    array: GrowingArray<Mapping>,
    /// The number that was given up last, or 0.
    free: CountedLock<u32>,
    live: AtomicU32,
    _window: Window,
}

impl Mappings {
    pub(super) fn build(os: &'static dyn Os) -> OsResult<Self> {
        let bytes = GrowingArray::<Mapping>::span(os, MOST_MAPPINGS);
        let window = Window::choose(os, bytes, page_bytes(os))?;
        Ok(Self {
            array: GrowingArray::new(os, window.at(0), MOST_MAPPINGS),
            free: CountedLock::new(0),
            live: AtomicU32::new(0),
            _window: window,
        })
    }

    pub(super) fn create(
        &self,
        nodes: &IndexNodes,
        options: &MappingOptions,
    ) -> OsResult<MappingId> {
        let number = self.take_number()?;
        let mapping = self.array.at(number as usize);
        mapping.describe(options);
        let mut tree = mapping.index.lock(nodes);
        tree.set_owner(number);
        *tree.value() = true;
        drop(tree);
        self.live.fetch_add(1, Relaxed);
        Ok(MappingId { number, generation: mapping.generation() })
    }

    fn take_number(&self) -> OsResult<u32> {
        let mut free = self.free.lock();
        if *free == 0 {
            let known = self.array.len().max(1);
            let len = (known + STEP).min(self.array.capacity());
            if len == known {
                return Err(quarry_sys::errno::OsError(libc::ENOMEM));
            }
            self.array.grow(len)?;
            for number in (known..len).rev() {
                self.array.at(number).next_free.store(*free, Relaxed);
                *free = number as u32;
            }
        }
        let number = *free;
        *free = self.array.at(number as usize).next_free.load(Relaxed);
        Ok(number)
    }

    /// Gives up the number of an empty mapping that is not live any more.
    pub(super) fn give_up(&self, id: MappingId) {
        let mapping = self.array.at(id.number as usize);
        mapping.generation.store(id.generation.wrapping_add(1), Release);
        let mut free = self.free.lock();
        mapping.next_free.store(*free, Relaxed);
        *free = id.number;
        self.live.fetch_sub(1, Relaxed);
    }

    /// The mapping with a number, live or not; `None` if there never was one.
    #[inline(always)]
    pub(super) fn numbered(&self, number: u32) -> Option<&Mapping> {
        self.array.get(number as usize)
    }

    #[inline]
    pub(super) fn get(&self, id: MappingId) -> Option<&Mapping> {
        self.numbered(id.number).filter(|mapping| mapping.generation() == id.generation)
    }

    /// The mapping that `id` names, locked; `None` if it is not live any more.
    pub(super) fn lock<'a>(
        &'a self,
        nodes: &'a IndexNodes,
        id: MappingId,
    ) -> Option<LockedMapping<'a>> {
        let mapping = self.numbered(id.number)?;
        let mut tree = mapping.index.lock(nodes);
        let is_live = *tree.value() && mapping.generation() == id.generation;
        is_live.then_some(LockedMapping { mapping, tree })
    }

    /// One more than the largest number that a mapping may have.
    pub(super) fn numbers(&self) -> u32 {
        self.array.len() as u32
    }

    pub(super) fn live(&self) -> u32 {
        self.live.load(Relaxed)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &Mapping)> {
        (1..self.array.len() as u32).filter_map(|number| Some((number, self.numbered(number)?)))
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("page_cache->mappings", &self.free);
        self.all().for_each(|(_, mapping)| mapping.index.visit_locks(visit));
    }
}
