//! One cache during an operation, and conversions between its objects, slabs and nodes: for all
//! policies that have tables of their own.

use quarry_mm::frame::{NodeId, Pfn};
use quarry_mm::slab::{Cache, CacheIn, Late, SlabContext, not_in_use};
use quarry_sys::percpu::{ArrayId, Lists, Object, PerCpu, Push, SlotIndex};
use quarry_sys::primitive::Ordering;
use quarry_sys::report::fatal;

/// Word of a list's cell that holds the list of free objects.
pub(super) const LIST: usize = 0;
/// Word of a list's cell that names its slab (`slub`), or its slot and bound (`slqb`).
pub(super) const GUARD: usize = 1;
/// Words of a list's cell that count.
pub(super) const POPS: usize = 2;
pub(super) const PUSHES: usize = 3;

/// One cache of a policy whose tables are a `T`.
pub struct OneCache<'a, P: PerCpu, T> {
    pub(super) context: &'a SlabContext<'a, P>,
    pub(super) cache: &'a Cache,
    pub(super) tables: &'a T,
}

impl<'a, P: PerCpu, T> OneCache<'a, P, T> {
    pub(super) fn of(tables: &'a Late<T>, cache: CacheIn<'a, P>) -> Self {
        let tables = tables.get().expect("a cache has been created");
        Self { context: cache.context, cache: cache.cache, tables }
    }

    pub(super) fn array(&self) -> ArrayId {
        self.cache.id().array()
    }

    pub(super) fn slab_of(&self, object: Object) -> Pfn {
        self.context.slab_of(self.cache, object)
    }

    /// The node of a slab's memory. A slab that a CPU's guard named may be freed by now, and its
    /// pageblock may even have left its zone; the result is then any node, which callers accept.
    pub(super) fn node_of_slab(&self, slab: Pfn) -> NodeId {
        let pageblocks = self.context.zones.memory().pageblocks();
        pageblocks.of(slab).tag().node().unwrap_or(NodeId(0))
    }

    pub(super) fn object(&self, slab: Pfn, number: u32) -> Object {
        debug_assert!(number < self.cache.objects());
        let address = self.context.zones.arena().address(slab);
        // SAFETY: `slab` is a slab of this cache, and words hold numbers of its objects.
        unsafe { self.cache.object_at(address, number) }
    }

    /// The number of the object that starts at an address of a slab, or `None`.
    pub(super) fn number_in(&self, slab: Pfn, object: Object) -> Option<u32> {
        let address = self.context.zones.arena().address(slab).as_ptr() as usize;
        let offset = (object.as_ptr() as usize).wrapping_sub(address);
        (offset < self.cache.order().bytes()).then(|| self.cache.object_number(offset)).flatten()
    }

    /// Returns whether an object of the cache starts at an address, whatever the address is.
    pub(super) fn is_object(&self, address: Object) -> bool {
        let zones = self.context.zones;
        let Some(pfn) = zones.arena().pfn(address.as_ptr()) else { return false };
        zones.frames().kind(pfn) == self.cache.id().kind()
            && self.number_in(pfn.align_down(self.cache.order()), address).is_some()
    }
}

impl<P: Lists, T> OneCache<'_, P, T> {
    pub(super) fn cell(&self, slot: SlotIndex, word: usize) -> u64 {
        self.context.percpu.area().word(slot, self.array(), word).load(Ordering::Relaxed)
    }

    /// Stores into a word of a slot's cell if the word holds `expected` and this thread runs on
    /// that slot.
    pub(super) fn store(&self, slot: SlotIndex, word: usize, expected: u64, new: u64) -> bool {
        self.context.percpu.compare_store((slot, self.array(), word), expected, new)
    }

    /// Zeroes what the cell of a slot has counted for an earlier cache of the same number.
    pub(super) fn restart_counts(&self, slot: SlotIndex) {
        for word in [POPS, PUSHES] {
            let word = self.context.percpu.area().word(slot, self.array(), word);
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// Returns whether a push has stored an object. Aborts if the object was there already.
pub(super) fn is_stored(cache: &Cache, object: Object, push: Push) -> bool {
    match push {
        Push::Stored => true,
        Push::Refused => false,
        Push::Duplicate => not_in_use(cache, object),
    }
}

/// Reports the free of an address inside an object of `cache`.
#[cold]
pub(super) fn no_start(cache: &Cache, address: Object) -> ! {
    fatal(format_args!(
        "free({address:p}): pointer into the middle of an object of {} bytes",
        cache.stride()
    ))
}

/// Those methods of a [`SlabPolicy`](quarry_mm::slab::SlabPolicy) that only pass a call on: to the
/// cache or, for `visit_locks`, to the policy's [`Late`] tables once they exist.
macro_rules! pass_on {
    () => {
        fn alloc_from_slabs(&self, cache: CacheIn<'_, P>) -> Option<Object> {
            OneCache::of(&self.tables, cache).alloc_slow()
        }

        fn stats(&self, cache: CacheIn<'_, P>) -> SlabStats {
            OneCache::of(&self.tables, cache).stats()
        }

        fn visit_free(&self, cache: CacheIn<'_, P>, slab: Pfn, visit: &mut dyn FnMut(u32)) {
            OneCache::of(&self.tables, cache).visit_free(slab, visit);
        }

        fn visit_locks(&self, context: &SlabContext<'_, P>, visit: &mut Visit<'_>) {
            if let Some(tables) = self.tables.get() {
                tables.visit_locks(context.caches, visit);
            }
        }

        fn validate(&self, context: &SlabContext<'_, P>) -> Result<(), Broken> {
            context.each_cache().try_for_each(|cache| OneCache::of(&self.tables, cache).validate())
        }
    };
}
pub(super) use pass_on;
