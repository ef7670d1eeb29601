//! The fast paths and their data.
//!
//! All data are zero until `init` has made everything else, and zeros refuse every request: no size
//! is below `small_end`, and no address is within `span`. So the fast paths need no test whether
//! the stack is initialised. They load `small_end` or `span` first, with acquire ordering: a thread
//! that sees a value other than 0 sees all other data, too.

use crate::frame::{Arena, FRAME_BYTES, FRAME_SHIFT, Kind, Pfn};
use crate::heap::classes;
use crate::slab::{CacheId, Geometry, MIN_ALIGN, SlabPolicy};
use core::marker::PhantomData;
use quarry_sys::percpu::{Object, PerCpu, Push};
use quarry_sys::primitive::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicUsize, Ordering};

/// The reason why the fast path has not freed an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFreed {
    /// The running CPU has no room for this object of the cache, or the policy checks all frees.
    Full(CacheId),
    /// The running CPU has this object of the cache already, so the program frees it twice.
    Duplicate(CacheId),
    /// No object starts there; the frame has this kind.
    Kind(Kind),
    /// The address is null or foreign, or the fast path is closed.
    Outside,
}

type Freed = Result<(), NotFreed>;
/// The kind and the geometry of the cache of an object, and the object's offset in the window.
type Found<'a> = Result<(u8, &'a Geometry, usize), NotFreed>;

/// Puts each word that every call reads at a [quiet place](StackOffsets::is_quiet).
const SKEW: usize = 24;

/// The fast paths of a stack: they need neither a lock nor a gate.
///
/// Aligned, so that each word keeps its [quiet](StackOffsets::is_quiet) offset: a processor makes a
/// load wait for a pending store to the same offset of another page. When a word of the fast paths
/// lay at a multiple of 1,024 bytes, batches of 1,000 objects of 1,024 bytes, each written to, took
/// 1.2 times as long as now (AMD EPYC, family 25). (Alignment to a page moved other words of the
/// stack to such offsets: batches of objects of 4,096 bytes then took 1.15 times as long.)
#[repr(C, align(256))]
pub struct FastPath<P, S> {
    _skew: [u8; SKEW],
    /// `small_end` for the operators of C++, or 0 while these are not open.
    pub(super) new_end: AtomicUsize,
    /// `span` for the operators of C++, or 0 while these are not open.
    pub(super) delete_span: AtomicUsize,
    /// The first size that is too large for a class; 0 while the fast path is closed.
    pub(super) small_end: AtomicUsize,
    /// Start of the window's frames.
    pub(super) base: AtomicUsize,
    /// Bytes from `base` on whose frames have kinds; 0 while the fast path of frees is closed. A
    /// copy of the arena's span: when that grows, the slow path updates this copy.
    pub(super) span: AtomicUsize,
    /// The kinds of frames times [`Kind::STEP`]: points to where the kind of address 0 would be, so
    /// that an address selects its kind without `base`.
    pub(super) kinds: AtomicPtr<AtomicU16>,
    pub(super) percpu: P,
    /// The stride of each cache; 0 if there is no cache.
    pub(super) strides: [AtomicU32; 256],
    pub(super) geometry: [Geometry; 256],
    /// Bytes of the link of each cache (see [`Cache`](crate::slab::Cache)).
    pub(super) links: [AtomicU32; 256],
    /// True if the policy wants to see every free.
    pub(super) is_free_closed: AtomicBool,
    /// See [`Stack::open_operators`](super::Stack::open_operators).
    pub(super) are_operators_open: AtomicBool,
    policy: PhantomData<fn() -> S>,
}

impl<P: PerCpu, S: SlabPolicy<P>> FastPath<P, S> {
    pub(super) const fn new() -> Self {
        Self {
            _skew: [0; SKEW],
            new_end: AtomicUsize::new(0),
            delete_span: AtomicUsize::new(0),
            small_end: AtomicUsize::new(0),
            base: AtomicUsize::new(0),
            span: AtomicUsize::new(0),
            kinds: AtomicPtr::new(core::ptr::null_mut()),
            percpu: P::INERT,
            strides: [const { AtomicU32::new(0) }; 256],
            geometry: [const { Geometry::none() }; 256],
            links: [const { AtomicU32::new(0) }; 256],
            is_free_closed: AtomicBool::new(false),
            are_operators_open: AtomicBool::new(false),
            policy: PhantomData,
        }
    }

    /// Takes an object for `size` bytes; after `None`, call [`Stack::alloc`](super::Stack::alloc).
    /// O(1), no lock, no atomic read-modify-write.
    #[inline(always)]
    pub fn alloc(&self, size: usize) -> Option<Object> {
        self.alloc_below(&self.small_end, size)
    }

    /// [`alloc`](Self::alloc) for `operator new`.
    #[inline(always)]
    pub fn alloc_new(&self, size: usize) -> Option<Object> {
        self.alloc_below(&self.new_end, size)
    }

    #[inline(always)]
    fn alloc_below(&self, end: &AtomicUsize, size: usize) -> Option<Object> {
        if size >= end.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: both ends are 0 or `classes::LARGEST + 1`.
        let class = unsafe { classes::of_unchecked(size) };
        S::alloc_fast(&self.percpu, class)
    }

    /// Frees an object. O(1), no lock, no atomic read-modify-write. Any address is allowed, also
    /// null.
    ///
    /// # Errors
    /// A reason for [`Stack::free_refused`](super::Stack::free_refused).
    ///
    /// # Safety
    /// If an allocation starts at `address`, its user has given it up.
    #[inline(always)]
    pub unsafe fn free(&self, address: *mut u8) -> Result<(), NotFreed> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.free_in(&self.span, address) }
    }

    /// [`free`](Self::free) for `operator delete`.
    ///
    /// # Errors
    /// Same as for [`free`](Self::free).
    ///
    /// # Safety
    /// Same as for [`free`](Self::free).
    #[inline(always)]
    pub unsafe fn delete(&self, address: *mut u8) -> Result<(), NotFreed> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.free_in(&self.delete_span, address) }
    }

    /// # Safety
    /// Same as for [`free`](Self::free).
    #[inline(always)]
    unsafe fn free_in(&self, span: &AtomicUsize, address: *mut u8) -> Freed {
        let (kind, geometry, offset) = self.object_in(span.load(Ordering::Acquire), address)?;
        // SAFETY: a geometry has accepted the offset, so `kind` is the number of a cache; and an
        // address in the window is not null.
        let (id, object) =
            unsafe { (CacheId::new_unchecked(kind), Object::new_unchecked(address)) };
        let slab = || geometry.slab(offset);
        // SAFETY: an object of this cache starts at the address and is given up (caller's promise).
        let freed = unsafe { self.push(id, object, slab) };
        // If an object has a link, its user only ever gets the address after the link.
        freed.map_err(|refusal| if self.link(id) > 0 { NotFreed::Kind(id.kind()) } else { refusal })
    }

    /// # Safety
    /// `object` is an allocated object of the cache, given up by its user; `slab` returns its slab.
    #[inline(always)]
    unsafe fn push(&self, id: CacheId, object: Object, slab: impl FnOnce() -> Pfn) -> Freed {
        if self.sees_no_free() {
            return Err(NotFreed::Full(id));
        }
        // SAFETY: the caller's promise is passed on.
        match unsafe { S::free_fast(&self.percpu, id, object, slab) } {
            Push::Stored => Ok(()),
            Push::Refused => Err(NotFreed::Full(id)),
            Push::Duplicate => Err(NotFreed::Duplicate(id)),
        }
    }

    #[inline(always)]
    fn sees_no_free(&self) -> bool {
        S::LOOKS_AT_FREES && self.is_free_closed.load(Ordering::Relaxed)
    }

    /// Takes an object of a cache; after `None`, call `CacheRef::alloc`. O(1), no lock.
    #[inline]
    pub fn alloc_of(&self, id: CacheId) -> Option<Object> {
        // A stack that is not ready has no caches, and its slots must not be used.
        if !self.geometry[id.index()].is_set() {
            return None;
        }
        let start = S::alloc_fast(&self.percpu, id)?;
        // SAFETY: an object is larger than its link, so the sum lies inside the object.
        Some(unsafe { start.add(self.link(id)) })
    }

    /// Frees an object of a cache. O(1), no lock.
    ///
    /// # Errors
    /// [`NotFreed::Full`] or [`NotFreed::Duplicate`].
    ///
    /// # Safety
    /// `object` was allocated from this cache of this stack, and its user has given it up.
    #[inline]
    pub unsafe fn free_of(&self, id: CacheId, object: Object) -> Result<(), NotFreed> {
        // SAFETY: the link lies before the object (caller's promise).
        let start = unsafe { object.sub(self.link(id)) };
        let offset = start.as_ptr() as usize - self.base.load(Ordering::Relaxed);
        let slab = || self.geometry[id.index()].slab(offset);
        // SAFETY: the caller's promise is passed on; the cache's geometry gives the object's slab.
        unsafe { self.push(id, start, slab) }
    }

    /// Bytes of the link before each object of a cache.
    #[inline]
    pub(super) fn link(&self, id: CacheId) -> usize {
        if !S::LINKS_THROUGH_OBJECTS {
            return 0;
        }
        self.links[id.index()].load(Ordering::Relaxed) as usize
    }

    /// Usable bytes of the slab object `object`, unless it seems to be free; after `None`, call
    /// [`Stack::usable_size`](super::Stack::usable_size). O(1), no lock. Any address is allowed.
    #[inline(always)]
    pub fn usable(&self, object: Object) -> Option<usize> {
        let (kind, ..) = self.object(object.as_ptr())?;
        // SAFETY: a geometry has accepted the address, so `kind` is the number of a cache.
        let id = unsafe { CacheId::new_unchecked(kind) };
        let is_in_use = !S::seems_parked(&self.percpu, id, object);
        is_in_use.then(|| self.strides[kind as usize].load(Ordering::Relaxed) as usize)
    }

    /// Returns whether [`delete`](Self::delete) may serve.
    #[inline(always)]
    pub fn serves_delete(&self) -> bool {
        self.delete_span.load(Ordering::Acquire) != 0
    }

    /// The kind and the geometry of the cache whose object starts at `address`, and the offset of
    /// `address` in the window. O(1): one entry of the frame table. Allows any address, also null.
    #[inline(always)]
    pub(super) fn object(&self, address: *mut u8) -> Option<(u8, &Geometry, usize)> {
        self.object_in(self.span.load(Ordering::Acquire), address).ok()
    }

    /// [`object`](Self::object) in the first `span` bytes of the window, all of which have kinds.
    #[inline(always)]
    fn object_in(&self, span: usize, address: *mut u8) -> Found<'_> {
        let offset = (address as usize).wrapping_sub(self.base.load(Ordering::Relaxed));
        if offset >= span {
            return Err(NotFreed::Outside);
        }
        let kinds = self.kinds.load(Ordering::Relaxed);
        let kind = kinds.wrapping_add(address as usize >> FRAME_SHIFT);
        // SAFETY: `span` is not 0, so `kinds` was stored before (see the head of the file). It
        // points `base >> FRAME_SHIFT` entries before the entry of the first frame, so `kind`
        // points to the entry of the address's frame, and every frame of the span has an entry.
        let entry = unsafe { (*kind).load(Ordering::Relaxed) };
        const { assert!(size_of::<Geometry>() == Kind::STEP as usize) };
        // SAFETY: an entry is a kind times the size of a geometry; the array has one for each kind.
        let geometry = unsafe { &*self.geometry.as_ptr().byte_add(usize::from(entry)) };
        let kind = Kind::of_entry(entry);
        let found = geometry.is_object(offset).then_some((kind.0, geometry, offset));
        found.ok_or(NotFreed::Kind(kind))
    }

    /// The cache and the bytes of the slab object that starts at `address`, also while the fast
    /// path is closed. Any address is allowed. O(1).
    ///
    /// # Safety
    /// `arena` is that of the stack, which has been initialised.
    #[inline]
    pub unsafe fn slab_object(&self, arena: &Arena, address: *mut u8) -> Option<(CacheId, usize)> {
        let (kind, ..) = self.object_in(arena.span_bytes(), address).ok()?;
        let bytes = self.strides[kind as usize].load(Ordering::Relaxed) as usize;
        Some((CacheId::new(kind.into()), bytes))
    }

    /// The kind of the frame at whose start `address` lies, unless an object starts there. O(1), no
    /// lock. Any address is allowed.
    #[inline]
    pub(super) fn kind_at(&self, address: *mut u8) -> Option<Kind> {
        match self.object_in(self.span.load(Ordering::Acquire), address) {
            Err(NotFreed::Kind(kind)) if address as usize & (FRAME_BYTES - 1) == 0 => Some(kind),
            _ => None,
        }
    }

    /// The frame of an address in the span.
    #[inline]
    pub(super) fn pfn(&self, address: *mut u8) -> Pfn {
        let offset = (address as usize).wrapping_sub(self.base.load(Ordering::Relaxed));
        Pfn((offset >> FRAME_SHIFT) as u32)
    }

    /// Bytes of the slab object that starts at `address`. O(1). Any address is allowed, also null.
    #[inline(always)]
    pub fn stride(&self, address: *mut u8) -> Option<usize> {
        let (kind, ..) = self.object(address)?;
        Some(self.strides[kind as usize].load(Ordering::Relaxed) as usize)
    }

    /// Returns whether [`delete`](Self::delete) may serve, and an object of `malloc` starts at
    /// `address` that a request of `size` bytes can have got. O(1). Any address is allowed, also
    /// null.
    #[inline(always)]
    pub fn was_asked(&self, address: *mut u8, size: usize) -> bool {
        let served = |(kind, ..): (u8, _, _)| classes::SERVED.get(kind as usize);
        let object = self.object_in(self.delete_span.load(Ordering::Acquire), address).ok();
        object.and_then(served).is_some_and(|served| served.has(size))
    }
}

/// Returns whether `realloc` to `size` bytes leaves an object of `old` bytes where it is: it may
/// waste half of them.
#[inline(always)]
pub fn stays(old: usize, size: usize) -> bool {
    old.wrapping_sub(size) <= old / 2
}

/// The same, and in the smallest class it may waste all but one, which [`stays`] has no instruction
/// left to say.
#[must_use]
pub fn stays_after_all(old: usize, size: usize) -> bool {
    stays(old, size) || old == MIN_ALIGN && (1..=old).contains(&size)
}

/// Offsets in a [`Stack`](super::Stack) of the words that fast paths in assembler read.
#[derive(Clone, Copy)]
pub struct StackOffsets {
    /// `small_end` for the operators of C++.
    pub new_end: usize,
    /// `span` for the operators of C++.
    pub delete_span: usize,
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
    /// Returns whether this offset is no multiple of 256. Programs write most to the first words of
    /// objects, which lie at multiples of 256 if the size of the objects is such a multiple.
    #[must_use]
    pub const fn is_quiet(word: usize) -> bool {
        !word.is_multiple_of(256)
    }
}
