//! Zones: the buddy allocator of one NUMA node, under one counted lock.
#![deny(unsafe_code)]

mod buddy;
mod budget;
mod free_area;
mod validate;
#[expect(clippy::module_inception, reason = "the zone itself is the noun of its file")]
mod zone;

pub use budget::Budget;
pub use free_area::{Block, ORDERS};
pub use validate::StateCensus;
pub use zone::Zone;

use crate::frame::{
    FrameState, MAX_NODES, Memory, MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, Pfn,
};
use quarry_sys::os::{Os, OsResult};

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
    zones: [Zone; MAX_NODES],
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
    /// Whether zones take more from the reservation on demand.
    pub grow: bool,
    /// Number of nodes.
    pub nodes: u8,
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
            zones: core::array::from_fn(|node| Zone::new(NodeId(node as u8), config.grow)),
            nodes: config.nodes,
        };
        if config.initial_frames > 0 {
            for zone in zones.all() {
                let pageblocks = config.initial_frames.div_ceil(PAGEBLOCK_FRAMES);
                let first = zones.memory.take_for_zone(pageblocks.next_multiple_of(2))?;
                zone.add_frames(&zones.memory, first, config.initial_frames);
            }
        }
        Ok(zones)
    }

    /// The reservation and its tables.
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
        &self.zones[usize::from(node.0)]
    }

    /// All zones, in the order of their nodes.
    pub fn all(&self) -> impl Iterator<Item = &Zone> {
        self.zones[..usize::from(self.nodes)].iter()
    }

    /// Takes up to `count` blocks from one node in one critical section, and gives each to `give`
    /// with the lock held. Returns how many.
    pub fn take(
        &self,
        node: NodeId,
        order: Order,
        of: MigrateType,
        count: u32,
        destination: Destination,
        mut give: impl FnMut(Pfn, bool),
    ) -> u32 {
        let charged = self.budget.charge_blocks(count, order.frames());
        let zone = self.zone(node);
        let mut taken = 0;
        while taken < charged {
            taken += zone.take(&self.memory, order, of, charged - taken, destination, &mut give);
            if taken == charged || !zone.grow(&self.memory, &self.budget, order) {
                break;
            }
        }
        if taken < charged {
            self.budget.uncharge((charged - taken) * order.frames());
        }
        taken
    }

    /// Puts blocks of one node back in one critical section.
    pub fn put(&self, node: NodeId, blocks: impl Iterator<Item = Block>) {
        let frames = self.zone(node).put(&self.memory, blocks);
        self.budget.uncharge(frames);
    }
}
