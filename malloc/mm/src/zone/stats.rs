//! Statistics of a zone, and the counts that it keeps for them under its lock.

use super::block::ORDERS;
use super::watermark::Marks;
use crate::frame::{MIGRATE_TYPES, NodeId};
use quarry_sys::lock::LockStats;

/// Calls and blocks in one direction: taken, or put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Critical sections of the zone's lock; each extent that is put back counts as one.
    pub calls: u64,
    /// Blocks and extents moved in them.
    pub blocks: u64,
    /// Frames of those blocks and extents.
    pub frames: u64,
}

impl Traffic {
    #[inline]
    pub(super) fn add(&mut self, blocks: u64, frames: u64) {
        self.calls += 1;
        self.blocks += blocks;
        self.frames += frames;
    }
}

/// Requests that were served from blocks of other migratetypes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FallbackCounts {
    /// Pageblocks claimed: they changed their type.
    pub claimed: u64,
    /// Blocks stolen: their pageblock kept its type.
    pub stolen: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) taken: Traffic,
    pub(super) put: Traffic,
    pub(super) fallbacks: FallbackCounts,
}

/// A snapshot of a zone, all of it from one hold of its lock.
#[derive(Clone, Debug)]
pub struct ZoneStats {
    /// Its node.
    pub node: NodeId,
    /// Frames that belong to the zone.
    pub managed: u32,
    /// Free frames, on free lists and in extents.
    pub free: u32,
    /// Free frames that are not known to be zero, which a purge can give back.
    pub dirty: u32,
    /// Free frames in extents.
    pub in_extents: u32,
    /// Frames of pageblocks reserved for high-order atomic requests.
    pub reserved_high_atomic: u32,
    /// Free blocks by order and migratetype: a row of `buddyinfo` is the sum over the types.
    pub nr_free: [[u32; MIGRATE_TYPES]; ORDERS],
    /// The watermarks without the boost.
    pub marks: Marks,
    /// Frames by which the marks are raised now.
    pub boost: u32,
    /// Blocks taken, both to be handed out and for pcp lists.
    pub taken: Traffic,
    /// Blocks put back.
    pub put: Traffic,
    /// Requests that were served from blocks of other migratetypes.
    pub fallbacks: FallbackCounts,
    /// Counters of the zone's lock.
    pub lock: LockStats,
}
