//! The sections of a record that are no tables: `About`, `Memory` and `Budget`.

use crate::field::section;
use crate::name::Name;

/// Bits of [`About::flags`].
pub mod flags {
    /// A background thread of Quarry gives memory back.
    pub const HAS_BACKGROUND: u64 = 1;
    /// The page cache has been used, so its events have values.
    pub const HAS_PAGE_CACHE: u64 = 1 << 1;
    /// The budget has a limit.
    pub const HAS_LIMIT: u64 = 1 << 2;
    /// The process made this publication at its exit.
    pub const IS_LAST: u64 = 1 << 3;
    /// The process is a forked child of the one that made the page.
    pub const IS_CHILD: u64 = 1 << 4;
}

section! {
    /// The build of Quarry in the process, and the numbers of rows.
    pub struct About {
        /// Quarry's version.
        pub quarry: Name,
        /// Slab policy, as `QUARRY_SLAB` spells it.
        pub slab: Name,
        /// Page policy, by its name in the registry.
        pub pages: Name,
        /// LRU policy, by its name in the registry.
        pub lru: Name,
        /// The backend of the fast path: `sequences` or `locked slots`.
        pub backend: Name,
        /// See [`flags`].
        pub flags: u64,
        /// CPUs that the stack was declared to have.
        pub cpus: u32,
        /// Slots in which arrays have room.
        pub slots_awake: u32,
        /// NUMA nodes.
        pub nodes: u32,
        /// Bytes per frame.
        pub frame_bytes: u32,
        /// Rows in the table of caches.
        pub caches: u32,
        /// Caches that do not fit; the table's last row has their sums.
        pub caches_beyond: u32,
        /// Rows in the table of zones.
        pub zones: u32,
        /// Zones that do not fit; they are missing.
        pub zones_beyond: u32,
        /// Rows in the table of pcp lists.
        pub lists: u32,
        /// Rows of pcp lists that do not fit; only [`Memory::page_lists`] includes them.
        pub lists_beyond: u32,
        /// Rows in the table of kinds of locks.
        pub locks: u32,
        /// Kinds of locks that do not fit; the table's last row has their sums.
        pub locks_beyond: u32,
    }
}

section! {
    /// Uses of the heap's memory. Fields are in bytes, unless their text says "Number of".
    ///
    /// Equation, unless sizes change while read: memory that may be resident, except descriptors,
    /// is the sum of the fields `objects` to `mappings_cached` without `free_zero` and `withheld`.
    pub struct Memory {
        /// Objects of slabs that the program uses: *live*, as are `blocks` and `mappings`.
        pub objects: u64,
        /// Objects in arrays of CPUs and in barns: *parked*.
        pub parked: u64,
        /// Free objects in slabs that also have objects in use.
        pub free_in_slabs: u64,
        /// Objects in slabs that have no object in use.
        pub empty_slabs: u64,
        /// Bytes of slabs outside of objects.
        pub around_objects: u64,
        /// Blocks of pages in use.
        pub blocks: u64,
        /// Pages of the page cache.
        pub page_cache: u64,
        /// Freed blocks that the program can no longer access and that have no memory.
        pub withheld: u64,
        /// Blocks on pcp lists.
        pub page_lists: u64,
        /// Free memory of the zones that may still hold data: *dirty*, as is `mappings_cached`.
        pub free_dirty: u64,
        /// Free memory of the zones that reads as zero: *returned*, or never touched.
        pub free_zero: u64,
        /// The part of mappings in use that is charged to the budget.
        pub mappings: u64,
        /// Freed mappings that keep their memory for later requests.
        pub mappings_cached: u64,
        /// Descriptors: sheaves in barns.
        pub metadata_sheaves: u64,
        /// Descriptors of slabs that do not fit into the frame table.
        pub metadata_slab_headers: u64,
        /// Data of slab policies for each cache and CPU, and for each cache and node.
        pub metadata_cpu_slabs: u64,
        /// Descriptors of cached pages.
        pub metadata_cached_pages: u64,
        /// Other descriptors.
        pub metadata_other: u64,
        /// Address space of zones and mappings.
        pub address_space: u64,
        /// Memory of the zones, in use or free, and of cached mappings.
        pub arena: u64,
        /// The part of `arena` in use: objects, blocks and cached pages.
        pub used: u64,
        /// The part of `arena` that is free.
        pub free: u64,
        /// Number of free objects in slabs, parked ones included.
        pub free_objects: u64,
        /// Number of parked objects.
        pub parked_objects: u64,
        /// Number of live mappings.
        pub live_mappings: u64,
        /// Bytes for which the arrays of CPUs have room.
        pub slots_room: u64,
        /// Bytes of the objects in these arrays.
        pub slots_held: u64,
    }
}

section! {
    /// The budget, in bytes; see `docs/budget.md`.
    pub struct Budget {
        /// The limit; `u64::MAX` without one.
        pub limit: u64,
        /// The min mark, in free bytes below the limit; 0 without a limit.
        pub min: u64,
        /// The low mark, in free bytes below the limit; 0 without a limit.
        pub low: u64,
        /// The high mark, in free bytes below the limit; 0 without a limit.
        pub high: u64,
        /// Bytes outside the free lists of the zones.
        pub used: u64,
        /// Bytes that requests can probably get before one is refused; `u64::MAX` without a limit.
        pub available: u64,
        /// Pages of the page cache.
        pub file: u64,
        /// Dirty pages of the page cache.
        pub dirty: u64,
        /// Pages of the page cache under writeback.
        pub writeback: u64,
        /// Pages of the page cache that reclaim must not take.
        pub pinned: u64,
        /// Objects, slabs and mappings that Quarry keeps for later requests.
        pub slab_reclaimable: u64,
        /// Bytes that shrinkers reported as freeable when they were last asked.
        pub shrinkable: u64,
        /// Slabs that have objects in use.
        pub slab_unreclaimable: u64,
        /// Shortage of memory: 0 none, then low, medium and critical as in `docs/budget.md`.
        pub pressure: u64,
    }
}
