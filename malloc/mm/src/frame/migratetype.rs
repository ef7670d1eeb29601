//! Migratetypes, by which pageblocks are grouped, and nodes.

/// The use of a pageblock. Pageblocks are kept apart by use, so that long-lived blocks do not keep
/// other blocks from merging (`enum migratetype`, Linux 6.x, whose names and order these are).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MigrateType {
    /// Slabs: one live object keeps the whole slab from being freed.
    Unmovable = 0,
    /// Large allocations, which are freed whole, and cached pages.
    Movable = 1,
    /// Slabs of objects that programs touch only in part: their untouched pages can go back.
    Reclaimable = 2,
    /// Reserve for high-order atomic requests.
    HighAtomic = 3,
}

/// Migratetypes that the per-CPU lists tell apart (`MIGRATE_PCPTYPES`).
pub const PCP_TYPES: usize = 3;
/// All migratetypes.
pub const MIGRATE_TYPES: usize = 4;

impl MigrateType {
    /// All, in the kernel's order.
    pub const ALL: [Self; MIGRATE_TYPES] =
        [Self::Unmovable, Self::Movable, Self::Reclaimable, Self::HighAtomic];

    /// The migratetype as an index.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A NUMA node's number; each node has one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u8);

/// Maximum number of nodes that one stack can have.
pub const MAX_NODES: usize = 8;
