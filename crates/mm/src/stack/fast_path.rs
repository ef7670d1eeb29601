//! The data of the fast paths.
//!
//! All data are zero until `init` has made everything else, and zeros refuse every request: no size
//! is below `small_end`, and no address is within `span`. So the fast paths need no test whether
//! the stack is initialised. They load `small_end` or `span` first, with acquire ordering: a thread
//! that sees a value other than 0 sees all other data, too.

use crate::slab::Geometry;
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::{AtomicPtr, AtomicU16, AtomicU32, AtomicUsize};

/// Puts each word that every call reads at a [quiet place](StackOffsets::is_quiet).
const SKEW: usize = 40;

/// Aligned, so that each word keeps its offset modulo 256: a processor makes a load wait for a
/// pending store to the same offset of another page. With a word of the fast paths at a multiple of
/// 1,024 bytes, batches of 1,000 objects of 1,024 bytes, each written to, took 1.2 times as long
/// (AMD EPYC, family 25). (Alignment to a page moved other words of the stack to such places:
/// batches of 4,096 bytes took 1.15 times as long.)
#[repr(C, align(256))]
pub(super) struct FastPath<P> {
    _skew: [u8; SKEW],
    /// The first size that is too large for a class; 0 while the fast path is closed.
    pub(super) small_end: AtomicUsize,
    /// Start of the window's frames.
    pub(super) base: AtomicUsize,
    /// Bytes from `base` on whose frames have kinds; 0 while the fast path of frees is closed. A
    /// copy of the arena's span, which grows: the slow path updates it.
    pub(super) span: AtomicUsize,
    /// The kinds of frames times [`Kind::STEP`](crate::frame::Kind::STEP). Points to where the kind
    /// of address 0 would be, so that an address selects its kind without `base`.
    pub(super) kinds: AtomicPtr<AtomicU16>,
    pub(super) percpu: P,
    /// The stride of each cache; 0 if there is no cache.
    pub(super) strides: [AtomicU32; 256],
    pub(super) geometry: [Geometry; 256],
    /// Bytes of the link of each cache (see [`Cache`](crate::slab::Cache)).
    pub(super) links: [AtomicU32; 256],
}

impl<P: PerCpu> FastPath<P> {
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

/// Offsets in a [`Stack`](super::Stack) of the words that fast paths in assembler read.
#[derive(Clone, Copy)]
pub struct StackOffsets {
    /// The first size that is too large for a class.
    pub small_end: usize,
    /// Start of the window's frames.
    pub base: usize,
    /// Bytes from the base on whose frames have kinds.
    pub span: usize,
    /// Address where the kind of address 0 would be; kinds have 16 bits.
    pub kinds: usize,
    /// The slots.
    pub percpu: usize,
    /// The [`Geometry`] of each kind.
    pub geometry: usize,
}

impl StackOffsets {
    /// Returns whether the word at this offset lies at no multiple of 256: there lie the first
    /// words of objects of 256 bytes and of multiples, which programs write most.
    #[must_use]
    pub const fn is_quiet(word: usize) -> bool {
        !word.is_multiple_of(256)
    }
}
