//! The zones of all nodes: the order in which requests try them, their shared budget, their growth.

use super::ask::{AllocFlags, Ask, Destination};
use super::block::Block;
use super::budget::Budget;
use super::extents::{EXTENT_FRAMES, Extent};
use super::give_back::Whole;
use super::grow::Urgency;
use super::huge::{self, SEPARATED_FROM_FRAMES, asks_for_huge, fill_whole};
use super::purge::purge_extent;
use super::watermark::{Mark, Marks};
use super::zone::{Zone, ZoneRef};
use crate::frame::{
    Arena, FRAME_BYTES, Faults, FrameTable, Kind, KindSet, MAX_NODES, Memory, MigrateType, NodeId,
    Order, OsArray, PAGEBLOCK_FRAMES, PageblockIndex, Pfn,
};
use quarry_sys::broken::Broken;
use quarry_sys::clock::coarse_ns;
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::own_stack;
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
    nodes: u8,
    node_of_slot: fn(SlotIndex) -> NodeId,
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
            touched_whole: KindSet::new(),
            fallback: core::array::from_fn(|node| fallback_row(node as u8, config)),
            nodes: config.nodes,
            node_of_slot: config.node_of_slot,
            populate: config.populate,
        };
        if config.initial_frames > 0 {
            for zone in zones.all() {
                let pageblocks = config.initial_frames.div_ceil(PAGEBLOCK_FRAMES);
                let first = zones.memory.take_for_zone(pageblocks.next_multiple_of(2))?;
                zones.of(zone.node()).add_frames(first, config.initial_frames);
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
        if asks_for_huge(&self.memory, pfn)
            && let Some(node) = self.memory.pageblocks().of(pfn).tag().node()
            && self.zone(node).asks_for_huge()
        {
            let _guard = self.zone(node).look();
            fill_whole(&self.memory, pfn);
        }
    }

    /// Returns whether huge pages are wanted, and are cheap at present or due to be tried again.
    pub(crate) fn may_make_huge(&self) -> bool {
        self.zone(NodeId(0)).asks_for_huge() && self.memory.prices().may_be_huge(coarse_ns())
    }

    /// Makes the pageblocks of a mapping huge pages, except those in memory already. O(`blocks`).
    pub(crate) fn make_huge(&self, first: PageblockIndex, blocks: u32) {
        huge::make(&self.memory, first, blocks);
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
        self.fallback[usize::from(node.0)][..usize::from(self.nodes)].iter().copied()
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

    /// Takes `count` frames (a number in [`EXTENT_FRAMES`]) at a multiple of `align` (below the
    /// order of a pageblock) from one node, in one critical section. Returns `None` if no extent is
    /// long enough, and making one would take the zone below its low mark. O(pageblocks that it
    /// examines), and their number is bounded.
    pub(crate) fn take_extent(&self, node: NodeId, count: u32, align: Order) -> Option<Extent> {
        debug_assert!(EXTENT_FRAMES.contains(&count) && align < Order::PAGEBLOCK);
        self.charged(count, || self.of(node).take_extent(count, align))
    }

    /// Same as [`take_extent`](Self::take_extent), but only from a free extent of at least `2 *
    /// count` frames; the `count` frames after the taken ones stay free for growth.
    pub(crate) fn take_extent_with_room(&self, node: NodeId, count: u32) -> Option<Extent> {
        debug_assert!(EXTENT_FRAMES.contains(&count));
        self.charged(count, || self.of(node).take_extent_with_room(count))
    }

    /// Takes the `count` frames from `pfn` on, all of one pageblock of the node, in one critical
    /// section, if all are free in extents. This lets an allocation that ends at `pfn` grow.
    pub(crate) fn take_extent_at(&self, node: NodeId, pfn: Pfn, count: u32) -> bool {
        debug_assert!(pfn.0 % PAGEBLOCK_FRAMES + count <= PAGEBLOCK_FRAMES);
        let take = || self.of(node).take_extent_at(pfn, count).then_some(());
        self.charged(count, take).is_some()
    }

    fn charged<T>(&self, count: u32, take: impl FnOnce() -> Option<T>) -> Option<T> {
        if self.budget.charge_blocks(1, count) == 0 {
            return None;
        }
        let taken = take();
        if taken.is_none() {
            self.budget.uncharge(count);
        }
        taken
    }

    pub(crate) fn put_extent(&self, node: NodeId, pfn: Pfn, count: u32) {
        self.put_extents(node, core::iter::once((pfn, count)));
    }

    pub(crate) fn put_extents(&self, node: NodeId, extents: impl Iterator<Item = (Pfn, u32)>) {
        let frames = self.of(node).put_extents(extents);
        self.budget.uncharge(frames);
    }

    /// Turns all extents into free blocks.
    pub(crate) fn flush_extents(&self) {
        self.all().for_each(|zone| self.of(zone.node()).flush_extents());
    }

    /// Flushes extents until the zone has a block of `order` above its low mark. Returns whether it
    /// has one now.
    pub(crate) fn flush_extents_for(&self, node: NodeId, order: Order) -> bool {
        let zone = self.of(node);
        while !zone.watermark_ok(order, Mark::Low, AllocFlags::default()) {
            if !zone.flush_longest() {
                return false;
            }
        }
        true
    }

    /// Adds pageblocks of the window to the zone of `node` until `ask` can be served above the low
    /// mark. Returns whether it can now. Holds no zone's lock while it calls the operating system.
    pub(crate) fn grow(&self, node: NodeId, ask: &Ask, urgency: Urgency) -> bool {
        let zone = self.of(node);
        if !zone.grows() {
            return false;
        }
        let mut steps = zone.zone.steps.lock();
        let arena = self.arena();
        // Another thread may have grown the zone meanwhile. A block of order 10 may need two steps.
        while !zone.watermark_ok(ask.order, Mark::Low, ask.flags) {
            if urgency == Urgency::Low && steps.is_refused(arena.pageblocks_taken()) {
                return false;
            }
            // A switch to another call stack costs little compared with the system calls of growth.
            if !own_stack::run(|| zone.grow_once(&self.budget, &mut steps)) {
                steps.refused(arena.pageblocks_taken());
                zone.stuck.store(true, Relaxed);
                return false;
            }
            zone.stuck.store(false, Relaxed);
            zone.set_below_high(false);
            self.refresh_marks();
        }
        true
    }

    /// Gives back every wholly free pageblock of zones that grow; returns the bytes. O(pageblocks
    /// given back); holds no zone's lock while it calls the operating system.
    pub fn give_back(&self) -> usize {
        self.all().map(|zone| self.give_back_of(zone.node(), Whole::Any, usize::MAX)).sum()
    }

    /// Gives back about `most_bytes` of the chosen pageblocks of a node; returns the bytes.
    pub(crate) fn give_back_of(&self, node: NodeId, which: Whole, most_bytes: usize) -> usize {
        let given = self.of(node).give_back(which, most_bytes);
        if given > 0 {
            self.refresh_marks();
        }
        given
    }

    /// Returns whether a zone could not grow, and other zones may have pageblocks for it.
    pub(crate) fn is_crowded(&self) -> bool {
        self.nodes > 1 && self.all().any(|zone| zone.grows() && zone.stuck.load(Relaxed))
    }

    /// Purges the free blocks and extents of one node that have at least the order `smallest` and
    /// may hold data, until about `most_bytes` are given back. Returns the bytes. O(pageblocks +
    /// blocks); holds the zone's lock for at most 64 blocks, or one pageblock's extents, at a time.
    ///
    /// Memory that the system refuses to purge (locked memory, before Linux 5.18) stays dirty.
    /// After many refusals a purge with a bound `most_bytes` ends; the next begins where it ended.
    pub fn purge(&self, node: NodeId, smallest: Order, most_bytes: usize) -> usize {
        self.of(node).purge(smallest, most_bytes)
    }

    /// Bytes of free memory that may hold data. O(nodes).
    pub(crate) fn dirty_bytes(&self) -> usize {
        self.all().map(|zone| zone.dirty() as usize * FRAME_BYTES).sum()
    }

    /// Purges all free memory that may hold data; returns the bytes given to the system.
    pub(crate) fn purge_all(&self) -> usize {
        let of = |node| {
            let whole = self.give_back_of(node, Whole::Dirty, usize::MAX);
            whole + self.purge(node, Order::ZERO, usize::MAX)
        };
        self.all().map(|zone| of(zone.node())).sum()
    }

    /// Purges frames of one pageblock for their owner, which has given up their contents.
    /// Afterwards they read as zero or are unchanged. Returns the bytes.
    pub(crate) fn purge_owned(&self, first: Pfn, frames: u32) -> usize {
        purge_extent(&self.memory, first, frames).bytes
    }

    /// Brings frames of one pageblock into memory by one call, or the whole pageblock if it comes
    /// in as a huge page. If the system or the setup refuses, page faults bring them in later.
    pub fn populate(&self, first: Pfn, frames: u32) {
        if self.populate {
            huge::populate(&self.memory, first, frames);
        }
    }

    /// After a high-order atomic request has got a block, puts the block's pageblocks into the
    /// reserve, unless 1 % of the zone is less than a pageblock or is reserved already.
    #[cold]
    #[inline(never)]
    pub fn reserve_high_atomic(&self, node: NodeId, pfn: Pfn, order: Order) {
        self.of(node).reserve_high_atomic(pfn, order);
    }

    /// Moves a reserved pageblock that has free memory out of the reserve, to the type `to`; the
    /// last one only if `force` is true. Returns whether a pageblock was moved.
    pub(crate) fn unreserve_high_atomic(&self, node: NodeId, to: MigrateType, force: bool) -> bool {
        self.of(node).unreserve_high_atomic(to, force)
    }

    /// Number of frames in one node's blocks on pcp lists, found by the frames' states. O(frames).
    #[must_use]
    pub fn frames_in_pcp(&self, node: NodeId) -> u32 {
        self.of(node).frames_in_pcp()
    }

    /// Visits the locks of all zones and of the arena.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        self.all().for_each(|zone| zone.visit_locks(visit));
        self.arena().visit_locks(visit);
    }

    /// Checks the equations of all zones: lists against counts, and counts against states. Returns
    /// the first broken one. O(frames). No other thread may move blocks to or from pcp lists.
    pub fn validate(&self) -> Result<(), Broken> {
        self.all().try_for_each(|zone| self.of(zone.node()).validate())
    }

    fn refresh_marks(&self) {
        let total = self.all().map(Zone::managed).sum();
        for zone in self.all() {
            zone.marks.set(Marks::of(zone.managed(), total));
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
