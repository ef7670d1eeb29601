//! Per-CPU page lists in front of the zones, and the page allocator that joins both.

use crate::frame::{Arena, FrameTable, MAX_NODES, MigrateType, NodeId, Order, Pfn};
use quarry_sys::os::{Os, OsResult};
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

/// Rights of a request with regard to watermarks (`ALLOC_*`, Linux 6.3 names).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocFlags {
    /// May use part of the reserve below the min watermark (`__GFP_HIGH`).
    pub min_reserve: bool,
    /// Cannot wait for anything (atomic context).
    pub non_block: bool,
    /// May use the high-order atomic reserve.
    pub high_atomic: bool,
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
    /// Policy for lists of pages.
    pub free_list: FreeListPolicy,
}

const _: () = assert!(MAX_NODES <= u8::MAX as usize);

/// Zones and the per-CPU lists in front of them.
pub struct PageAllocator {
    arena: Arena,
    frames: FrameTable,
}

impl PageAllocator {
    /// Reserves the arena and sets up zones and `slots` per-CPU lists.
    ///
    /// # Errors
    /// What the OS says.
    pub fn build(os: &'static dyn Os, config: &PageConfig, slots: u32) -> OsResult<Self> {
        let _ = slots;
        let arena = Arena::reserve(os, config.reserve_bytes)?;
        let frames = FrameTable::reserve(os, arena.frames())?;
        Ok(Self { arena, frames })
    }

    /// What is recorded of each frame.
    #[inline]
    pub fn frames(&self) -> &FrameTable {
        &self.frames
    }

    /// The reservation.
    #[inline]
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Takes a block.
    pub fn alloc(&self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        let _ = (slot, request);
        todo!()
    }

    /// Gives a block back.
    pub fn free(&self, slot: SlotIndex, pfn: Pfn, order: Order) {
        let _ = (slot, pfn, order);
        todo!()
    }

    /// Takes up to `out.len()` blocks; returns how many were written to the front of `out`.
    pub fn alloc_bulk(&self, slot: SlotIndex, request: PageRequest, out: &mut [Page]) -> usize {
        let _ = (slot, request, out);
        todo!()
    }

    /// Gives a list of blocks back, as the free-list policy says.
    pub fn free_list(&self, slot: SlotIndex, pages: &[(Pfn, Order)]) {
        let _ = (slot, pages);
        todo!()
    }

    /// Takes exactly `count` frames (1..=1024): a block, trimmed, the rest given back at once.
    pub fn alloc_exact(
        &self,
        slot: SlotIndex,
        count: u32,
        migratetype: MigrateType,
        align: Order,
    ) -> Option<Page> {
        let _ = (slot, count, migratetype, align);
        todo!()
    }

    /// Gives back `count` frames from `first` on, in the largest blocks that they form.
    pub fn free_exact(&self, slot: SlotIndex, first: Pfn, count: u32) {
        let _ = (slot, first, count);
        todo!()
    }
}
