//! Giving back: a zone returns wholly free pageblocks to the window, because a mapping or another
//! zone needs them, or because they have been free for some time.
//!
//! A pageblock that was given back is in no zone, and free in the window again. All its frames have
//! the state `USED`, and no frame is in an extent.

use super::block::{Block, ORDERS};
use super::zone::{Locked, ZoneRef};
use super::zones::Zones;
use crate::frame::{MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, PCP_TYPES, PageblockTag, Pfn};

/// A choice among the wholly free pageblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// All of them, including those that become wholly free when extents are flushed.
    Any,
    /// Those that may hold old data.
    Dirty,
    /// Those known to be zero, as long as all wholly free ones together exceed this many frames.
    CleanBeyond(u32),
}

impl Zones {
    /// Gives back every wholly free pageblock of zones that grow; returns the bytes. O(pageblocks
    /// given back); holds no zone's lock while it calls the operating system.
    pub fn give_back(&self) -> usize {
        self.all().map(|zone| self.give_back_of(zone.node(), Whole::Any, usize::MAX)).sum()
    }

    /// Gives back about `most_bytes` of the chosen pageblocks of a node; returns the bytes.
    pub(crate) fn give_back_of(&self, node: NodeId, which: Whole, most_bytes: usize) -> usize {
        let (zone, mut given) = (self.of(node), 0);
        if !zone.grows {
            return given;
        }
        // A request takes this lock before it fails, to wait for blocks that are off the lists.
        let purging = zone.purging.lock();
        if which == Whole::Any {
            // A pageblock may be free in part as extents and in part as blocks.
            zone.flush_extents();
        }
        while given < most_bytes
            && let Some(block) = zone.isolate_whole(which)
        {
            zone.let_go(block);
            self.memory().give_back(block.pfn.pageblock(), block.order.frames() / PAGEBLOCK_FRAMES);
            given += block.order.bytes();
        }
        drop(purging);
        if given > 0 {
            self.refresh_marks();
        }
        given
    }
}

impl ZoneRef<'_> {
    fn isolate_whole(self, which: Whole) -> Option<Block> {
        let mut locked = self.lock();
        let (pfn, order, of) = locked.find_whole(which)?;
        let zeroed = locked.take_off(pfn, order, of);
        Some(Block { pfn, order, zeroed })
    }

    /// Removes the pageblocks that a free block fills from the zone.
    fn let_go(self, block: Block) {
        let frames = block.order.frames();
        let mut locked = self.lock();
        for offset in (0..frames).step_by(PAGEBLOCK_FRAMES as usize) {
            self.memory.pageblocks().of(block.pfn.plus(offset)).set_tag(PageblockTag::NONE);
        }
        locked.lose(frames);
    }
}

impl Locked<'_> {
    fn find_whole(&self, which: Whole) -> Option<(Pfn, Order, MigrateType)> {
        let (memory, areas) = (self.memory, &self.state.areas);
        let orders =
            || (Order::PAGEBLOCK.index()..ORDERS).rev().map(|order| Order::new(order as u8));
        let lists = || {
            let types = || MigrateType::ALL[..PCP_TYPES].iter().copied();
            orders().flat_map(move |order| types().map(move |of| (order, of)))
        };
        if let Whole::CleanBeyond(kept) = which {
            let whole: u32 = lists().map(|(order, of)| areas.nr(order, of) * order.frames()).sum();
            if whole <= kept {
                return None;
            }
        }
        // A purge puts blocks that it has made zero at the tail of their list.
        let is_zeroed = |pfn: Pfn| memory.frames().state(pfn).is_zeroed();
        let block_of = |order, of| match which {
            Whole::Any => areas.first(memory, order, of),
            Whole::Dirty => areas.first(memory, order, of).filter(|pfn| !is_zeroed(*pfn)),
            Whole::CleanBeyond(_) => areas.last(order, of).filter(|pfn| is_zeroed(*pfn)),
        };
        lists().find_map(|(order, of)| Some((block_of(order, of)?, order, of)))
    }
}
