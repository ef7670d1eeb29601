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
    /// The inputs of another machine for the sizes of the lists; `None` = those of this one.
    pub declared: Option<SizeInputs>,
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

impl<P> PageConfig<P> {
    pub(super) fn size_inputs(&self) -> SizeInputs {
        let own = || SizeInputs::of(self.initial_frames, self.grow, self.nodes, self.declared_cpus);
        let inputs = self.declared.unwrap_or_else(own);
        let cache_slice_bytes = match self.cache_slice_bytes {
            0 => quarry_sys::topology::data_cache_slice(),
            declared => declared,
        };
        SizeInputs { cache_slice_bytes, ..inputs }
    }
}

const _: () = assert!(MAX_NODES <= u8::MAX as usize);
