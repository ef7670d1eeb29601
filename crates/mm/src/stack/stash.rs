//! The places where freed memory waits for the next request.

/// A place where freed memory waits for the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stash {
    /// Freed mappings, in the mapping cache. They cost the faults of a large request.
    Mappings,
    /// Objects in barns, which no CPU holds.
    Barns,
    /// The freed block that is out of the program's reach (see `withheld`).
    Withheld,
    /// Memory that the cache of the stack does not need.
    Cache,
    /// Objects in slots and barns, and empty slabs, of all caches.
    Slabs,
    /// Blocks in the page lists of all CPUs.
    Lists,
    /// Freed extents that zones have listed.
    Extents,
}

impl Stash {
    /// All of them, in the order of what it costs to have their memory again.
    pub const BY_PRICE: [Self; 7] = [
        Self::Mappings,
        Self::Barns,
        Self::Withheld,
        Self::Cache,
        Self::Slabs,
        Self::Lists,
        Self::Extents,
    ];

    /// Those that can give a part of what they hold: a request takes these first.
    pub const IN_PARTS: [Self; 2] = [Self::Mappings, Self::Barns];
}
