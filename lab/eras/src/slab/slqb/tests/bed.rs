//! The policy on a fake system, without a stack around it.

use crate::pages::Chosen;
use crate::slab::one_cache::LIST;
use crate::slab::slqb::cache::SlqbCache;
use crate::slab::slqb::list::CacheList;
use crate::slab::slqb::policy::Slqb;
use crate::slab::tests::{Machine, four_cpus, on_cpu};
use quarry_mm::pcp::PageConfig;
use quarry_mm::slab::{
    Cache, CacheId, PolicyOptions, SlabContext, SlabPolicy, SlabSetup, SlabStats,
};
use quarry_sys::percpu::{Lists, Object, SlotIndex, VirtualSlots};

pub(super) struct Bed<P: Lists = VirtualSlots> {
    machine: Machine<P, Slqb>,
    /// The cache under test.
    id: CacheId,
}

impl Bed {
    /// A cache of objects of `size` bytes on 4 virtual CPUs.
    pub(super) fn new(size: usize, config: &PageConfig<Chosen>) -> Self {
        Self::with(size, config, four_cpus)
    }

    /// Allocates `count` objects on a CPU.
    pub(super) fn alloc(&self, cpu: u32, count: usize) -> Vec<Object> {
        on_cpu(cpu);
        (0..count).map(|_| self.try_alloc().expect("there is memory")).collect()
    }

    /// Frees objects on a CPU, first to last.
    pub(super) fn free(&self, cpu: u32, objects: impl IntoIterator<Item = Object>) {
        on_cpu(cpu);
        objects.into_iter().for_each(|object| self.free_one(object));
    }
}

impl<P: Lists> Bed<P> {
    /// A cache of objects of `size` bytes on slots that `declare` sets up.
    pub(super) fn with(size: usize, config: &PageConfig<Chosen>, declare: impl FnOnce(&P)) -> Self {
        let setup = SlabSetup { declared_cpus: 4, options: PolicyOptions::default() };
        let machine = Machine::build(config, setup, declare);
        let id = machine.cache(size).id();
        Self { machine, id }
    }

    pub(super) fn context(&self) -> SlabContext<'_, P> {
        self.machine.context()
    }

    pub(super) fn cache(&self) -> &Cache {
        self.machine.caches.get(self.id).expect("created")
    }

    pub(super) fn policy(&self) -> &Slqb {
        &self.machine.policy
    }

    /// Calls `look` with the cache as the policy's own files see it.
    pub(super) fn own<R>(&self, look: impl FnOnce(&SlqbCache<'_, P>) -> R) -> R {
        let context = self.context();
        look(&SlqbCache::of(&self.machine.policy.tables, context.with(self.cache())))
    }

    /// A CPU's part of the cache.
    pub(super) fn list(&self, cpu: u32) -> &CacheList {
        let tables = self.machine.policy.tables.get().expect("created");
        tables.list(self.id, tables.of_slot(SlotIndex(cpu)))
    }

    /// Objects in a CPU's cell.
    pub(super) fn level(&self, cpu: u32) -> u64 {
        self.own(|own| own.cell(SlotIndex(cpu), LIST) & 0xf_ffff)
    }

    pub(super) fn try_alloc(&self) -> Option<Object> {
        Slqb::alloc_fast(&*self.machine.percpu, self.id)
            .or_else(|| self.machine.policy.alloc_from_slabs(self.context().with(self.cache())))
    }

    /// Frees an object.
    pub(super) fn free_one(&self, object: Object) {
        // SAFETY: the tests free what they have allocated, once.
        unsafe { self.machine.policy.free_bulk(self.context().with(self.cache()), &[object]) };
    }

    pub(super) fn stats(&self) -> SlabStats {
        self.machine.stats(self.cache())
    }

    pub(super) fn validate(&self) {
        self.machine.validate();
    }

    /// Times that the lock of a CPU's slabs was taken.
    pub(super) fn page_locks(&self, cpu: u32) -> u64 {
        self.list(cpu).partial.stats().acquisitions
    }

    pub(super) fn shrink(&self) {
        self.own(|own| own.shrink());
    }

    /// Shrinks the cache; then nothing may be left of it.
    pub(super) fn finish(&self) {
        self.machine.finish();
    }
}
