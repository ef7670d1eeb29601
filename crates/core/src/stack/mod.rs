//! One instance of everything: slots, page allocator, caches, heap.
//!
//! A stack is a value. `malloc` uses one static instance; the lab builds the variants that it
//! compares; tests build tiny ones. Its policies are type parameters, so that each fast path is
//! compiled for its own policy.
//!
//! The fast path reads the fields of `FastPath` only. They are zero until `init` has built
//! everything else, and zero refuses every request: no size is below the first one too large (0 is
//! a size too), no address is within the span. So the fast path needs no "is it initialised" of
//! its own. It loads that size or the span first, with acquire ordering (free on x86-64): whoever
//! sees them sees the rest.

use crate::frame::{Arena, FRAME_SHIFT, FrameTable, Kind, Metadata, MetadataKind, Order, Pfn};
use crate::heap::options::StackOptions;
use crate::heap::{LARGEST_REQUEST, Mappings, classes};
use crate::pcp::PageAllocator;
use crate::slab::{
    Cache, CacheId, CacheLimits, CacheParams, CacheTable, Geometry, Reclaim, SlabContext,
    SlabPolicy, SlabStats, create_cache,
};
use core::cell::UnsafeCell;
use core::mem::{ManuallyDrop, MaybeUninit, offset_of};
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::{Object, PerCpu, Push};
use quarry_sys::primitive::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};

mod deferral;
mod footprint;
mod large;
mod misuse;
mod print;
mod reclaim;
mod request;
mod resize;
mod usage;
mod validate;
mod withheld;

use deferral::Deferral;
use footprint::Footprint;
use large::LargeCounts;
pub use large::{LargeStats, print_large};
pub use reclaim::{ReclaimState, Reclaimed};
pub use request::MIN_ALIGN;
pub use usage::{HeapUse, MemoryHeld};
use withheld::Withheld;

pub use misuse::{Entry, Misuse};
pub use print::{
    print_buddyinfo, print_locks, print_memory, print_pagesets, print_slabinfo, print_slots,
    print_stats,
};

/// The policies of a stack.
pub trait StackConfig: 'static {
    /// How CPUs are told apart.
    type PerCpu: PerCpu;
    /// How slab objects travel.
    type Slab: SlabPolicy<Self::PerCpu>;
}

/// What the fast paths of allocation and free read.
struct FastPath<P> {
    /// First size that is too large for a class; 0 until the stack is ready.
    small_end: AtomicUsize,
    /// Start of the window's frames.
    base: AtomicUsize,
    /// Bytes from there on whose frames have kinds; 0 until the stack is ready. A copy of the
    /// arena's, which grows: who meets an address behind it goes the slow way, where it is brought
    /// up to date.
    span: AtomicUsize,
    /// One kind per frame, from where that of address 0 would be: a kind is found without the base.
    kinds: AtomicPtr<AtomicU8>,
    percpu: P,
    geometry: [Geometry; 256],
    /// Bytes of an object of each cache; 0 where there is none.
    strides: [AtomicU32; 256],
}

/// Where fast paths in assembler find what they read: offsets in a [`Stack`].
#[derive(Clone, Copy)]
pub struct StackOffsets {
    /// First size that is too large for a class.
    pub small_end: usize,
    /// Start of the window's frames.
    pub base: usize,
    /// Bytes from there on whose frames have kinds.
    pub span: usize,
    /// Address of the bytes with the kinds of frames, from where that of address 0 would be.
    pub kinds: usize,
    /// The slots.
    pub percpu: usize,
    /// The [`Geometry`] of each kind.
    pub geometry: usize,
}

/// What needs the operating system to be built.
struct Built {
    pages: PageAllocator,
    metadata: Metadata,
    declared_cpus: u32,
}

/// Everything but the fast path.
pub(crate) struct Inner<'a, C: StackConfig> {
    pub(crate) pages: &'a PageAllocator,
    pub(crate) metadata: &'a Metadata,
    pub(crate) caches: &'a CacheTable,
    pub(crate) limits: &'a CacheLimits,
    pub(crate) slab: &'a C::Slab,
    pub(crate) mappings: &'a Mappings,
    declared_cpus: u32,
}

/// One instance of Quarry.
///
/// What can stand in memory that nobody has written does: a new stack is all zero bytes, so that a
/// static one touches only the pages of what it uses. Nothing of it is dropped: its memory is its
/// system's, and addresses into that outlive it.
pub struct Stack<C: StackConfig> {
    fast: FastPath<C::PerCpu>,
    ready: AtomicBool,
    is_built: AtomicBool,
    caches: CacheTable,
    limits: CacheLimits,
    slab: ManuallyDrop<C::Slab>,
    mappings: Mappings,
    large: LargeCounts,
    /// Requests of each class of `malloc` that its arrays could not serve, as far as they count.
    misses: [AtomicU8; classes::COUNT + 1],
    deferral: Deferral,
    withheld: Withheld,
    footprint: Footprint,
    built: UnsafeCell<MaybeUninit<Built>>,
}

// SAFETY: `built` is written once by `init` before `is_built` is set with release ordering, and
// read only after that was seen; what it holds synchronises itself.
unsafe impl<C: StackConfig> Sync for Stack<C> {}
// SAFETY: nothing in a stack belongs to a thread.
unsafe impl<C: StackConfig> Send for Stack<C> {}

impl<C: StackConfig> Stack<C> {
    /// See [`StackOffsets`].
    pub const OFFSETS: StackOffsets = StackOffsets {
        small_end: offset_of!(Self, fast.small_end),
        base: offset_of!(Self, fast.base),
        span: offset_of!(Self, fast.span),
        kinds: offset_of!(Self, fast.kinds),
        percpu: offset_of!(Self, fast.percpu),
        geometry: offset_of!(Self, fast.geometry),
    };

    /// A stack that refuses every request until [`init`](Self::init).
    #[must_use]
    pub const fn new() -> Self {
        Self {
            fast: FastPath {
                small_end: AtomicUsize::new(0),
                base: AtomicUsize::new(0),
                span: AtomicUsize::new(0),
                kinds: AtomicPtr::new(core::ptr::null_mut()),
                percpu: C::PerCpu::INERT,
                geometry: [const { Geometry::none() }; 256],
                strides: [const { AtomicU32::new(0) }; 256],
            },
            ready: AtomicBool::new(false),
            is_built: AtomicBool::new(false),
            caches: CacheTable::new(),
            limits: CacheLimits::new(),
            slab: ManuallyDrop::new(C::Slab::NEW),
            mappings: Mappings::new(),
            large: LargeCounts::new(),
            misses: [const { AtomicU8::new(0) }; classes::COUNT + 1],
            deferral: Deferral::new(),
            withheld: Withheld::new(),
            footprint: Footprint::new(),
            built: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Builds everything. Call once, from one thread.
    ///
    /// # Errors
    /// What the OS says; the stack then refuses every request, and `init` may be tried again: it
    /// goes on from where it failed, with the window that it may have already.
    ///
    /// # Panics
    /// Where the stack is ready already.
    pub fn init(&self, os: &'static dyn Os, options: &StackOptions) -> OsResult<()> {
        assert!(!self.is_ready(), "a stack is initialised once");
        self.fast.percpu.init(os)?;
        if !self.is_built.load(Ordering::Acquire) {
            self.build(os, options)?;
        }
        if options.heap {
            self.create_classes()?;
        }
        if options.heap && options.pages.faults.populate {
            let percpu = &self.fast.percpu;
            percpu.area().populate(os, percpu.current());
        }
        let arena = self.inner().pages.arena();
        let base = arena.base().as_ptr() as usize;
        self.fast.base.store(base, Ordering::Relaxed);
        debug_assert!(base.is_multiple_of(1 << FRAME_SHIFT), "the first kind is that of the base");
        let kinds = self.inner().pages.frames().kinds().as_ptr();
        self.fast.kinds.store(kinds.wrapping_sub(base >> FRAME_SHIFT), Ordering::Relaxed);
        self.fast.span.store(arena.span_bytes(), Ordering::Release);
        self.ready.store(true, Ordering::Release);
        if options.heap {
            self.fast.small_end.store(classes::LARGEST + 1, Ordering::Release);
        }
        Ok(())
    }

    fn build(&self, os: &'static dyn Os, options: &StackOptions) -> OsResult<()> {
        let slots = self.fast.percpu.area().slots();
        let pages = PageAllocator::build(os, &options.pages, slots)?;
        let metadata = Metadata::new(os);
        if !options.bounds_footprint {
            self.footprint.unbound();
        }
        let built = Built { pages, metadata, declared_cpus: options.pages.declared_cpus };
        // SAFETY: nobody reads `built` before `is_built`, and the caller initialises from one
        // thread.
        unsafe { (*self.built.get()).write(built) };
        self.is_built.store(true, Ordering::Release);
        Ok(())
    }

    fn create_classes(&self) -> OsResult<()> {
        for class in self.caches.count() + 1..=classes::COUNT {
            let size = classes::SIZES[class] as usize;
            let mut name = quarry_sys::report::Line::<24>::default();
            let _ = core::fmt::Write::write_fmt(&mut name, format_args!("malloc-{size}"));
            let name = core::str::from_utf8(name.as_bytes()).unwrap_or("malloc");
            let id = self.create_cache(name, &CacheParams { size, align: 16 })?;
            assert_eq!(id.index(), class, "classes are the first caches");
        }
        self.caches.keep_apart();
        Ok(())
    }

    /// Whether [`init`](Self::init) has succeeded.
    #[inline]
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    #[inline]
    fn inner(&self) -> Inner<'_, C> {
        assert!(self.is_built.load(Ordering::Acquire), "the stack is not initialised");
        // SAFETY: `is_built` is set after `built` was written, and it never changes again.
        let built = unsafe { (*self.built.get()).assume_init_ref() };
        Inner {
            pages: &built.pages,
            metadata: &built.metadata,
            caches: &self.caches,
            limits: &self.limits,
            slab: &self.slab,
            mappings: &self.mappings,
            declared_cpus: built.declared_cpus,
        }
    }

    fn context(&self) -> SlabContext<'_, C::PerCpu> {
        let inner = self.inner();
        SlabContext {
            percpu: &self.fast.percpu,
            pages: inner.pages,
            metadata: inner.metadata,
            caches: inner.caches,
            limits: inner.limits,
            declared_cpus: inner.declared_cpus,
        }
    }

    /// The page allocator: zones and per-CPU page lists.
    #[inline]
    pub fn pages(&self) -> &PageAllocator {
        self.inner().pages
    }

    /// The slots.
    #[inline]
    pub fn percpu(&self) -> &C::PerCpu {
        &self.fast.percpu
    }

    fn arena(&self) -> &Arena {
        self.pages().arena()
    }

    fn frames(&self) -> &FrameTable {
        self.pages().frames()
    }

    /// Whether an address lies among the frames in use, or between them. O(1), needs no
    /// initialisation.
    #[inline]
    #[must_use]
    pub fn owns(&self, address: *const u8) -> bool {
        let span = self.fast.span.load(Ordering::Acquire);
        (address as usize).wrapping_sub(self.fast.base.load(Ordering::Relaxed)) < span
            || self.is_ready() && self.pfn(address).is_some()
    }

    /// Creates a cache for objects of its own.
    ///
    /// # Errors
    /// As [`CacheTable::create`].
    pub fn create_cache(&self, name: &str, params: &CacheParams) -> OsResult<CacheId> {
        let cache = create_cache(&self.context(), &*self.slab, name, params)?;
        self.fast.strides[cache.id().index()].store(cache.stride() as u32, Ordering::Relaxed);
        self.fast.geometry[cache.id().index()].set(cache);
        Ok(cache.id())
    }

    /// The cache with this number.
    ///
    /// # Panics
    /// Where there is none.
    #[must_use]
    pub fn cache(&self, id: CacheId) -> &Cache {
        self.inner().caches.get(id).expect("cache numbers come from create_cache")
    }

    /// Takes an object of a cache, or `None` where there is no memory.
    ///
    /// # Panics
    /// Where there is no such cache.
    #[inline]
    pub fn cache_alloc(&self, id: CacheId) -> Option<Object> {
        // A stack that is not ready has no caches, and slots that nobody may use yet.
        if self.fast.geometry[id.index()].is_set()
            && let Some(object) = C::Slab::alloc_fast(&self.fast.percpu, id)
        {
            return Some(object);
        }
        self.cache_alloc_slow(id)
    }

    #[cold]
    #[inline(never)]
    fn cache_alloc_slow(&self, id: CacheId) -> Option<Object> {
        let inner = self.inner();
        let cache = self.cache(id);
        let frames = cache.order().frames();
        self.with_reclaim(frames, || inner.slab.alloc_slow(&self.context(), cache))
    }

    /// Gives an object back to the cache that it came from.
    ///
    /// # Safety
    /// `object` was allocated from this cache of this stack and nobody uses it any more.
    #[inline]
    pub unsafe fn cache_free(&self, id: CacheId, object: Object) {
        let offset = object.as_ptr() as usize - self.fast.base.load(Ordering::Relaxed);
        let slab = || self.fast.geometry[id.index()].slab(offset);
        // SAFETY: the caller's promise is passed on; `slab` follows from the cache's geometry.
        match unsafe { C::Slab::free_fast(&self.fast.percpu, id, object, slab) } {
            Push::Stored => {}
            // SAFETY: the caller's promise is passed on.
            Push::Refused => unsafe { self.cache_free_slow(id, object) },
            Push::Duplicate => self.misuse(Entry::Free, object.as_ptr(), Misuse::NotInUse(id)),
        }
    }

    /// # Safety
    /// As [`cache_free`](Self::cache_free).
    #[cold]
    #[inline(never)]
    unsafe fn cache_free_slow(&self, id: CacheId, object: Object) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner().slab.free_slow(&self.context(), self.cache(id), object) };
    }

    /// Fills the front of `out` with objects of a cache; returns how many, fewer than asked only
    /// where memory is short.
    pub fn cache_alloc_bulk(&self, id: CacheId, out: &mut [MaybeUninit<Object>]) -> usize {
        let (inner, cache) = (self.inner(), self.cache(id));
        let taken = inner.slab.alloc_bulk(&self.context(), cache, out);
        if taken == out.len() {
            return taken;
        }
        let more = self.after_reclaim(cache.order().frames(), || {
            let more = inner.slab.alloc_bulk(&self.context(), cache, &mut out[taken..]);
            (more > 0).then_some(more)
        });
        taken + more.unwrap_or(0)
    }

    /// Gives objects back to the cache that they came from.
    ///
    /// # Safety
    /// All were allocated from this cache of this stack, differ, and nobody uses them any more.
    pub unsafe fn cache_free_bulk(&self, id: CacheId, objects: &[Object]) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner().slab.free_bulk(&self.context(), self.cache(id), objects) };
    }

    /// Takes everything out of the slots and barns of a cache and returns its empty slabs.
    pub fn shrink_cache(&self, id: CacheId) {
        self.inner().slab.reclaim(&self.context(), Reclaim::Cache(self.cache(id)));
    }

    /// What a cache has done so far.
    #[must_use]
    pub fn cache_stats(&self, id: CacheId) -> SlabStats {
        self.inner().slab.stats(&self.context(), self.cache(id))
    }

    /// Returns to the operating system what can be returned: slots, barns, empty slabs, per-CPU
    /// page lists, free blocks of the zones, kept mappings. Returns the bytes purged.
    pub fn trim(&self) -> usize {
        self.shrink_all();
        let bytes = self.purge_free();
        // What holds nothing takes address space.
        self.pages().give_back();
        bytes
    }

    /// Slots, barns, empty slabs and per-CPU page lists go back to the zones. Slots of other CPUs
    /// keep what they hold where the calling thread may not stop them (see
    /// [`reaches_every_slot`](PerCpu::reaches_every_slot)).
    pub fn shrink_all(&self) {
        self.free_withheld();
        let inner = self.inner();
        inner.slab.reclaim(&self.context(), Reclaim::All);
        inner.pages.drain_all();
        inner.pages.flush_extents();
    }

    /// Bytes of Quarry's own descriptors of one kind.
    #[must_use]
    pub fn metadata_bytes(&self, kind: MetadataKind) -> usize {
        self.inner().metadata.bytes(kind)
    }

    /// Makes the stack whole in the child of a fork, whose parent was in no call of it but its
    /// fast paths: what other threads held there for one step is let go.
    pub fn adopt_in_child(&self) {
        self.fast.percpu.free_in_child();
    }

    /// The frame that holds an address, if it may be ours; the slow way, which sees to it that
    /// fast paths know all of the span from then on.
    fn pfn(&self, address: *const u8) -> Option<Pfn> {
        let arena = self.arena();
        let span = arena.span_bytes();
        if self.fast.span.load(Ordering::Relaxed) < span {
            self.fast.span.store(span, Ordering::Release);
        }
        arena.pfn(address)
    }

    fn address(&self, pfn: Pfn) -> Object {
        self.arena().address(pfn)
    }
}

impl<C: StackConfig> Default for Stack<C> {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a request can be served at all.
fn is_sane(size: usize) -> bool {
    size <= LARGEST_REQUEST
}

const _: () = assert!(FRAME_SHIFT == 12 && Kind::NONE.0 == 0 && Order::ZERO.get() == 0);
