//! Quarry's zone under its lock, and a policy's pcp lists on top of it.

use super::Frames;
use anyhow::{Result, anyhow};
use quarry_eras::pages::Chosen;
use quarry_mm::frame::{FRAME_BYTES, MigrateType, NodeId, Order, Pfn};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::pcp::{AllocFlags, PageAllocator, PageConfig, PageRequest};
use quarry_mm::zone::{Ask, Block, Destination, ZoneConfig, Zones};
use quarry_sys::os::Linux;
use quarry_sys::percpu::SlotIndex;

const NODE: NodeId = NodeId(0);
/// Samples take unmovable blocks, as slabs do; LLFree's flag for them is `movable: false`.
const MIGRATETYPE: MigrateType = MigrateType::Unmovable;

/// The zone alone, with a critical section for each block.
pub(super) struct ZoneAlone {
    zones: Zones,
    base: u32,
}

/// The pcp lists of a policy, as in the library: one set for each task.
pub(super) struct PageLists {
    pages: PageAllocator<Chosen>,
    base: u32,
}

/// Bytes of address space for `frames` frames: twice their size, because an allocator skips some.
const fn reserved(frames: u32) -> usize {
    2 * frames as usize * FRAME_BYTES
}

impl ZoneAlone {
    /// Builds a zone of `frames` frames.
    pub(super) fn build(frames: u32) -> Result<Self> {
        let config = ZoneConfig {
            reserve_bytes: reserved(frames),
            limit_frames: u32::MAX,
            initial_frames: frames,
            grow: false,
            huge: false,
            populate: false,
            nodes: 1,
            node_of_slot: |_| NODE,
            distance: |_, _| 0,
        };
        let zones = Zones::build(&Linux, &config);
        let zones = zones.map_err(|error| anyhow!("the zone cannot be built: {error:?}"))?;
        let base = first_frame(&zones);
        Ok(Self { zones, base })
    }

    #[cfg(test)]
    pub(super) fn zones(&self) -> &Zones {
        &self.zones
    }
}

fn first_frame(zones: &Zones) -> u32 {
    let pageblocks = zones.memory().pageblocks();
    let mut all = (0..).map(quarry_mm::frame::PageblockIndex);
    let first = all.find(|index| pageblocks.at(*index).tag().node().is_some());
    first.expect("the zone has its frames from the start").first().0
}

impl Frames for ZoneAlone {
    #[inline]
    fn get(&self, _task: usize, order: u8) -> Option<u32> {
        let ask = Ask {
            order: Order::new(order),
            migratetype: MIGRATETYPE,
            flags: AllocFlags::default(),
        };
        let mut first = None;
        self.zones.take(NODE, &ask, 1, Destination::User, |pfn, _| first = Some(pfn.0 - self.base));
        first
    }

    #[inline]
    fn put(&self, _task: usize, first: u32, order: u8) {
        let (pfn, order) = (Pfn(self.base + first), Order::new(order));
        self.zones.put(NODE, core::iter::once(Block { pfn, order, zeroed: false }));
    }

    fn free_frames(&self) -> Result<u64, String> {
        self.zones.validate().map_err(|broken| broken.to_string())?;
        Ok(self.zones.zone(NODE).free().into())
    }
}

/// The settings of a page allocator of `frames` frames, all of one node and present from the start.
pub(crate) fn config(policy: Chosen, frames: u32) -> PageConfig<Chosen> {
    PageConfig {
        reserve_bytes: reserved(frames),
        initial_frames: frames,
        grow: false,
        nodes: 1,
        node_of_slot: |_| NODE,
        policy,
        ..StackOptions::default().pages
    }
}

/// Builds a page allocator with `slots` sets of lists.
pub(crate) fn allocator(config: &PageConfig<Chosen>, slots: u32) -> Result<PageAllocator<Chosen>> {
    let pages = PageAllocator::build(&Linux, config, slots);
    pages.map_err(|error| anyhow!("the page lists cannot be built: {error:?}"))
}

impl PageLists {
    /// Builds the lists of `policy` for `tasks` tasks over a zone of `frames` frames.
    pub(super) fn build(policy: Chosen, frames: u32, tasks: u32) -> Result<Self> {
        let pages = allocator(&config(policy, frames), tasks)?;
        let base = first_frame(pages.zones());
        Ok(Self { pages, base })
    }
}

impl Frames for PageLists {
    #[inline]
    fn get(&self, task: usize, order: u8) -> Option<u32> {
        let (order, flags) = (Order::new(order), AllocFlags::default());
        let request = PageRequest { order, migratetype: MIGRATETYPE, flags, node: NODE };
        let page = self.pages.alloc(SlotIndex(task as u32), request)?;
        Some(page.pfn.0 - self.base)
    }

    #[inline]
    fn put(&self, task: usize, first: u32, order: u8) {
        self.pages.free(SlotIndex(task as u32), Pfn(self.base + first), Order::new(order));
    }

    fn free_frames(&self) -> Result<u64, String> {
        self.pages.validate().map_err(|broken| broken.to_string())?;
        let zones = self.pages.zones();
        Ok((zones.zone(NODE).free() + zones.frames_in_pcp(NODE)).into())
    }
}
