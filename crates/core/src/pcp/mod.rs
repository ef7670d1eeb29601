//! Per-CPU page lists in front of the zones, and the page allocator that joins both.

#![deny(unsafe_code)]

use crate::frame::{MAX_NODES, MigrateType, NodeId, Order, Pfn};
pub use crate::zone::AllocFlags;
use crate::zone::Ask;
use quarry_sys::percpu::SlotIndex;

/// A block of frames that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its first frame.
    pub pfn: Pfn,
    /// Whether every byte is known to be zero.
    pub zeroed: bool,
}

/// What is asked of the page allocator.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest {
    /// Size of the block.
    pub order: Order,
    /// What it will hold.
    pub migratetype: MigrateType,
    /// Rights beyond the usual.
    pub flags: AllocFlags,
    /// The node to try first.
    pub node: NodeId,
}

impl PageRequest {
    /// The part of the request that zones see.
    #[inline]
    fn ask(self) -> Ask {
        Ask { order: self.order, migratetype: self.migratetype, flags: self.flags }
    }
}

/// Which policy the per-CPU lists follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PcpPolicy {
    /// Only order 0 is cached; `batch` pages are exchanged with the zone, at most `high` kept.
    Order0 {
        /// Pages per exchange: 31 (to 4.19), 63 (since), 310 (document 004).
        batch: u32,
        /// Most pages kept: 186, 378, 1860.
        high: u32,
    },
    /// Document 000: one list per order 1..=3 beside the order-0 lists.
    V2016,
    /// Linux 6.7: orders 0..=3 and 9, auto-tuned.
    V6_7,
}

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
    /// Whether zones take more pageblocks from the arena on demand.
    pub grow: bool,
    /// NUMA nodes, 1..=MAX_NODES.
    pub nodes: u8,
    /// The node of a slot: `slot % nodes` where fake, else what the topology says.
    pub node_of_slot: fn(SlotIndex) -> NodeId,
    /// CPUs that formulas of the kernel are fed with.
    pub declared_cpus: u32,
    /// Policy of the per-CPU lists.
    pub pcp: PcpPolicy,
    /// How fresh memory is brought in.
    pub faults: FaultPolicy,
    /// Policy for lists of pages.
    pub free_list: FreeListPolicy,
}

const _: () = assert!(MAX_NODES <= u8::MAX as usize);

mod allocator;
mod drain;
mod lists;
mod locked_lists;
mod order0;
mod policy;
mod ring;
mod section;
mod set;
mod slow;
#[cfg(test)]
pub(crate) mod tests;

mod v2016;
mod v6_7;

pub use allocator::PageAllocator;
pub use lists::{PcpCounters, Tuning};
pub use policy::{SizeInputs, Sizes};
pub use ring::RingSizes;
