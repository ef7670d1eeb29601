//! What each mechanism does, by counters, on virtual CPUs, with a clock that the tests set.

mod arrays;
mod nodes;
mod reaper;

use super::LinuxSlab;
use super::cache::SlabCache;
use crate::frame::{Metadata, NodeId};
use crate::pcp::{FaultPolicy, FreeListPolicy, PageAllocator, PageConfig, PcpPolicy};
use crate::slab::{
    Cache, CacheLimits, CacheParams, CacheTable, Mechanisms, Reclaim, SlabContext, SlabPolicy,
    SlabStats, create_cache,
};
use core::cell::Cell;
use quarry_sys::os::FakeOs;
use quarry_sys::percpu::{Arrays, Object, PerCpu, Push, SlotIndex, VirtualSlots};
use std::boxed::Box;
use std::vec::Vec;

std::thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// The time that the running test has set.
pub(super) fn now_ns() -> u64 {
    NOW_NS.get()
}

const SECOND: u64 = 1_000_000_000;

/// A machine with the policy: CPUs 0 and 1 of node 0, CPUs 2 and 3 of node 1, and so on.
struct Machine {
    percpu: Box<VirtualSlots>,
    pages: PageAllocator,
    metadata: Metadata,
    caches: Box<CacheTable>,
    limits: CacheLimits,
    policy: Box<LinuxSlab>,
    cpus: u32,
    mechanisms: Mechanisms,
}

impl Machine {
    fn new(nodes: u8, cpus: u32) -> Self {
        Self::without(nodes, cpus, "")
    }

    /// A machine that does without some mechanisms.
    fn without(nodes: u8, cpus: u32, mechanisms: &str) -> Self {
        NOW_NS.set(0);
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
            pcp: PcpPolicy::named("v6.7").expect("a page policy"),
            free_list: FreeListPolicy::OneSection,
        };
        Self {
            percpu,
            pages: PageAllocator::build(os, &config, 4).expect("the fake OS refuses nothing"),
            metadata: Metadata::new(os),
            caches: Box::new(CacheTable::new()),
            limits: CacheLimits::new(),
            policy: Box::new(<LinuxSlab as SlabPolicy<VirtualSlots>>::NEW),
            cpus,
            mechanisms: Mechanisms::without(mechanisms).expect("names of mechanisms"),
        }
    }

    fn context(&self) -> SlabContext<'_, VirtualSlots> {
        SlabContext {
            percpu: &self.percpu,
            pages: &self.pages,
            metadata: &self.metadata,
            caches: &self.caches,
            limits: &self.limits,
            declared_cpus: self.cpus,
            mechanisms: self.mechanisms,
        }
    }

    fn cache(&self, size: usize) -> &Cache {
        let params = CacheParams { size, align: 16 };
        create_cache(&self.context(), &*self.policy, "test", &params).expect("a cache")
    }

    fn alloc(&self, cpu: u32, cache: &Cache) -> Object {
        CPU.set(cpu);
        <LinuxSlab as SlabPolicy<_>>::alloc_fast(&*self.percpu, cache.id())
            .or_else(|| self.policy.alloc_slow(&self.context(), cache))
            .expect("there is memory")
    }

    /// Allocates at least `count` objects, until nothing is left in the array of the CPU.
    fn alloc_all(&self, cpu: u32, cache: &Cache, count: usize) -> Vec<Object> {
        let mut objects: Vec<_> = (0..count).map(|_| self.alloc(cpu, cache)).collect();
        while self.level(cpu, cache) > 0 {
            objects.push(self.alloc(cpu, cache));
        }
        objects
    }

    fn free(&self, cpu: u32, cache: &Cache, object: Object) {
        CPU.set(cpu);
        let is_looked_at = SlabPolicy::<VirtualSlots>::looks_at_frees(&*self.policy);
        // SAFETY: the tests free what they have allocated, once.
        unsafe {
            let slab = || self.context().slab_of(cache, object);
            let is_done = !is_looked_at
                && LinuxSlab::free_fast(&*self.percpu, cache.id(), object, slab) == Push::Stored;
            if !is_done {
                self.policy.free_slow(&self.context(), cache, object);
            }
        }
    }

    fn free_all(&self, cpu: u32, cache: &Cache, objects: &[Object]) {
        objects.iter().for_each(|object| self.free(cpu, cache, *object));
    }

    /// Objects in the array of a CPU.
    fn level(&self, cpu: u32, cache: &Cache) -> u64 {
        self.percpu.area().slot_level(SlotIndex(cpu), cache.id().array())
    }

    fn stats(&self, cache: &Cache) -> SlabStats {
        self.policy.stats(&self.context(), cache)
    }

    /// Objects in the shared array of a node.
    fn shared(&self, node: u8, cache: &Cache) -> u64 {
        self.stats(cache).barns[usize::from(node)].objects
    }

    /// Calls `look` with the lists of a node.
    fn with_lists<R>(
        &self,
        node: u8,
        cache: &Cache,
        look: impl FnOnce(&super::node::Lists) -> R,
    ) -> R {
        let context = self.context();
        let tables = self.policy.tables();
        let own = SlabCache { context: &context, cache, tables };
        let lists = own.node(NodeId(node)).lists.lock();
        look(&lists)
    }

    /// Objects that are free in the slabs of a node.
    fn free_objects(&self, node: u8, cache: &Cache) -> u64 {
        self.with_lists(node, cache, super::node::Lists::free_objects)
    }

    fn validate(&self) {
        assert_eq!(self.policy.validate(&self.context()), Ok(()));
    }

    /// Gives everything back, and checks that nothing is left.
    fn finish(&self) {
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
