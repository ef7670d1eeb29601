//! The policy on a fake system, without a stack around it.

use crate::pages::Chosen;
use crate::slab::one_cache::LIST;
use crate::slab::slqb::cache::SlqbCache;
use crate::slab::slqb::list::CacheList;
use crate::slab::slqb::policy::Slqb;
use quarry_mm::frame::Metadata;
use quarry_mm::pcp::{PageAllocator, PageConfig};
use quarry_mm::slab::{
    Cache, CacheId, CacheLimits, CacheOptions, CacheParams, CacheTable, Mechanisms, SlabContext,
    SlabPolicy, SlabSetup, SlabStats, create_cache,
};
use quarry_sys::os::FakeOs;
use quarry_sys::percpu::{Lists, Object, SlotIndex, VirtualSlots};
use std::cell::Cell;

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// Puts the calling thread on a virtual CPU.
pub(super) fn on_cpu(cpu: u32) {
    CPU.set(cpu);
}

pub(super) struct Bed<P: Lists = VirtualSlots> {
    percpu: Box<P>,
    pages: PageAllocator<Chosen>,
    metadata: Metadata,
    caches: CacheTable,
    limits: CacheLimits,
    policy: Slqb,
    /// The cache under test.
    id: CacheId,
}

impl Bed {
    /// A cache of objects of `size` bytes on 4 virtual CPUs.
    pub(super) fn new(size: usize, config: &PageConfig<Chosen>) -> Self {
        on_cpu(0);
        Self::with(size, config, |percpu: &VirtualSlots| percpu.choice().declare(4, || CPU.get()))
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
        let os: &'static FakeOs = Box::leak(Box::new(FakeOs::new(4096)));
        let percpu = Box::new(P::INERT);
        declare(&percpu);
        percpu.init(os).expect("the fake OS refuses nothing");
        let slots = percpu.area().slots();
        let mut bed = Self {
            percpu,
            pages: PageAllocator::build(os, config, slots).expect("the fake OS refuses nothing"),
            metadata: Metadata::new(os),
            caches: CacheTable::new(),
            limits: CacheLimits::new(),
            policy: <Slqb as SlabPolicy<P>>::NEW,
            id: CacheId::new(1),
        };
        let params = CacheParams { size, align: 16 };
        let cache =
            create_cache(&bed.context(), &bed.policy, "test", &params, &CacheOptions::default());
        let id = cache.map(Cache::id).expect("a cache");
        bed.id = id;
        bed
    }

    pub(super) fn context(&self) -> SlabContext<'_, P> {
        SlabContext {
            percpu: &self.percpu,
            zones: self.pages.zones(),
            pages: &self.pages,
            metadata: &self.metadata,
            caches: &self.caches,
            limits: &self.limits,
            setup: &SlabSetup { declared_cpus: 4, mechanisms: Mechanisms::ALL },
            emptied: Default::default(),
        }
    }

    pub(super) fn cache(&self) -> &Cache {
        self.caches.get(self.id).expect("created")
    }

    pub(super) fn policy(&self) -> &Slqb {
        &self.policy
    }

    /// Calls `look` with the cache as the policy's own files see it.
    pub(super) fn own<R>(&self, look: impl FnOnce(&SlqbCache<'_, P>) -> R) -> R {
        let context = self.context();
        look(&SlqbCache::of(&self.policy.tables, context.with(self.cache())))
    }

    /// A CPU's part of the cache.
    pub(super) fn list(&self, cpu: u32) -> &CacheList {
        let tables = self.policy.tables.get().expect("created");
        tables.list(self.id, tables.of_slot(SlotIndex(cpu)))
    }

    /// Objects in a CPU's cell.
    pub(super) fn level(&self, cpu: u32) -> u64 {
        self.own(|own| own.cell(SlotIndex(cpu), LIST) & 0xf_ffff)
    }

    pub(super) fn try_alloc(&self) -> Option<Object> {
        Slqb::alloc_fast(&*self.percpu, self.id)
            .or_else(|| self.policy.alloc_from_slabs(self.context().with(self.cache())))
    }

    /// Frees an object.
    pub(super) fn free_one(&self, object: Object) {
        // SAFETY: the tests free what they have allocated, once.
        unsafe { self.policy.free_bulk(self.context().with(self.cache()), &[object]) };
    }

    pub(super) fn stats(&self) -> SlabStats {
        self.policy.stats(self.context().with(self.cache()))
    }

    pub(super) fn validate(&self) {
        assert_eq!(self.policy.validate(&self.context()), Ok(()));
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
        self.validate();
        self.shrink();
        self.validate();
        let stats = self.stats();
        assert_eq!((stats.total_slabs, stats.parked_objects), (0, 0), "{stats:?}");
        assert_eq!(stats.allocs(), stats.frees(), "{stats:?}");
    }
}
