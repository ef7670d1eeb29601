//! Implements the slab policy's trait.

use super::cache::Slam;
use super::tables::Tables;
use super::traffic::Miss;
use crate::slab::arrays::through_arrays;
use crate::slab::mechanisms::{Mechanisms, SlamMode, take_options};
use core::mem::MaybeUninit;
use quarry_mm::frame::Pfn;
use quarry_mm::slab::{
    CacheId, CacheIn, CacheParams, Exchanges, Late, Occupancy, Reclaim, Sheaf, SlabContext,
    SlabLayout, SlabPolicy, SlabStats, not_in_use,
};
use quarry_sys::broken::Broken;
use quarry_sys::local;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{Arrays, Object, Push};
use quarry_sys::primitive::Ordering;

/// The fixed mode, if any. A cache with a constructor is fixed to array: bundles overwrite objects.
fn fixed_mode<P: Arrays>(cache: CacheIn<'_, P>) -> Option<SlamMode> {
    if cache.has_constructor() {
        Some(SlamMode::Array)
    } else {
        Mechanisms::of(cache.context.setup.options).slam_mode
    }
}

impl<P: Arrays> SlabPolicy<P> for Slam {
    const NAME: &'static str = "slam";
    const NEW: Self = Self { sheaf: <Sheaf as SlabPolicy<P>>::NEW, tables: Late::new() };

    take_options!();
    through_arrays!();

    fn is_parked(&self, cache: CacheIn<'_, P>, object: Object) -> bool {
        self.sheaf.is_parked(cache, object)
    }

    fn layout(params: &CacheParams, declared_cpus: u32) -> SlabLayout {
        <Sheaf as SlabPolicy<P>>::layout(params, declared_cpus)
    }

    fn create(&self, cache: CacheIn<'_, P>) -> OsResult<()> {
        self.tables.build(|| Tables::reserve(cache.context))?.take_up(cache.context, cache.id());
        self.sheaf.create(cache)
    }

    fn alloc_from_slabs(&self, cache: CacheIn<'_, P>) -> Option<Object> {
        let percpu = cache.context.percpu;
        if let Some(object) = percpu.pop_unregistered(cache.id().array()) {
            return Some(object);
        }
        let (own, slot) = (self.of(cache), percpu.current());
        let cpu = own.tables.cpu(cache.id(), slot);
        let mode = cpu.note(Miss::Empty, fixed_mode(cache));
        let may_widen = mode != SlamMode::Remote;
        let sheaf = own.sheaf();
        let miss = sheaf.note_miss(slot, false, may_widen);
        own.take_bundles((slot, cpu), miss.sheaf).or_else(|| {
            let taken = |objects: &[Object]| own.own(slot, objects);
            sheaf.alloc_missed(miss, taken, || self.relieve_stocks(cache.context))
        })
    }

    unsafe fn free_slow(&self, cache: CacheIn<'_, P>, object: Object) {
        let percpu = cache.context.percpu;
        match percpu.push_unregistered(cache.id().array(), object) {
            Push::Stored => return,
            Push::Duplicate => not_in_use(&cache, object),
            Push::Refused => {}
        }
        let (own, slot) = (self.of(cache), percpu.current());
        let cpu = own.tables.cpu(cache.id(), slot);
        let may_widen = cpu.traffic.mode() != SlamMode::Remote;
        let sheaf = own.sheaf();
        let miss = sheaf.note_miss(slot, true, may_widen);
        let foreign = own.owner(object).is_some_and(|owner| owner != slot);
        let seen = Miss::Full { foreign, leaving: miss.sheaf };
        let mode = cpu.note(seen, fixed_mode(cache));
        let remote = mode == SlamMode::Remote;
        let is_shared = mode == SlamMode::Array || remote && !foreign;
        if is_shared || miss.has_grown || !own.make_way((slot, cpu), object, miss.sheaf, remote) {
            sheaf.free_missed(object, miss);
        }
        sheaf.bound_barns();
    }

    fn alloc_bulk(&self, cache: CacheIn<'_, P>, out: &mut [MaybeUninit<Object>]) -> usize {
        let own = self.of(cache);
        let cpu = own.tables.cpu(cache.id(), cache.context.percpu.current());
        let taken = own.take_into(cpu, out);
        local::add(&cpu.alloc_slow, taken as u64);
        taken + self.sheaf.alloc_bulk(cache, &mut out[taken..])
    }

    unsafe fn free_bulk(&self, cache: CacheIn<'_, P>, objects: &[Object]) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.sheaf.free_bulk(cache, objects) };
    }

    fn reclaim(&self, context: &SlabContext<'_, P>, what: Reclaim<'_>) -> u32 {
        let stocks = self.reclaim_stocks(context, what);
        stocks.max(self.sheaf.reclaim(context, what))
    }

    fn occupancy(&self, cache: CacheIn<'_, P>, object: Object) -> Option<Occupancy> {
        self.sheaf.occupancy(cache, object)
    }

    fn relieve(&self, context: &SlabContext<'_, P>) {
        self.relieve_stocks(context);
        self.sheaf.relieve(context);
    }

    fn spare_bytes(&self, context: &SlabContext<'_, P>) -> usize {
        self.sheaf.spare_bytes(context)
    }

    fn stats(&self, cache: CacheIn<'_, P>) -> SlabStats {
        let own = self.of(cache);
        let (mut exchanges, mut bundles, mut changes) = (Exchanges::default(), 0, 0);
        for cpu in own.tables.cpus(cache.id()) {
            exchanges.alloc_slow += cpu.alloc_slow.load(Ordering::Relaxed);
            exchanges.free_slow += cpu.free_slow.load(Ordering::Relaxed);
            exchanges.batched_in += cpu.batched_in.load(Ordering::Relaxed);
            exchanges.batched_out += cpu.batched_out.load(Ordering::Relaxed);
            changes += cpu.changes.load(Ordering::Relaxed);
            bundles += cpu.stocks().iter().map(|stock| stock.bundles()).sum::<u64>();
        }
        let mut stats = self.sheaf.at(cache).stats_with(exchanges);
        stats.mode_changes = changes;
        stats.parked_objects += bundles * own.bundle as u64;
        stats
    }

    fn visit_free(&self, cache: CacheIn<'_, P>, slab: Pfn, visit: &mut dyn FnMut(u32)) {
        self.sheaf.visit_free(cache, slab, visit);
    }

    fn visit_locks(&self, context: &SlabContext<'_, P>, visit: &mut Visit<'_>) {
        self.sheaf.visit_locks(context, visit);
    }

    fn validate(&self, context: &SlabContext<'_, P>) -> Result<(), Broken> {
        let announced = self.validate_stocks(context)?;
        self.sheaf.validate_with(context, announced)
    }
}
