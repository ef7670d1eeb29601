//! The entry at one place of an index, and its leaf in a [tree of
//! words](quarry_sys::percpu::WordTree): `number << 3 | 1` for a page, `value << 3 | 5` for a
//! shadow entry (a value entry of `include/linux/xarray.h`, Linux 6.12).

use crate::lru::PageNo;
use quarry_sys::percpu::WordTree;

/// Number of bits in the value of a shadow entry.
pub const SHADOW_BITS: u32 = 61;

const PAGE: u64 = WordTree::IS_LEAF;
const SHADOW: u64 = WordTree::IS_LEAF | 4;
const KIND: u64 = 7;
const KIND_BITS: u32 = 3;

/// One place of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Entry {
    /// Nothing.
    #[default]
    Empty,
    /// A cached page.
    Page(PageNo),
    /// An evicted page: the value that [`workingset`](crate::page_cache::workingset) recorded,
    /// below `2^SHADOW_BITS`.
    Shadow(u64),
}

impl Entry {
    #[inline]
    pub(super) const fn word(self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Page(page) => (page.0 as u64) << KIND_BITS | PAGE,
            Self::Shadow(value) => {
                debug_assert!(value >> SHADOW_BITS == 0, "a shadow value has 61 bits");
                value << KIND_BITS | SHADOW
            }
        }
    }

    /// The entry that a word stands for; a word that is not a leaf counts as empty.
    #[inline(always)]
    pub(super) const fn from_word(word: u64) -> Self {
        match word & KIND {
            PAGE => Self::Page(PageNo((word >> KIND_BITS) as u32)),
            SHADOW => Self::Shadow(word >> KIND_BITS),
            _ => Self::Empty,
        }
    }

    /// The page, if the entry is one.
    #[inline(always)]
    #[must_use]
    pub const fn page(self) -> Option<PageNo> {
        match self {
            Self::Page(page) => Some(page),
            Self::Empty | Self::Shadow(_) => None,
        }
    }

    /// Returns whether this is a shadow entry.
    #[inline]
    #[must_use]
    pub const fn is_shadow(self) -> bool {
        matches!(self, Self::Shadow(_))
    }
}

#[inline(always)]
pub(super) const fn is_leaf(word: u64) -> bool {
    word & WordTree::IS_LEAF != 0
}

/// A mark of a page in its index, by which writeback finds the page without looking at others
/// (`PAGECACHE_TAG_DIRTY` and `PAGECACHE_TAG_WRITEBACK`, `include/linux/fs.h`, Linux 6.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// The page is dirty.
    Dirty = 0,
    /// The page is being written.
    Writeback = 1,
}

impl Tag {
    /// Both tags.
    pub const ALL: [Self; 2] = [Self::Dirty, Self::Writeback];
}
