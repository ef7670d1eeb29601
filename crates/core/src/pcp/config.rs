//! How a page allocator is set up.

use super::registry::PcpPolicy;
use crate::frame::{MAX_NODES, NodeId};
use quarry_sys::percpu::SlotIndex;

/// How a list of pages is freed (document 001).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeListPolicy {
    /// One critical section per page.
    PerPage,
    /// Two passes: prepare all, then free them in one critical section.
    OneSection,
}

/// How fresh memory of slabs is brought in; what a program may never touch is left to plain faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPolicy {
    /// Whole slabs by one call, in caches that grow.
    pub populate: bool,
    /// Huge pages for pageblocks of slabs, in zones from 64 MiB on.
    pub huge: bool,
}

/// How a page allocator is set up.
#[derive(Clone, Copy, Debug)]
pub struct PageConfig {
    /// Address space to reserve, in bytes.
    pub reserve_bytes: usize,
    /// Most frames that zones and mappings together may hold (`u32::MAX` = no limit).
    pub limit_frames: u32,
    /// Frames that every zone gets at the start; 0 = grow on demand.
    pub initial_frames: u32,
    /// True if zones take more pageblocks from the arena on demand.
    pub grow: bool,
    /// NUMA nodes, 1..=MAX_NODES.
    pub nodes: u8,
    /// The node of a slot: `slot % nodes` where fake, else what the topology says.
    pub node_of_slot: fn(SlotIndex) -> NodeId,
    /// CPUs that formulas of the kernel are fed with.
    pub declared_cpus: u32,
    /// Frames of the machine that formulas of the kernel are fed with; 0 = as many as zones have.
    pub declared_frames: u32,
    /// Policy of the per-CPU lists.
    pub pcp: PcpPolicy,
    /// How fresh memory is brought in.
    pub faults: FaultPolicy,
    /// Policy for lists of pages.
    pub free_list: FreeListPolicy,
}

const _: () = assert!(MAX_NODES <= u8::MAX as usize);
