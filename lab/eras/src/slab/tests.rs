//! The parts of a stack that a slab policy uses, on a fake system, without a stack around them.

use crate::pages::Chosen;
use core::cell::Cell;
use quarry_mm::frame::Metadata;
use quarry_mm::pcp::{PageAllocator, PageConfig};
use quarry_mm::slab::{
    Cache, CacheLimits, CacheOptions, CacheParams, CacheTable, Reclaim, SlabContext, SlabPolicy,
    SlabSetup, SlabStats, create_cache,
};
use quarry_sys::os::FakeOs;
use quarry_sys::percpu::{PerCpu, VirtualSlots};

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// Puts the calling thread on a virtual CPU.
pub(super) fn on_cpu(cpu: u32) {
    CPU.set(cpu);
}

/// Declares four virtual CPUs, and puts the calling thread on the first.
pub(super) fn four_cpus(percpu: &VirtualSlots) {
    on_cpu(0);
    percpu.choice().declare(4, || CPU.get());
}

pub(super) struct Machine<P: PerCpu, S> {
    pub(super) percpu: Box<P>,
    pages: PageAllocator<Chosen>,
    pub(super) metadata: Metadata,
    pub(super) caches: Box<CacheTable>,
    limits: CacheLimits,
    pub(super) policy: Box<S>,
    setup: SlabSetup,
}

impl<P: PerCpu, S: SlabPolicy<P>> Machine<P, S> {
    /// A machine without caches, whose slots `declare` sets up.
    pub(super) fn build(
        config: &PageConfig<Chosen>,
        setup: SlabSetup,
        declare: impl FnOnce(&P),
    ) -> Self {
        let os: &'static FakeOs = Box::leak(Box::new(FakeOs::new(4096)));
        let percpu = Box::new(P::INERT);
        declare(&percpu);
        percpu.init(os).expect("the fake OS refuses nothing");
        let slots = percpu.area().slots();
        Self {
            percpu,
            pages: PageAllocator::build(os, config, slots).expect("the fake OS refuses nothing"),
            metadata: Metadata::new(os),
            caches: Box::new(CacheTable::new()),
            limits: CacheLimits::new(),
            policy: Box::new(S::NEW),
            setup,
        }
    }

    pub(super) fn context(&self) -> SlabContext<'_, P> {
        SlabContext {
            percpu: &self.percpu,
            zones: self.pages.zones(),
            pages: &self.pages,
            metadata: &self.metadata,
            caches: &self.caches,
            limits: &self.limits,
            setup: &self.setup,
            emptied: Default::default(),
        }
    }

    pub(super) fn cache(&self, size: usize) -> &Cache {
        let params = CacheParams { size, align: 16 };
        create_cache(&self.context(), &*self.policy, "test", &params, &CacheOptions::default())
            .expect("a cache")
    }

    pub(super) fn stats(&self, cache: &Cache) -> SlabStats {
        self.policy.stats(self.context().with(cache))
    }

    pub(super) fn validate(&self) {
        assert_eq!(self.policy.validate(&self.context()), Ok(()));
    }

    /// Gives everything back, and checks that nothing is left.
    pub(super) fn finish(&self) {
        self.validate();
        self.policy.reclaim(&self.context(), Reclaim::All);
        self.validate();
        for cache in self.caches.iter() {
            let stats = self.stats(cache);
            assert_eq!((stats.total_slabs, stats.parked_objects), (0, 0), "{stats:?}");
            assert_eq!(stats.allocs(), stats.frees(), "{stats:?}");
        }
    }
}
