//! The policy's state, and a cache together with the data of its slow paths.

use super::bundle;
use super::stock::Stock;
use super::tables::Tables;
use quarry_mm::frame::Pfn;
use quarry_mm::slab::{Cache, CacheIn, Late, Sheaf, SheafView, SlabContext};
use quarry_sys::percpu::{Arrays, Object, SlotIndex};

/// Of objects that come to a CPU together, `own` records the slab of at least one in this many.
const OWNED_STEP: usize = 16;

/// The policy `slam`; see its module.
pub struct Slam {
    /// Arrays, barns and slabs.
    pub(super) sheaf: Sheaf,
    pub(super) tables: Late<Tables>,
}

pub(super) struct SlamCache<'a, P: Arrays> {
    pub(super) context: &'a SlabContext<'a, P>,
    pub(super) cache: &'a Cache,
    policy: &'a Sheaf,
    pub(super) tables: &'a Tables,
    /// Number of objects in a bundle.
    pub(super) bundle: usize,
}

impl<P: Arrays> SlamCache<'_, P> {
    /// The arrays, barns and slabs of the cache, which is about to be used.
    #[inline]
    pub(super) fn sheaf(&self) -> SheafView<'_, P> {
        self.policy.of(self.context.with(self.cache))
    }

    /// Records `slot`, which got these objects by a miss, as the owner of their slabs. The objects
    /// are mostly neighbours, so a few of them are enough to find all their slabs.
    #[inline]
    pub(super) fn own(&self, slot: SlotIndex, objects: &[Object]) {
        let step = (self.cache.objects() as usize / 2).clamp(1, OWNED_STEP);
        for object in objects.iter().rev().step_by(step) {
            self.tables.owners.note(self.slab(*object), slot);
        }
    }

    pub(super) fn slab(&self, object: Object) -> Pfn {
        self.context.slab_of(self.cache, object)
    }

    /// The slot that owns the object's slab, if the table knows it.
    pub(super) fn owner(&self, object: Object) -> Option<SlotIndex> {
        let owner = self.tables.owners.of(self.slab(object))?;
        (owner.0 < self.context.percpu.area().slots()).then_some(owner)
    }

    pub(super) fn count_in(&self, stock: &Stock, bundles: u64) {
        stock.note_bytes(self.context.limits, self.bytes_of(bundles));
    }

    pub(super) fn count_out(&self, stock: &Stock, bundles: u64) {
        stock.note_bytes(self.context.limits, -self.bytes_of(bundles));
    }

    pub(super) fn bytes_of(&self, bundles: u64) -> i64 {
        bundles as i64 * (self.bundle * self.cache.stride()) as i64
    }
}

impl Slam {
    #[inline]
    pub(super) fn of<'a, P: Arrays>(&'a self, cache: CacheIn<'a, P>) -> SlamCache<'a, P> {
        let tables = self.tables.get().expect("a cache has been created");
        let bundle = bundle::size(cache.stride());
        SlamCache {
            context: cache.context,
            cache: cache.cache,
            policy: &self.sheaf,
            tables,
            bundle,
        }
    }
}
