//! The zones of all nodes: the order in which requests try them, their shared budget, their growth.

use super::ask::{Ask, Destination};
use super::block::Block;
use super::budget::Budget;
use super::huge::{self, SEPARATED_FROM_FRAMES, asks_for_huge, fill_whole};
use super::watermark::Marks;
use super::zone::{Zone, ZoneRef};
use crate::frame::{
    Arena, FRAME_BYTES, Faults, FrameTable, Kind, KindSet, MAX_NODES, Memory, MigrateType, NodeId,
    OsArray, PAGEBLOCK_FRAMES, PageblockIndex, Pfn,
};
use quarry_sys::clock::coarse_ns;
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::SlotIndex;
use quarry_sys::primitive::Ordering::Relaxed;

/// The zones of all nodes, the memory that they divide, and the budget that they share.
pub struct Zones {
    memory: Memory,
    budget: Budget,
    zones: OsArray<Zone>,
    /// The kinds of frames that programs usually touch whole.
    touched_whole: KindSet,
    /// Row `n` holds the nodes in the order in which requests for node `n` try them.
    fallback: [[NodeId; MAX_NODES]; MAX_NODES],
    node_of_slot: fn(SlotIndex) -> NodeId,
    /// See [`ZoneConfig::huge`].
    huge: bool,
    /// See [`ZoneConfig::populate`].
    populate: bool,
}

/// The setup of the zones.
#[derive(Clone, Copy, Debug)]
pub struct ZoneConfig {
    /// Address space to reserve, in bytes.
    pub reserve_bytes: usize,
    /// The maximum number of frames in use at once.
    pub limit_frames: u32,
    /// Frames that each zone gets at the start.
    pub initial_frames: u32,
    /// True if zones take more pageblocks from the window on demand.
    pub grow: bool,
    /// True if pageblocks of slabs, cached pages and mappings may be huge pages.
    pub huge: bool,
    /// True if `Zones::populate` brings frames into memory; otherwise plain faults do.
    pub populate: bool,
    /// Number of nodes.
    pub nodes: u8,
    /// The node of a slot.
    pub node_of_slot: fn(SlotIndex) -> NodeId,
    /// The distance of two nodes; only comparisons of distances matter.
    pub distance: fn(NodeId, NodeId) -> u32,
}

impl Zones {
    /// Reserves memory and gives each zone its first frames. Fails if the OS refuses.
    pub fn build(os: &'static dyn Os, config: &ZoneConfig) -> OsResult<Self> {
        let nodes = usize::from(config.nodes);
        assert!((1..=MAX_NODES).contains(&nodes), "nodes are 1..=8, not {nodes}");
        // With larger pages a huge page has 32 or 512 MiB, and a pageblock would come in small.
        let huge = config.huge && os.page_size() == FRAME_BYTES;
        let zones = Self {
            memory: Memory::reserve(os, config.reserve_bytes)?,
            budget: Budget::new(config.limit_frames),
            zones: OsArray::filled(os, nodes, |node| {
                Zone::new(NodeId(node as u8), config.grow, huge)
            })?,
            touched_whole: KindSet::default(),
            fallback: core::array::from_fn(|node| fallback_row(node as u8, config)),
            node_of_slot: config.node_of_slot,
            huge,
            populate: config.populate,
        };
        if config.initial_frames > 0 {
            for zone in zones.all() {
                let pageblocks = config.initial_frames.div_ceil(PAGEBLOCK_FRAMES);
                let taken = zones.memory.take_for_zone(pageblocks.next_multiple_of(2))?;
                zones.of(zone.node()).add_frames(taken, config.initial_frames);
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

    /// The pageblocks of the window.
    #[inline]
    #[must_use]
    pub fn arena(&self) -> &Arena {
        self.memory.arena()
    }

    /// The descriptors of frames.
    #[inline]
    #[must_use]
    pub fn frames(&self) -> &FrameTable {
        self.memory.frames()
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

    /// The node of a slot.
    #[inline]
    #[must_use]
    pub fn node_of(&self, slot: SlotIndex) -> NodeId {
        (self.node_of_slot)(slot)
    }

    /// The way in which the kernel brings in fresh memory of a frame's pageblock.
    #[must_use]
    pub fn faults(&self, pfn: Pfn) -> Faults {
        self.memory.pageblocks().of(pfn).faults()
    }

    /// Notes whether programs usually touch the frames of a kind whole.
    pub(crate) fn note_touched(&self, kind: Kind, whole: bool) {
        self.touched_whole.set(kind, whole);
    }

    /// The migratetype of a slab of a kind. In a large zone, slabs that programs touch only in part
    /// get separate pageblocks, so that the pageblocks of all other slabs can be huge pages. O(1).
    #[must_use]
    pub(crate) fn slab_type(&self, node: NodeId, kind: Kind) -> MigrateType {
        let is_large = self.zone(node).managed() >= SEPARATED_FROM_FRAMES;
        match is_large && !self.touched_whole.has(kind) {
            true => MigrateType::Reclaimable,
            false => MigrateType::Unmovable,
        }
    }

    /// Notes that the page cache has taken a frame and will fill all of its pageblock. If hardly
    /// any frame there has an owner, the pageblock becomes a huge page. O(1); for one frame of 64,
    /// in a pageblock that is not huge, O(512) under the zone's lock.
    #[inline]
    pub fn fill_whole(&self, pfn: Pfn) {
        if self.huge
            && asks_for_huge(&self.memory, pfn)
            && let Some(node) = self.memory.pageblocks().of(pfn).tag().node()
        {
            let _guard = self.zone(node).look();
            fill_whole(&self.memory, pfn);
        }
    }

    /// Returns whether huge pages are wanted, and are cheap at present or due to be tried again.
    pub(crate) fn may_make_huge(&self) -> bool {
        self.huge && self.memory.prices().may_be_huge(coarse_ns())
    }

    /// Makes the pageblocks of a mapping huge pages, except those in memory already. O(`blocks`).
    pub(crate) fn make_huge(&self, first: PageblockIndex, blocks: u32) {
        huge::make(&self.memory, first, blocks, Faults::Huge);
    }

    #[inline]
    pub(super) fn of(&self, node: NodeId) -> ZoneRef<'_> {
        ZoneRef { zone: self.zone(node), memory: &self.memory }
    }

    /// All zones, in the order of their nodes.
    pub fn all(&self) -> impl Iterator<Item = &Zone> {
        (0..self.zones.len()).map(|node| self.zones.at(node))
    }

    /// The nodes in the order in which requests for `node` try them: itself, then by distance.
    pub fn fallback_order(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.fallback[usize::from(node.0)][..self.zones.len()].iter().copied()
    }

    /// Takes up to `count` blocks from one node in one critical section, and passes each to `give`
    /// under the lock. Returns how many. The caller tests watermarks.
    #[inline]
    pub fn take(
        &self,
        node: NodeId,
        ask: &Ask,
        count: u32,
        destination: Destination,
        mut give: impl FnMut(Pfn, bool),
    ) -> u32 {
        let charged = self.budget.charge_blocks(count, ask.order.frames());
        if charged == 0 {
            return 0;
        }
        let taken = self.of(node).take(ask, charged, destination, &mut give);
        if taken < charged {
            self.budget.uncharge((charged - taken) * ask.order.frames());
        }
        taken
    }

    /// Puts blocks of one node back in one critical section; returns how many.
    #[inline]
    pub fn put(&self, node: NodeId, mut blocks: impl Iterator<Item = Block>) -> u64 {
        let (count, frames) = self.of(node).put(&mut || blocks.next());
        self.budget.uncharge(frames);
        count
    }

    /// Returns whether a zone could not grow, and other zones may have pageblocks for it.
    pub(crate) fn is_crowded(&self) -> bool {
        self.zones.len() > 1 && self.all().any(|zone| zone.grows && !zone.can_grow())
    }

    /// Brings frames of one pageblock into memory by one call, or the whole pageblock if it comes
    /// in as a huge page. If the system or the setup refuses, page faults bring them in later.
    pub fn populate(&self, first: Pfn, frames: u32) {
        if self.populate {
            huge::populate(&self.memory, first, frames);
        }
    }

    /// Visits the locks of all zones and of the arena.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        self.all().for_each(|zone| zone.visit_locks(visit));
        self.arena().visit_locks(visit);
    }

    pub(super) fn refresh_marks(&self) {
        let total = self.all().map(Zone::managed).sum();
        for zone in self.all() {
            zone.marks.base.set(Marks::of(zone.managed(), total), Relaxed);
        }
    }
}

/// The nodes by distance. Among nodes at the same distance the next higher number comes first, so
/// that nodes do not all prefer the same one.
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
