//! A machine with the policy, without a stack around it: virtual CPUs and a fake system.

use crate::pages::tests::TINY;
use crate::pages::{Chosen, V6_7};
use crate::slab::linux_slab::LinuxSlab;
use crate::slab::linux_slab::cache::SlabCache;
use crate::slab::linux_slab::node::Lists;
use crate::slab::mechanisms::Mechanisms;
use crate::slab::tests::{self, four_cpus, on_cpu};
use quarry_mm::frame::NodeId;
use quarry_mm::pcp::{FaultPolicy, PageConfig};
use quarry_mm::slab::{Cache, SlabPolicy, SlabSetup};
use quarry_sys::percpu::{Object, PerCpu, Push, SlotIndex, VirtualSlots};
use std::vec::Vec;

/// A machine with the policy: CPUs 0 and 1 of node 0, CPUs 2 and 3 of node 1, and so on.
pub(super) type Machine = tests::Machine<VirtualSlots, LinuxSlab>;

impl Machine {
    pub(super) fn new(nodes: u8, cpus: u32) -> Self {
        Self::without(nodes, cpus, "")
    }

    /// A machine that does without some mechanisms.
    pub(super) fn without(nodes: u8, cpus: u32, mechanisms: &str) -> Self {
        super::set_now(0);
        let config = PageConfig {
            nodes,
            node_of_slot: match nodes {
                1 => |_| NodeId(0),
                _ => |slot: SlotIndex| NodeId(slot.0 as u8 / 2),
            },
            declared_cpus: cpus,
            faults: FaultPolicy { populate: false, huge: false },
            policy: Chosen::V6_7(V6_7),
            ..TINY
        };
        let mechanisms = Mechanisms::without(mechanisms).expect("names of mechanisms");
        let setup = SlabSetup { declared_cpus: cpus, options: mechanisms.into() };
        Self::build(&config, setup, four_cpus)
    }

    pub(super) fn alloc(&self, cpu: u32, cache: &Cache) -> Object {
        on_cpu(cpu);
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
        on_cpu(cpu);
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
}
