//! The setup of a page allocator.

use super::policy::SizeInputs;
use super::v6_18::V6_18;
use crate::frame::{MAX_NODES, NodeId};
use quarry_sys::percpu::SlotIndex;

/// The way to free a list of pages (document 001).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeListPolicy {
    /// One critical section per page.
    PerPage,
    /// Two passes: prepare all, then free them in one critical section.
    OneSection,
}

/// The ways to bring in fresh memory of slabs that the program will probably touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPolicy {
    /// Brings in whole slabs by one call each, in caches that grow.
    pub populate: bool,
    /// Uses huge pages: for cached pages, slabs in zones from 64 MiB on, and mappings that fill up.
    pub huge: bool,
}

/// The machine that the kernel's formulas assume instead of the running one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its CPUs, at least 1.
    pub cpus: u32,
    /// Its memory, in frames of all nodes together; 0 = as many as zones have.
    pub frames: u32,
    /// Its NUMA nodes, 1..=[`MAX_NODES`].
    pub nodes: u8,
}

/// The setup of a page allocator.
#[derive(Clone, Copy, Debug)]
pub struct PageConfig<P = V6_18> {
    /// Address space to reserve, in bytes.
    pub reserve_bytes: usize,
    /// Maximum number of frames that zones and mappings together may hold (`u32::MAX` = no limit).
    pub limit_frames: u32,
    /// Frames that every zone gets at the start; 0 = grow on demand.
    pub initial_frames: u32,
    /// True if zones take more pageblocks from the arena on demand.
    pub grow: bool,
    /// NUMA nodes, 1..=MAX_NODES.
    pub nodes: u8,
    /// The node of a slot: `slot % nodes` if nodes are fake, else the node of the topology.
    pub node_of_slot: fn(SlotIndex) -> NodeId,
    /// CPUs that the kernel's formulas assume.
    pub declared_cpus: u32,
    /// Frames that the kernel's formulas assume, all nodes together; 0 = as many as zones have.
    pub declared_frames: u32,
    /// Bytes of a CPU's share of the last-level cache; 0 = read from the machine at the start.
    pub cache_slice_bytes: u32,
    /// Policy of the per-CPU lists.
    pub policy: P,
    /// True if a CPU keeps, for its next requests, extents that it has freed.
    pub lists_extents: bool,
    /// The way to bring in fresh memory.
    pub faults: FaultPolicy,
    /// The way to free lists of pages.
    pub free_list: FreeListPolicy,
}

/// Deals slots to declared nodes in turn.
fn dealt<const NODES: u32>(slot: SlotIndex) -> NodeId {
    NodeId((slot.0 % NODES) as u8)
}

const DEALT: [fn(SlotIndex) -> NodeId; MAX_NODES] = [
    dealt::<1>, dealt::<2>, dealt::<3>, dealt::<4>, dealt::<5>, dealt::<6>, dealt::<7>, dealt::<8>,
];

impl<P> PageConfig<P> {
    /// Lets the kernel's formulas assume `machine`. If it has another number of nodes, nodes become
    /// fake: each has a zone, slots are assigned to them in turn, and the system does not know
    /// them. Panics if `machine` has no CPU, or not 1 to [`MAX_NODES`] nodes.
    pub fn declare(&mut self, machine: Machine) {
        let Machine { cpus, frames, nodes } = machine;
        assert!(cpus > 0, "a machine has CPUs");
        assert!(
            (1..=MAX_NODES).contains(&usize::from(nodes)),
            "a machine has 1 to {MAX_NODES} nodes, not {nodes}"
        );
        self.declared_cpus = cpus;
        self.declared_frames = frames;
        if nodes != self.nodes {
            self.nodes = nodes;
            self.node_of_slot = DEALT[usize::from(nodes) - 1];
        }
    }

    pub(super) fn size_inputs(&self) -> SizeInputs {
        let inputs = match self.declared_frames {
            0 => SizeInputs::of(self.initial_frames, self.grow, self.nodes, self.declared_cpus),
            frames => SizeInputs::declared(frames, self.nodes, self.declared_cpus),
        };
        let cache_slice_bytes = match self.cache_slice_bytes {
            0 => quarry_sys::topology::data_cache_slice(),
            declared => declared,
        };
        SizeInputs { cache_slice_bytes, ..inputs }
    }
}

const _: () = assert!(MAX_NODES <= u8::MAX as usize);
