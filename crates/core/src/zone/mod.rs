//! Zones: the buddy allocator of one NUMA node, under one counted lock.
#![deny(unsafe_code)]

mod buddy;
mod budget;
mod extents;
mod fallback;
mod free_area;
mod give_back;
mod grow;
mod highatomic;
mod huge;
mod purge;
#[cfg(test)]
pub(crate) mod tests;
mod validate;
mod watermark;
#[expect(clippy::module_inception, reason = "the zone itself is the noun of its file")]
mod zone;

pub use budget::Budget;
pub use extents::{EXTENT_FRAMES, Extent};
pub use fallback::FallbackCounts;
pub use free_area::{Block, ORDERS};
pub use give_back::Whole;
pub(crate) use grow::Urgency;
pub use validate::StateCensus;
pub use watermark::{Mark, Marks};
pub use zone::{Traffic, Zone, ZoneStats, largest_blocks};

use crate::frame::{
    FrameState, MAX_NODES, Memory, MigrateType, NodeId, Order, OsArray, PAGEBLOCK_FRAMES, Pfn,
};
use quarry_sys::os::{Os, OsResult};

/// What is asked of a zone.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Size of the blocks.
    pub order: Order,
    /// What they will hold.
    pub migratetype: MigrateType,
    /// Rights beyond the usual.
    pub flags: AllocFlags,
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

/// What a block becomes when it leaves the free lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Handed out.
    User,
    /// Put on a per-CPU list.
    Pcp,
}

impl Destination {
    fn state(self, order: Order, zeroed: bool) -> FrameState {
        match self {
            Self::User => FrameState::USED,
            Self::Pcp => FrameState::in_pcp(order, zeroed),
        }
    }
}

/// The zones of all nodes with the memory that they divide and the budget that they share.
pub struct Zones {
    memory: Memory,
    budget: Budget,
    zones: OsArray<Zone>,
    /// Row `n`: the nodes in the order in which requests for node `n` try them.
    fallback: [[NodeId; MAX_NODES]; MAX_NODES],
    nodes: u8,
}

/// How the zones are set up.
#[derive(Clone, Copy, Debug)]
pub struct ZoneConfig {
    /// Address space to reserve, in bytes.
    pub reserve_bytes: usize,
    /// Most frames in use at once.
    pub limit_frames: u32,
    /// Frames that each zone gets at the start.
    pub initial_frames: u32,
    /// Whether zones take more from the window on demand.
    pub grow: bool,
    /// Whether pageblocks that slabs will fill are huge pages.
    pub huge: bool,
    /// Number of nodes.
    pub nodes: u8,
    /// How far apart two nodes are; only the order of the values counts.
    pub distance: fn(NodeId, NodeId) -> u32,
}

impl Zones {
    /// Reserves memory and gives each zone its first frames.
    ///
    /// # Errors
    /// What the OS says.
    pub fn build(os: &'static dyn Os, config: &ZoneConfig) -> OsResult<Self> {
        assert!(
            (1..=MAX_NODES).contains(&usize::from(config.nodes)),
            "nodes are 1..=8, not {}",
            config.nodes
        );
        let zones = Self {
            memory: Memory::reserve(os, config.reserve_bytes)?,
            budget: Budget::new(config.limit_frames),
            zones: OsArray::filled(os, usize::from(config.nodes), |node| {
                Zone::new(NodeId(node as u8), config.grow, config.huge)
            })?,
            fallback: core::array::from_fn(|node| fallback_row(node as u8, config)),
            nodes: config.nodes,
        };
        if config.initial_frames > 0 {
            for zone in zones.all() {
                let pageblocks = config.initial_frames.div_ceil(PAGEBLOCK_FRAMES);
                let first = zones.memory.take_for_zone(pageblocks.next_multiple_of(2))?;
                zone.add_frames(&zones.memory, first, config.initial_frames);
            }
        }
        zones.refresh_marks();
        Ok(zones)
    }

    /// The window and its tables.
    #[inline]
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The budget that zones and mappings share.
    #[inline]
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The zone of a node.
    #[inline]
    #[must_use]
    pub fn zone(&self, node: NodeId) -> &Zone {
        self.zones.at(usize::from(node.0))
    }

    /// All zones, in the order of their nodes.
    pub fn all(&self) -> impl Iterator<Item = &Zone> {
        (0..self.zones.len()).map(|node| self.zones.at(node))
    }

    /// The nodes in the order in which requests for `node` try them: itself, then by distance.
    pub fn fallback_order(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.fallback[usize::from(node.0)][..usize::from(self.nodes)].iter().copied()
    }

    /// Takes up to `count` blocks from one node in one critical section, and gives each to `give`
    /// with the lock held. Returns how many. Watermarks are the caller's to test.
    #[inline]
    pub fn take(
        &self,
        node: NodeId,
        ask: &Ask,
        count: u32,
        destination: Destination,
        give: impl FnMut(Pfn, bool),
    ) -> u32 {
        let charged = self.budget.charge_blocks(count, ask.order.frames());
        if charged == 0 {
            return 0;
        }
        let taken = self.zone(node).take(&self.memory, ask, charged, destination, give);
        if taken < charged {
            self.budget.uncharge((charged - taken) * ask.order.frames());
        }
        taken
    }

    /// Puts blocks of one node back in one critical section.
    #[inline]
    pub fn put(&self, node: NodeId, blocks: impl Iterator<Item = Block>) {
        let frames = self.zone(node).put(&self.memory, blocks);
        self.budget.uncharge(frames);
    }

    /// Computes all watermarks anew: the total has changed.
    fn refresh_marks(&self) {
        let total = self.all().map(Zone::managed).sum();
        for zone in self.all() {
            zone.marks.set(Marks::of(zone.managed(), total));
        }
    }
}

/// The nodes by their distance from `node`; where two are equally far, the next one up comes first,
/// so that not all nodes lean on the same one.
fn fallback_row(node: u8, config: &ZoneConfig) -> [NodeId; MAX_NODES] {
    let mut row: [NodeId; MAX_NODES] = core::array::from_fn(|other| NodeId(other as u8));
    let nodes = config.nodes;
    if node < nodes {
        row[..usize::from(nodes)].sort_unstable_by_key(|other| {
            let around = (other.0 + nodes - node) % nodes;
            (*other != NodeId(node), (config.distance)(NodeId(node), *other), around)
        });
    }
    row
}
