//! Rows of the tables.

use crate::field::section;
use crate::name::Name;

/// Number of orders of blocks: 0 to 10.
pub(crate) const ORDERS: usize = 11;
/// Number of migratetypes: unmovable, movable, reclaimable, high-order atomic.
pub(crate) const MIGRATE_TYPES: usize = 4;

section! {
    /// A slab cache that has had a slab.
    ///
    /// Equations, unless counts change while they are read:
    /// * objects that the program has = `active_objects - parked_objects` = allocations - frees
    /// * `partial_slabs <= active_slabs <= total_slabs <= slabs_allocated`
    pub struct CacheRow {
        /// The cache's name, as in `slabinfo`.
        pub name: Name,
        /// Usable bytes of an object.
        pub object_bytes: u32,
        /// Bytes from one object to the next.
        pub stride: u32,
        /// Objects per slab.
        pub slab_objects: u32,
        /// Frames per slab.
        pub slab_frames: u32,
        /// Objects in use or parked.
        pub active_objects: u64,
        /// Objects in all slabs.
        pub total_objects: u64,
        /// Objects in arrays of CPUs and in barns.
        pub parked_objects: u64,
        /// Slabs with at least one object in use or parked.
        pub active_slabs: u64,
        /// Slabs that the cache has.
        pub total_slabs: u64,
        /// Slabs on partial lists.
        pub partial_slabs: u64,
        /// Allocations by the fast path.
        pub alloc_fast: u64,
        /// Allocations by the slow path.
        pub alloc_slow: u64,
        /// Frees by the fast path.
        pub free_fast: u64,
        /// Frees by the slow path.
        pub free_slow: u64,
        /// Slabs taken from the page allocator so far.
        pub slabs_allocated: u64,
        /// Times that a CPU took back the objects that other CPUs had freed into its slab.
        pub refills: u64,
        /// Times that a CPU gave up its slab because it was used up.
        pub deactivations: u64,
        /// Compare-and-swaps that failed because another thread was faster (`slub`).
        pub cmpxchg_fails: u64,
    }
}

impl CacheRow {
    /// Allocations so far.
    #[must_use]
    pub fn allocs(&self) -> u64 {
        self.alloc_fast.saturating_add(self.alloc_slow)
    }

    /// Frees so far.
    #[must_use]
    pub fn frees(&self) -> u64 {
        self.free_fast.saturating_add(self.free_slow)
    }

    /// Objects that the program has.
    #[must_use]
    pub fn live_objects(&self) -> u64 {
        self.active_objects.saturating_sub(self.parked_objects)
    }
}

section! {
    /// A zone; sizes are in frames.
    pub struct ZoneRow {
        /// The zone's NUMA node.
        pub node: u32,
        /// Frames that belong to the zone.
        pub managed: u32,
        /// Free frames.
        pub free: u32,
        /// Free frames that may still hold data.
        pub dirty: u32,
        /// Free frames in extents.
        pub in_extents: u32,
        /// Frames in pageblocks that are reserved for high-order atomic requests.
        pub high_atomic: u32,
        /// The min watermark, without the boost.
        pub min: u32,
        /// The low watermark, without the boost.
        pub low: u32,
        /// The high watermark, without the boost.
        pub high: u32,
        /// Frames by which the watermarks are raised at present.
        pub boost: u32,
        /// Free blocks by order and migratetype.
        pub free_blocks: [[u32; MIGRATE_TYPES]; ORDERS],
        /// Critical sections in which blocks were taken from the zone.
        pub taken_calls: u64,
        /// Blocks taken from the zone so far.
        pub taken_blocks: u64,
        /// Frames of the blocks taken from the zone so far.
        pub taken_frames: u64,
        /// Critical sections in which blocks were put back into the zone.
        pub put_calls: u64,
        /// Blocks put back into the zone so far.
        pub put_blocks: u64,
        /// Frames of the blocks put back into the zone so far.
        pub put_frames: u64,
        /// Whole pageblocks claimed for another migratetype.
        pub claimed: u64,
        /// Blocks stolen from another migratetype.
        pub stolen: u64,
    }
}

section! {
    /// The pcp lists of one CPU and node that hold or have held blocks; sizes are in frames.
    pub struct ListRow {
        /// The number of the CPU's slot.
        pub slot: u32,
        /// The NUMA node.
        pub node: u32,
        /// Frames on all lists of this CPU and node.
        pub count: u32,
        /// Maximum number of frames that the lists keep.
        pub high: u32,
        /// Frames that move between lists and zone at a time.
        pub batch: u32,
        /// Always 0.
        pub reserved: u32,
    }
}

section! {
    /// All locks of one kind.
    pub struct LockRow {
        /// The name of this kind.
        pub name: Name,
        /// How many such locks there are. Groups of CPUs that wait for each other get more.
        pub locks: u64,
        /// Times that a task took a lock of this kind.
        pub acquisitions: u64,
        /// Times that a task found a lock of this kind held.
        pub contentions: u64,
        /// Acquisitions whose hold time was measured.
        pub hold_samples: u64,
        /// Sum of the measured hold times, in nanoseconds.
        pub hold_ns: u64,
        /// Sum of the times that tasks waited for these locks, in nanoseconds.
        pub wait_ns: u64,
    }
}
