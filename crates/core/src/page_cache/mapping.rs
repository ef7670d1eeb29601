//! A mapping: the cached pages of one file or database (the kernel's `address_space`).

use crate::frame::Order;
use crate::slab::CacheId;

/// The name of a mapping: its number, and how often that number has been given before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MappingId {
    /// Place in the table of mappings; never 0.
    pub number: u32,
    /// How often this number was another mapping's.
    pub generation: u32,
}

/// What is said of a mapping when it is created.
#[derive(Clone, Copy, Debug, Default)]
pub struct MappingOptions {
    /// Each page has `4 KiB << order`.
    pub order: Order,
    /// The group that its pages are charged to.
    pub group: u8,
    /// No reclaim takes its pages (in-memory databases).
    pub is_unevictable: bool,
    /// The cache of the objects whose addresses its pages have in their private words; they are
    /// freed with their pages.
    pub private: Option<CacheId>,
    /// A word for whoever owns the mapping.
    pub owner: u64,
}
