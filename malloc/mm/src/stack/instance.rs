//! The type of a stack, its policies and instruments, and its start.

use super::cached_pages::CachedPages;
use super::call::{Entry, Request};
use super::deferral::Deferral;
use super::fast_path::{FastPath, StackOffsets};
use super::footprint::Footprint;
use super::instruments::{Instrument, Instruments};
use super::large::LargeCounts;
use super::relief::Relief;
use super::withheld::Withheld;
use crate::frame::{Arena, FRAME_SHIFT, FrameTable, Kind, Metadata, Order, Pfn};
use crate::heap::options::StackOptions;
use crate::heap::{CheckOptions, LARGEST_REQUEST, Mappings, classes};
#[cfg(feature = "heaps")]
use crate::own_heap::OwnHeaps;
use crate::pcp::{PageAllocator, PagePolicy};
use crate::slab::{
    Cache, CacheId, CacheLimits, CacheOptions, CacheParams, CacheTable, SlabContext, SlabPolicy,
    SlabSetup, create_cache,
};
#[cfg(feature = "groups")]
use crate::zone::Groups;
use core::cell::UnsafeCell;
use core::mem::{ManuallyDrop, MaybeUninit, offset_of};
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::{Object, PerCpu};
use quarry_sys::primitive::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// The policies of a stack.
pub trait StackConfig: Sized + 'static {
    /// The per-CPU slots.
    type PerCpu: PerCpu;
    /// The policy that moves objects between CPUs and slabs.
    type Slab: SlabPolicy<Self::PerCpu>;
    /// The policy that moves pages between CPUs and zones.
    type Pages: PagePolicy;
    /// Memory that is not part of the heap and gives way to it: `()`, or a page cache.
    type Cache: CachedPages;
    /// The instruments of the stack; `()` for none.
    type Watch: Watch<Self>;
}

/// An allocation that the heap profile has sampled: its first frame has the kind `SAMPLED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledBlock {
    /// Frames of the allocation.
    pub frames: u32,
    /// Bytes that the program may use.
    pub usable: usize,
}

/// The instruments of a stack (see `instruments.rs`). An allocation is *recorded* if one of them
/// keeps a record of it.
pub trait Watch<C: StackConfig>: Sized + Send + Sync + 'static {
    /// All instruments off: all zero bytes.
    const NEW: Self;
    /// False if there are no instruments.
    const IS_ANY: bool = true;
    /// True if debugging and hardening are among them: only then is there code for what they need.
    const MAY_RECORD: bool = false;

    /// Prepares the instruments that `options` ask for, which may allocate unseen. Called once,
    /// before the first request of the program.
    fn start(&self, _stack: &Stack<C>, _options: &CheckOptions) {}

    /// Serves a request while an instrument is on. `next` serves it without this instrument.
    fn alloc(
        &self,
        _stack: &Stack<C>,
        _request: Request,
        next: impl FnOnce() -> Option<Object>,
    ) -> Option<Object> {
        next()
    }

    /// Serves a request outside the gate, with an object of the running CPU, if the instruments
    /// that are on allow it. O(size), no lock.
    #[inline]
    fn alloc_outside(&self, _stack: &Stack<C>, _size: usize, _zeroed: bool) -> Option<Object> {
        None
    }

    /// Frees a recorded allocation outside the gate; `None` if [`free`](Self::free) has to do it.
    /// Returns whether other memory was freed by a slow path. O(size).
    ///
    /// # Safety
    /// Same as for [`Stack::free`].
    #[inline]
    unsafe fn free_outside(&self, _stack: &Stack<C>, _object: Object) -> Option<bool> {
        None
    }

    /// Frees a recorded allocation; returns false if `object` is not one.
    ///
    /// # Safety
    /// Same as for [`Stack::free`].
    #[inline]
    unsafe fn free(&self, _stack: &Stack<C>, _object: Object) -> bool {
        false
    }

    /// Bytes that were requested for a recorded allocation; aborts if it is not in use.
    #[inline]
    fn size(&self, _stack: &Stack<C>, _entry: Entry, _object: Object) -> Option<usize> {
        None
    }

    /// Aborts if a recorded allocation was not requested with these values; false if not recorded.
    #[inline]
    fn demand(&self, _: &Stack<C>, _: Entry, _: Object, _size: usize, _align: usize) -> bool {
        false
    }

    /// [`Stack::realloc`] of a recorded allocation; `None` if `object` is not one.
    ///
    /// # Safety
    /// Same as for [`Stack::realloc`].
    #[inline]
    unsafe fn realloc(
        &self,
        _stack: &Stack<C>,
        _object: Object,
        _request: Request,
    ) -> Option<Option<Object>> {
        None
    }

    /// Returns whether the checks are on: allocations are recorded, and free memory keeps its
    /// bytes.
    #[inline]
    fn have_records(&self) -> bool {
        false
    }

    /// The sampled allocation that begins at `pfn`, if there is one.
    #[inline]
    fn sampled(&self, _stack: &Stack<C>, _pfn: Pfn) -> Option<SampledBlock> {
        None
    }

    /// Notes that the block or mapping at `pfn` is freed or resized, and so is no sample any more.
    #[inline]
    fn forget(&self, _stack: &Stack<C>, _pfn: Pfn) {}

    /// Notes that `realloc` resized the block or mapping at `pfn`, which may become a sample.
    #[inline]
    fn count(&self, _stack: &Stack<C>, _pfn: Pfn, _frames: u32, _size: usize) {}

    /// Counts a request to an own heap; returns with how many points it becomes a sample, or 0.
    #[inline]
    fn own_points(&self, _stack: &Stack<C>, _size: usize) -> u64 {
        0
    }

    /// Makes a block or mapping of an own heap a sample; returns the number of its record, or 0.
    fn begin_own_sample(
        &self,
        _stack: &Stack<C>,
        _block: (Pfn, u32),
        _size: usize,
        _points: u64,
    ) -> u32 {
        0
    }

    /// Notes that such a sample was freed.
    fn end_own_sample(&self, _stack: &Stack<C>, _record: u32) {}

    /// Returns whether the block of kind `HIDDEN` at `pfn` is a mapping.
    #[inline]
    fn is_hidden_mapping(&self, _pfn: Pfn) -> bool {
        false
    }

    /// Does work that is due. Slow paths and the background thread call this, no fast path. O(1).
    #[inline]
    fn tick(&self, _stack: &Stack<C>) {}

    /// Releases freed allocations that the instruments hold back; returns whether there were any.
    fn give_back(&self, _stack: &Stack<C>) -> bool {
        false
    }

    /// Visits the locks of the instruments.
    fn visit_locks(&self, _visit: &mut Visit<'_>) {}
}

/// No instruments.
impl<C: StackConfig> Watch<C> for () {
    const NEW: Self = ();
    const IS_ANY: bool = false;
}

pub(crate) struct Built<C: StackConfig> {
    pub(crate) pages: PageAllocator<C::Pages>,
    pub(crate) metadata: Metadata,
    setup: SlabSetup,
    /// True under `QUARRY_HARDEN`: see `guarded_slabs`.
    pub(super) guards_slabs: bool,
    pub(super) cache: <C::Cache as CachedPages>::Options,
}

/// One instance of Quarry.
///
/// A new stack is all zero bytes, so that a static one touches only the pages of the parts that it
/// uses. No part is ever dropped, because pointers into its memory may outlive it.
///
/// First come the fields that every start writes, then the tables of caches, then the fields that a
/// program may never use. In the order that the compiler chose, a start wrote three times as many
/// pages.
#[repr(C)]
pub struct Stack<C: StackConfig> {
    ready: AtomicBool,
    is_built: AtomicBool,
    has_classes: AtomicBool,
    /// Which instruments are on.
    pub instruments: Instruments,
    /// Misses of each class of `malloc`, up to `MISSES_OF_COLD_CLASS`.
    pub(super) misses: [AtomicU8; classes::COUNT + 1],
    /// Bytes that caches hold beyond objects in use.
    pub limits: CacheLimits,
    /// The counters of large requests.
    pub large: LargeCounts,
    pub(super) withheld: Withheld,
    pub(super) footprint: Footprint,
    built: UnsafeCell<MaybeUninit<Built<C>>>,
    /// The mappings.
    pub mappings: Mappings,
    /// The fast paths.
    pub fast: FastPath<C::PerCpu, C::Slab>,
    /// The caches.
    pub caches: CacheTable,
    pub(super) slab: ManuallyDrop<C::Slab>,
    pub(super) deferral: Deferral,
    /// Frees that named a wrong size.
    pub wrong_sizes: AtomicU64,
    /// Counts of memory that went back because the system was short of it.
    pub relief: Relief,
    /// The instruments.
    pub watch: C::Watch,
    pub(super) cache: ManuallyDrop<C::Cache>,
    /// The groups.
    #[cfg(feature = "groups")]
    pub groups: Groups,
    /// The own heaps.
    #[cfg(feature = "heaps")]
    pub own: OwnHeaps,
}

// SAFETY: `init` writes `built` once, before it sets `is_built` with release ordering, and readers
// look at `built` only after they have seen `is_built`. The contents of `built` and all other
// fields synchronise themselves.
unsafe impl<C: StackConfig> Sync for Stack<C> {}
// SAFETY: no part of a stack belongs to a thread.
unsafe impl<C: StackConfig> Send for Stack<C> {}

impl<C: StackConfig> Stack<C> {
    /// See [`StackOffsets`].
    pub const OFFSETS: StackOffsets = StackOffsets {
        new_end: offset_of!(Self, fast.new_end),
        delete_span: offset_of!(Self, fast.delete_span),
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
            fast: FastPath::new(),
            ready: AtomicBool::new(false),
            is_built: AtomicBool::new(false),
            has_classes: AtomicBool::new(false),
            instruments: Instruments::new(),
            wrong_sizes: AtomicU64::new(0),
            relief: Relief::new(),
            watch: C::Watch::NEW,
            caches: CacheTable::new(),
            limits: CacheLimits::new(),
            slab: ManuallyDrop::new(C::Slab::NEW),
            mappings: Mappings::new(),
            large: LargeCounts::new(),
            misses: [const { AtomicU8::new(0) }; classes::COUNT + 1],
            deferral: Deferral::new(),
            withheld: Withheld::new(),
            footprint: Footprint::new(),
            cache: ManuallyDrop::new(C::Cache::NEW),
            built: UnsafeCell::new(MaybeUninit::uninit()),
            #[cfg(feature = "groups")]
            groups: Groups::new(),
            #[cfg(feature = "heaps")]
            own: OwnHeaps::new(),
        }
    }

    /// Initialises the stack, with options of its page cache. Only one thread may call this, until
    /// it succeeds.
    ///
    /// # Errors
    /// The OS's refusal. `init` may then be called again, and continues where it failed.
    ///
    /// # Panics
    /// If the stack is ready already.
    pub fn init(
        &self,
        os: &'static dyn Os,
        options: &StackOptions<C::Pages>,
        cache: &<C::Cache as CachedPages>::Options,
    ) -> OsResult<()> {
        assert!(!self.is_ready(), "a stack is initialised once");
        self.fast.percpu.init(os)?;
        if !self.is_built.load(Ordering::Acquire) {
            self.build(os, options, cache)?;
        }
        if options.heap {
            let slot = self.fast.percpu.current();
            if options.pages.faults.populate {
                self.fast.percpu.area().populate(os, slot);
            }
            self.create_classes()?;
            let zones = self.built().pages.zones();
            zones.begin(zones.node_of(slot));
        }
        let arena = self.built().pages.arena();
        let base = arena.base().as_ptr() as usize;
        self.fast.base.store(base, Ordering::Relaxed);
        debug_assert!(base.is_multiple_of(1 << FRAME_SHIFT), "the first kind is that of the base");
        let kinds = self.built().pages.frames().kinds().as_ptr();
        self.fast.kinds.store(kinds.wrapping_sub(base >> FRAME_SHIFT), Ordering::Relaxed);
        self.has_classes.store(options.heap, Ordering::Release);
        self.ready.store(true, Ordering::Release);
        self.watch.start(self, &options.checks);
        self.open_fast_paths();
        Ok(())
    }

    fn build(
        &self,
        os: &'static dyn Os,
        options: &StackOptions<C::Pages>,
        cache: &<C::Cache as CachedPages>::Options,
    ) -> OsResult<()> {
        let slots = self.fast.percpu.area().slots();
        let pages = PageAllocator::build(os, &options.pages, slots)?;
        pages.zones().budget().set_marks(options.marks);
        let metadata = Metadata::new(os);
        pages.memory().set_keeps(!options.bounds_footprint);
        let built = Built {
            pages,
            metadata,
            setup: SlabSetup { declared_cpus: options.pages.declared_cpus, options: options.slab },
            guards_slabs: options.checks.harden,
            cache: *cache,
        };
        // SAFETY: one thread initialises, and others read `built` only once `is_built` is set.
        unsafe { (*self.built.get()).write(built) };
        self.is_built.store(true, Ordering::Release);
        Ok(())
    }

    fn create_classes(&self) -> OsResult<()> {
        for class in self.caches.count() + 1..=classes::COUNT {
            let name = classes::name(class);
            let name = core::str::from_utf8(name.as_bytes()).unwrap_or("malloc");
            let params = CacheParams { size: classes::SIZES[class] as usize, align: 16 };
            let id = self.create_cache(name, &params, &CacheOptions::default())?;
            assert!(id.index() == class, "classes are the first caches");
        }
        self.caches.keep_apart();
        Ok(())
    }

    pub(super) fn create_cache(
        &self,
        name: &str,
        params: &CacheParams,
        options: &CacheOptions,
    ) -> OsResult<CacheId> {
        let cache = create_cache(&self.context(), &*self.slab, name, params, options)?;
        if cache.id().place().is_some() {
            return Ok(cache.id());
        }
        let number = cache.id().index();
        self.fast.strides[number].store(cache.stride() as u32, Ordering::Relaxed);
        // The test avoids a write, because a page that is not written takes no memory.
        if self.fast.links[number].load(Ordering::Relaxed) != cache.link_bytes() as u32 {
            self.fast.links[number].store(cache.link_bytes() as u32, Ordering::Relaxed);
        }
        self.fast.geometry[number].set(cache);
        if C::Slab::LOOKS_AT_FREES {
            self.fast.is_free_closed.store(self.slab.looks_at_frees(), Ordering::Relaxed);
        }
        Ok(cache.id())
    }

    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        C::Watch::IS_ANY && self.instruments.are_on()
    }

    fn sees_frees(&self) -> bool {
        C::Watch::IS_ANY && self.instruments.see_frees()
    }

    /// Sets the limits of the fast paths, to 0 where an instrument has to see requests.
    #[cold]
    #[inline(never)]
    pub(super) fn open_fast_paths(&self) {
        let order = Ordering::SeqCst;
        let state = || (self.instruments.get(), self.fast.are_operators_open.load(order));
        let mut seen = state();
        loop {
            let are_on = self.is_watched()
                || cfg!(feature = "heaps") && self.instruments.has(Instrument::Groups);
            let small_end = if self.has_classes() && !are_on { classes::LARGEST + 1 } else { 0 };
            let span = if self.sees_frees() { 0 } else { self.arena().span_bytes() };
            self.fast.span.store(span, order);
            self.fast.small_end.store(small_end, order);
            self.fast.delete_span.store(if seen.1 { span } else { 0 }, order);
            self.fast.new_end.store(if seen.1 { small_end } else { 0 }, order);
            // If another thread switched an instrument, this loop may have undone its newer limits.
            let now = state();
            if now == seen {
                return;
            }
            seen = now;
        }
    }

    pub(super) fn switch_instrument(&self, instrument: Instrument, on: bool) {
        self.instruments.switch(instrument, on);
        if self.is_ready() {
            self.open_fast_paths();
        }
    }

    /// Opens the fast paths of the operators of C++, or closes them: where the program has replaced
    /// a function that they would call by default, they must do so. They are closed at first.
    pub fn open_operators(&self, are_open: bool) {
        self.fast.are_operators_open.store(are_open, Ordering::SeqCst);
        if self.is_ready() {
            self.open_fast_paths();
        }
    }

    /// Returns whether [`init`](Self::init) has succeeded.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn built(&self) -> &Built<C> {
        assert!(self.is_built.load(Ordering::Acquire), "the stack is not initialised");
        // SAFETY: `is_built` is set after `built` was written, and `built` never changes again.
        unsafe { (*self.built.get()).assume_init_ref() }
    }

    pub(super) fn context(&self) -> SlabContext<'_, C::PerCpu> {
        let built = self.built();
        let Built { pages, metadata, setup, .. } = built;
        SlabContext {
            percpu: &self.fast.percpu,
            zones: pages.zones(),
            pages: built,
            metadata,
            caches: &self.caches,
            limits: &self.limits,
            setup,
            emptied: Default::default(),
        }
    }

    pub(super) fn known_cache(&self, id: CacheId) -> &Cache {
        self.caches.get(id).expect("cache numbers come from create_cache")
    }

    #[inline]
    pub(super) fn pages(&self) -> &PageAllocator<C::Pages> {
        &self.built().pages
    }

    pub(super) fn has_classes(&self) -> bool {
        self.has_classes.load(Ordering::Acquire)
    }

    pub(super) fn arena(&self) -> &Arena {
        self.built().pages.arena()
    }

    pub(super) fn frames(&self) -> &FrameTable {
        self.built().pages.frames()
    }

    /// The frame of an address in the window. Also brings the span of the fast paths up to date.
    pub(super) fn pfn(&self, address: *const u8) -> Option<Pfn> {
        self.refresh_span();
        self.arena().pfn(address)
    }

    pub(super) fn refresh_span(&self) {
        let span = self.arena().span_bytes();
        if self.fast.span.load(Ordering::Relaxed) < span && !self.sees_frees() {
            self.open_fast_paths();
        }
    }

    pub(super) fn address(&self, pfn: Pfn) -> Object {
        self.arena().address(pfn)
    }
}

/// Returns whether a request of this size can be served at all.
pub fn is_sane(size: usize) -> bool {
    size <= LARGEST_REQUEST
}

const _: () = assert!(FRAME_SHIFT == 12 && Kind::NONE.0 == 0 && Order::ZERO.get() == 0);
