//! Statistics of a zone.

use super::block::ORDERS;
use super::counts::{FallbackCounts, Traffic};
use super::watermark::Marks;
use super::zone::Zone;
use crate::frame::{MIGRATE_TYPES, MigrateType, NodeId, Order};
use quarry_sys::lock::LockStats;

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

impl Zone {
    /// A consistent snapshot. Takes the lock; O(lists).
    #[must_use]
    pub fn stats(&self) -> ZoneStats {
        let state = self.look();
        let (areas, extents, counts) = (&state.areas, &state.extents, &state.counts);
        ZoneStats {
            node: self.node(),
            managed: self.managed(),
            free: areas.free() + extents.free(),
            dirty: areas.dirty() + extents.dirty(),
            in_extents: extents.free(),
            reserved_high_atomic: self.reserved_high_atomic(),
            nr_free: core::array::from_fn(|order| {
                MigrateType::ALL.map(|of| areas.nr(Order::new(order as u8), of))
            }),
            marks: self.marks(),
            boost: self.marks.boost(),
            taken: counts.taken,
            put: counts.put,
            fallbacks: counts.fallbacks,
            lock: self.lock_stats(),
        }
    }
}
