//! The places where freed memory waits for the next request.

/// A place where freed memory waits for the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stash {
    /// Freed mappings in the mapping cache. A large request that gets one saves its page faults.
    Mappings,
    /// Objects in barns.
    Barns,
    /// The withheld block (see `withheld.rs`).
    Withheld,
    /// Memory that the page cache does not need.
    Cache,
    /// Objects in slots and barns, and empty slabs, of all caches.
    Slabs,
    /// Blocks in the page lists of all CPUs.
    Lists,
    /// Freed extents that zones keep.
    Extents,
}

impl Stash {
    /// All stashes, in ascending order of what it costs to fill them again.
    pub const BY_PRICE: [Self; 7] = [
        Self::Mappings,
        Self::Barns,
        Self::Withheld,
        Self::Cache,
        Self::Slabs,
        Self::Lists,
        Self::Extents,
    ];

    /// The stashes that can give a part of their memory; requests take from these first.
    pub const IN_PARTS: [Self; 2] = [Self::Mappings, Self::Barns];
}
