//! A machine with the policy, without a stack around it: virtual CPUs and a fake system.

use crate::pages::V6_7;
use crate::slab::linux_slab::LinuxSlab;
use crate::slab::linux_slab::cache::SlabCache;
use crate::slab::linux_slab::node::Lists;
use core::cell::Cell;
use quarry_mm::frame::{Metadata, NodeId};
use quarry_mm::pcp::{FaultPolicy, FreeListPolicy, PageAllocator, PageConfig};
use quarry_mm::slab::{
    Cache, CacheLimits, CacheOptions, CacheParams, CacheTable, Mechanisms, Reclaim, SlabContext,
    SlabPolicy, SlabSetup, SlabStats, create_cache,
};
use quarry_sys::os::FakeOs;
use quarry_sys::percpu::{Object, PerCpu, Push, SlotIndex, VirtualSlots};
use std::boxed::Box;
use std::vec::Vec;

std::thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// Puts the calling thread on a CPU.
pub(super) fn on_cpu(cpu: u32) {
    CPU.set(cpu);
}

/// A machine with the policy: CPUs 0 and 1 of node 0, CPUs 2 and 3 of node 1, and so on.
pub(super) struct Machine {
    pub(super) percpu: Box<VirtualSlots>,
    pub(super) pages: PageAllocator<V6_7>,
    pub(super) metadata: Metadata,
    pub(super) caches: Box<CacheTable>,
    pub(super) limits: CacheLimits,
    pub(super) policy: Box<LinuxSlab>,
    pub(super) setup: SlabSetup,
}

impl Machine {
    pub(super) fn new(nodes: u8, cpus: u32) -> Self {
        Self::without(nodes, cpus, "")
    }

    /// A machine that does without some mechanisms.
    pub(super) fn without(nodes: u8, cpus: u32, mechanisms: &str) -> Self {
        super::set_now(0);
        CPU.set(0);
        let os: &'static FakeOs = Box::leak(Box::new(FakeOs::new(4096)));
        let percpu = Box::new(VirtualSlots::INERT);
        percpu.choice().declare(4, || CPU.get());
        percpu.init(os).expect("the fake OS refuses nothing");
        let config = PageConfig {
            reserve_bytes: 64 << 20,
            limit_frames: u32::MAX,
            initial_frames: 0,
            grow: true,
            nodes,
            node_of_slot: match nodes {
                1 => |_| NodeId(0),
                _ => |slot: SlotIndex| NodeId(slot.0 as u8 / 2),
            },
            declared_cpus: cpus,
            declared_frames: 0,
            cache_slice_bytes: 2 << 20,
            faults: FaultPolicy { populate: false, huge: false },
            policy: V6_7,
            lists_extents: true,
            free_list: FreeListPolicy::OneSection,
        };
        Self {
            percpu,
            pages: PageAllocator::build(os, &config, 4).expect("the fake OS refuses nothing"),
            metadata: Metadata::new(os),
            caches: Box::new(CacheTable::new()),
            limits: CacheLimits::new(),
            policy: Box::new(<LinuxSlab as SlabPolicy<VirtualSlots>>::NEW),
            setup: SlabSetup {
                declared_cpus: cpus,
                mechanisms: Mechanisms::without(mechanisms).expect("names of mechanisms"),
            },
        }
    }

    pub(super) fn context(&self) -> SlabContext<'_, VirtualSlots> {
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

    pub(super) fn alloc(&self, cpu: u32, cache: &Cache) -> Object {
        CPU.set(cpu);
        <LinuxSlab as SlabPolicy<_>>::alloc_fast(&*self.percpu, cache.id())
            .or_else(|| self.policy.alloc_from_slabs(self.context().with(cache)))
            .expect("there is memory")
    }

    /// Allocates at least `count` objects, until nothing is left in the array of the CPU.
    pub(super) fn alloc_all(&self, cpu: u32, cache: &Cache, count: usize) -> Vec<Object> {
        let mut objects: Vec<_> = (0..count).map(|_| self.alloc(cpu, cache)).collect();
        while self.level(cpu, cache) > 0 {
            objects.push(self.alloc(cpu, cache));
        }
        objects
    }

    pub(super) fn free(&self, cpu: u32, cache: &Cache, object: Object) {
        CPU.set(cpu);
        let is_looked_at = SlabPolicy::<VirtualSlots>::looks_at_frees(&*self.policy);
        // SAFETY: the tests free what they have allocated, once.
        unsafe {
            let slab = || self.context().slab_of(cache, object);
            let is_done = !is_looked_at
                && LinuxSlab::free_fast(&*self.percpu, cache.id(), object, slab) == Push::Stored;
            if !is_done {
                self.policy.free_slow(self.context().with(cache), object);
            }
        }
    }

    pub(super) fn free_all(&self, cpu: u32, cache: &Cache, objects: &[Object]) {
        objects.iter().for_each(|object| self.free(cpu, cache, *object));
    }

    /// Objects in the array of a CPU.
    pub(super) fn level(&self, cpu: u32, cache: &Cache) -> u64 {
        self.percpu.area().slot_level(SlotIndex(cpu), cache.id().array())
    }

    pub(super) fn stats(&self, cache: &Cache) -> SlabStats {
        self.policy.stats(self.context().with(cache))
    }

    /// Objects in the shared array of a node.
    pub(super) fn shared(&self, node: u8, cache: &Cache) -> u64 {
        self.stats(cache).barns[usize::from(node)].objects
    }

    /// Calls `look` with the lists of a node.
    pub(super) fn with_lists<R>(
        &self,
        node: u8,
        cache: &Cache,
        look: impl FnOnce(&Lists) -> R,
    ) -> R {
        let context = self.context();
        let own = SlabCache::of(&self.policy.tables, context.with(cache));
        let lists = own.node(NodeId(node)).lists.lock();
        look(&lists)
    }

    /// Objects that are free in the slabs of a node.
    pub(super) fn free_objects(&self, node: u8, cache: &Cache) -> u64 {
        self.with_lists(node, cache, |lists| lists.free_objects)
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
