//! Types for calls of the program: requests, the functions that take a pointer, and the ways in
//! which such a pointer can be wrong.

use crate::frame::{Order, Pfn};
use crate::slab::CacheId;
use core::fmt;

/// Alignment that every allocation has.
pub const MIN_ALIGN: usize = 16;

/// A request to [`Stack::alloc`](super::Stack::alloc): `Request::of(100).aligned(64).zeroed()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of bytes.
    pub size: usize,
    /// The least alignment, a power of two; a smaller one counts as [`MIN_ALIGN`].
    pub align: usize,
    /// True if all bytes must be 0. Memory that is known to be zero is not cleared again.
    pub zeroed: bool,
}

impl Request {
    /// A request for `size` bytes.
    #[inline(always)]
    #[must_use]
    pub const fn of(size: usize) -> Self {
        Self { size, align: MIN_ALIGN, zeroed: false }
    }

    /// The same request with this alignment, a power of two.
    #[inline(always)]
    #[must_use]
    pub const fn aligned(self, align: usize) -> Self {
        Self { align, ..self }
    }

    /// The same request, for memory whose bytes are all 0.
    #[inline(always)]
    #[must_use]
    pub const fn zeroed(self) -> Self {
        Self { zeroed: true, ..self }
    }

    /// Returns whether an object of any class serves the request, if it is large enough.
    #[inline(always)]
    pub(super) const fn is_plain(self) -> bool {
        self.align <= MIN_ALIGN && !self.zeroed
    }
}

impl From<usize> for Request {
    #[inline(always)]
    fn from(size: usize) -> Self {
        Self::of(size)
    }
}

/// The function to which the program passed a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// `free` and its relatives.
    Free,
    /// `realloc`.
    Realloc,
    /// `malloc_usable_size`.
    UsableSize,
    /// `operator delete` with a size.
    Delete,
    /// `free_sized`.
    FreeSized,
    /// `free_aligned_sized`.
    FreeAlignedSized,
    /// `quarry_cache_free` and its bulk form.
    CacheFree,
    /// `quarry_pages_free`.
    PagesFree,
}

impl fmt::Display for Entry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Free => "free",
            Self::Realloc => "realloc",
            Self::UsableSize => "malloc_usable_size",
            Self::Delete => "operator delete",
            Self::FreeSized => "free_sized",
            Self::FreeAlignedSized => "free_aligned_sized",
            Self::CacheFree => "quarry_cache_free",
            Self::PagesFree => "quarry_pages_free",
        })
    }
}

/// The way in which the pointer is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// The object was freed already, or never allocated.
    NotInUse(CacheId),
    /// No allocation in use starts there: it was freed already, or never allocated.
    NothingInUse,
    /// No request of the claimed size gets such an allocation.
    WrongSize {
        /// Bytes that the program claims.
        claimed: usize,
        /// Bytes that the allocation has.
        bytes: usize,
    },
    /// The program passed an object of one cache to another cache.
    OtherCache {
        /// The object's cache.
        of: CacheId,
        /// The cache to which it was passed.
        given: CacheId,
    },
    /// The program passed a block to a cache.
    NoObject(CacheId),
    /// No block of this order starts there.
    NoPages(Order),
    /// The pointer lies inside an object.
    InsideObject(CacheId),
    /// The pointer lies inside a block of pages or a mapping.
    InsideBlock,
    /// No allocation starts in this frame: the pointer is foreign, lies inside a block, or was
    /// freed.
    Unowned(Pfn),
    /// The pointer never came from this stack.
    Foreign,
    /// The own heap with this number, of which the memory was, has been destroyed.
    #[cfg(feature = "heaps")]
    HeapGone(u32),
    /// An object of the own heap with this number, and of so many bytes, is not in use.
    #[cfg(feature = "heaps")]
    NotInUseInHeap(u32, usize),
    /// The pointer lies inside an object of the own heap with this number, and of so many bytes.
    #[cfg(feature = "heaps")]
    InsideObjectOfHeap(u32, usize),
}
