//! Checks of every equation of the zone layer. Slow; for tests and `--check` runs.

use super::buddy::may_merge;
use super::zone::ZoneRef;
use super::zones::Zones;
use crate::frame::{
    FrameState, Memory, MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, PageblockIndex, Pfn,
};
use quarry_sys::broken::{Broken, Check};

/// Frames of a zone: as its pageblocks count them, and as the states of the frames show them.
#[derive(Clone, Copy, Debug, Default)]
struct Census {
    free: u32,
    dirty: u32,
    in_extents: u32,
    in_pcp: u32,
    reserved: u32,
}

impl Zones {
    /// Number of frames in one node's blocks on pcp lists, found by the frames' states. O(frames).
    #[must_use]
    pub fn frames_in_pcp(&self, node: NodeId) -> u32 {
        let pfns = self.of(node).pageblocks().flat_map(PageblockIndex::frames);
        let states = pfns.map(|pfn| self.frames().state(pfn));
        states.filter(|state| state.is_in_pcp()).map(|state| state.order().frames()).sum()
    }

    /// Checks the equations of all zones: lists against counts, and counts against states. Returns
    /// the first broken one. O(frames). No other thread may move blocks to or from pcp lists.
    pub fn validate(&self) -> Result<(), Broken> {
        self.all().try_for_each(|zone| self.of(zone.node()).validate())
    }
}

impl ZoneRef<'_> {
    fn validate(self) -> Result<(), Broken> {
        let (state, memory, zone) = (self.zone.look(), self.memory, Check::of("zone"));
        state.areas.validate(memory)?;
        state.extents.validate(memory)?;
        let mut census = Census::default();
        for index in self.pageblocks() {
            count_pageblock(memory, index, &mut census)?;
        }
        let (areas, extents) = (&state.areas, &state.extents);
        let (free, dirty) = (areas.free() + extents.free(), areas.dirty() + extents.dirty());
        for (one, other, equation) in [
            (census.free, areas.free(), "frames free by state = frames listed"),
            (census.dirty, areas.dirty(), "dirty frames of pageblocks = dirty frames listed"),
            (census.reserved, self.reserved_high_atomic(), "frames of HighAtomic = reserved"),
            (census.in_extents, extents.free(), "bits of all pageblocks = frames of extents"),
            (self.free(), free, "the published free count = frames listed and of extents"),
            (self.dirty(), dirty, "the published dirty count = dirty frames of both"),
        ] {
            zone.equal(one, other, equation)?;
        }
        zone.that(free + census.in_pcp <= self.managed(), "free + in_pcp <= managed")
    }

    fn pageblocks(self) -> impl Iterator<Item = PageblockIndex> {
        let (pageblocks, node) = (self.memory.pageblocks(), Some(self.node()));
        let all = (0..pageblocks.count()).map(PageblockIndex);
        all.filter(move |index| pageblocks.at(*index).tag().node() == node)
    }
}

fn count_pageblock(
    memory: &Memory,
    index: PageblockIndex,
    census: &mut Census,
) -> Result<(), Broken> {
    let (pageblock, this) = (memory.pageblocks().at(index), Check::of("pageblock").at(index.0));
    let (mut free, mut dirty, mut singles) = (0, 0, 0);
    let (extents, dirty_extents) = (pageblock.extents(), pageblock.dirty_extents());
    for (offset, pfn) in (0..).zip(index.frames()) {
        let (state, frame) = (memory.frames().state(pfn), Check::of("frame").at(pfn.0));
        let is_kept = extents.count_in(offset, 1) == 1;
        let is_dirty = dirty_extents.count_in(offset, 1) == 1;
        let is_single = state.is_buddy(Order::ZERO);
        frame.that(is_kept || !is_dirty, "a dirty frame of an extent is kept")?;
        frame.that(pageblock.is_single(offset) == is_single, "bit of single = state")?;
        singles += u32::from(is_single);
        if is_kept {
            frame.that(state == FrameState::USED, "state of a frame kept as an extent = USED")?;
            frame.that(pageblock.is_movable(offset), "a frame kept as an extent is movable")?;
        }
        if state.is_in_zone() {
            frame.that(
                !should_have_merged(memory, pfn),
                "a block and its buddy are not both free",
            )?;
            free += state.order().frames();
            dirty += if state.is_zeroed() { 0 } else { state.order().frames() };
        } else if state.is_in_pcp() {
            census.in_pcp += state.order().frames();
        }
    }
    this.equal(pageblock.nr_singles(), singles, "nr_singles = |singles(b)|")?;
    this.equal(pageblock.free(), free, "free = frames of free blocks that start in it")?;
    this.equal(pageblock.dirty(), dirty, "dirty = those not known to be zero")?;
    census.free += free;
    census.dirty += dirty;
    census.in_extents += if pageblock.shelf().is_some() { 0 } else { extents.count() };
    let is_reserved = pageblock.migratetype() == MigrateType::HighAtomic;
    census.reserved += if is_reserved { PAGEBLOCK_FRAMES } else { 0 };
    Ok(())
}

/// Returns whether the buddy of a free block is free too, and of a type with which it may merge.
fn should_have_merged(memory: &Memory, pfn: Pfn) -> bool {
    let order = memory.frames().state(pfn).order();
    if order == Order::MAX {
        return false;
    }
    let buddy = pfn.buddy(order);
    let tag = |pfn| memory.pageblocks().of(pfn).tag();
    let alike = tag(pfn) == tag(buddy) || may_merge(tag(pfn), tag(buddy));
    memory.frames().state(buddy).is_buddy(order) && alike
}
