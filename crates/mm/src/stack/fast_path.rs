//! The data of the fast paths of allocation and free.
//!
//! The data are all zero until `init` has built everything else, and zero refuses every request: no
//! size is below the first one too large (0 is a size too), no address is within the span. So the
//! fast path needs no test of its own whether the stack is initialised. It loads that size or the
//! span first, with acquire ordering (free on x86-64): a thread that sees them sees the rest.

use crate::slab::Geometry;
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::{AtomicPtr, AtomicU16, AtomicU32, AtomicUsize};

/// Bytes before the words that every call reads, so that each is at a [quiet
/// place](StackOffsets::is_quiet).
const SKEW: usize = 40;

/// The data of the fast paths of allocation and free.
///
/// Its place among 256 bytes is fixed: a processor treats a load as dependent on a pending store to
/// the same place of another page. A word of the fast paths that lay at a multiple of 1,024 bytes
/// made batches of 1,000 objects of 1,024 bytes, each written to, take 1.2 of their time (AMD EPYC,
/// family 25). Aligning to a page as well moved other words of the stack to such places, and made
/// batches of 4,096 bytes take 1.15.
#[repr(C, align(256))]
pub(super) struct FastPath<P> {
    _skew: [u8; SKEW],
    /// First size that is too large for a class; 0 until the stack is ready.
    pub(super) small_end: AtomicUsize,
    /// Start of the window's frames.
    pub(super) base: AtomicUsize,
    /// Bytes from there on whose frames have kinds; 0 until the stack is ready. A copy of the
    /// arena's, which grows: an address beyond it goes the slow way, which brings the copy up to
    /// date.
    pub(super) span: AtomicUsize,
    /// One kind per frame, times [`Kind::STEP`](crate::frame::Kind::STEP), from the place where the
    /// kind of address 0 would be: a kind is found without the base.
    pub(super) kinds: AtomicPtr<AtomicU16>,
    pub(super) percpu: P,
    /// Bytes of an object of each cache; 0 where there is none.
    pub(super) strides: [AtomicU32; 256],
    pub(super) geometry: [Geometry; 256],
    /// Bytes from the start of an object of each cache to the address that callers know: 0, except
    /// where the policy has a link there (see [`Cache`](crate::slab::Cache)).
    pub(super) links: [AtomicU32; 256],
}

impl<P: PerCpu> FastPath<P> {
    /// Refuses everything.
    pub(super) const fn new() -> Self {
        Self {
            _skew: [0; SKEW],
            small_end: AtomicUsize::new(0),
            base: AtomicUsize::new(0),
            span: AtomicUsize::new(0),
            kinds: AtomicPtr::new(core::ptr::null_mut()),
            percpu: P::INERT,
            strides: [const { AtomicU32::new(0) }; 256],
            geometry: [const { Geometry::none() }; 256],
            links: [const { AtomicU32::new(0) }; 256],
        }
    }
}

/// The words that fast paths in assembler read: offsets in a [`Stack`](super::Stack).
#[derive(Clone, Copy)]
pub struct StackOffsets {
    /// First size that is too large for a class.
    pub small_end: usize,
    /// Start of the window's frames.
    pub base: usize,
    /// Bytes from there on whose frames have kinds.
    pub span: usize,
    /// Address of the kinds of frames, 16 bits each, from where the kind of address 0 would be.
    pub kinds: usize,
    /// The slots.
    pub percpu: usize,
    /// The [`Geometry`] of each kind.
    pub geometry: usize,
}

impl StackOffsets {
    /// Returns whether the word at this offset is out of the way of the first words of objects:
    /// programs write these most, and objects of 256 bytes and their multiples begin at multiples
    /// of 256 bytes of a page.
    #[must_use]
    pub const fn is_quiet(word: usize) -> bool {
        !word.is_multiple_of(256)
    }
}
