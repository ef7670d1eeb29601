//! `malloc` and its relatives: the fast paths, and the paths behind them.

use super::{Entry, Misuse, Stack, StackConfig, is_sane};
use crate::frame::{FRAME_BYTES, FRAME_SHIFT, Kind, MigrateType, Order, PAGEBLOCK_BYTES, Pfn};
use crate::heap::{LARGEST_BLOCK, classes};
use crate::pcp::Page;
use crate::slab::{CacheId, Geometry, Reclaim, SlabPolicy};
use quarry_sys::clear::clear;
use quarry_sys::percpu::{Object, PerCpu, Push};
use quarry_sys::primitive::Ordering;

/// Alignment that every allocation has.
pub const MIN_ALIGN: usize = 16;

/// Requests of a class that a coarser one serves. With 16 or 32 nothing more is saved.
const MISSES_OF_COLD_CLASS: u8 = 8;

/// What an address in the window belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Object(CacheId),
    Pages(Pfn),
    Mapping(Pfn),
}

impl<C: StackConfig> Stack<C> {
    /// The fast path of an allocation: `None` means [`alloc_slow`](Self::alloc_slow), also for
    /// a stack that is not ready. O(1), no lock, no atomic read-modify-write.
    #[inline(always)]
    pub fn alloc_fast(&self, size: usize) -> Option<Object> {
        if size >= self.fast.small_end.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: `small_end` is 0 or `classes::LARGEST + 1`.
        let class = unsafe { classes::of_unchecked(size) };
        C::Slab::alloc_fast(&self.fast.percpu, class)
    }

    /// Allocates `size` bytes aligned to 16; `None` where there is no memory, `size` is above
    /// `isize::MAX`, or the stack is not ready.
    pub fn alloc_slow(&self, size: usize) -> Option<Object> {
        if size > classes::LARGEST {
            return self.alloc_large(size, MIN_ALIGN).map(|(object, _)| object);
        }
        if !self.has_classes() {
            return None;
        }
        let (class, inner) = (classes::of(size), self.inner());
        let serving = self.serving(class);
        if serving != class
            && let Some(object) = C::Slab::alloc_fast(&self.fast.percpu, serving)
        {
            return Some(object);
        }
        let take = |class| inner.slab.alloc_slow(&self.context(), inner.caches.get(class)?);
        let frames = inner.caches.get(serving).map_or(1, |cache| cache.order().frames());
        // Where there is no memory for slabs, what either class has left serves.
        let object = self
            .with_reclaim(frames, || take(serving))
            .or_else(|| take(class))
            .or_else(|| take(classes::coarse(class)));
        self.bound_footprint();
        object
    }

    /// The class that serves a request that the array of its own class could not. Each class that
    /// is used keeps pages in memory that no other can use, and most programs ask for a few objects
    /// of many sizes: a class has to be missed some times before it has slabs of its own.
    fn serving(&self, class: CacheId) -> CacheId {
        let misses = &self.misses[class.index()];
        let count = misses.load(Ordering::Relaxed);
        if count >= MISSES_OF_COLD_CLASS {
            return class;
        }
        // A count that is lost to another thread is one more miss.
        misses.store(count + 1, Ordering::Relaxed);
        classes::coarse(class)
    }

    /// Both.
    #[inline]
    pub fn alloc(&self, size: usize) -> Option<Object> {
        match self.alloc_fast(size) {
            Some(object) => Some(object),
            None => self.alloc_slow(size),
        }
    }

    /// Allocates `size` bytes at a multiple of `align`, a power of two; `None` as for
    /// [`alloc_slow`](Self::alloc_slow).
    pub fn alloc_aligned(&self, size: usize, align: usize) -> Option<Object> {
        self.alloc_any(size, align).map(|(object, _)| object)
    }

    /// Allocates `size` bytes that are all zero. What is known to be zero is not cleared again.
    pub fn alloc_zeroed(&self, size: usize) -> Option<Object> {
        self.alloc_zeroed_aligned(size, MIN_ALIGN)
    }

    /// Both: zeroed, and at a multiple of `align`, a power of two.
    pub fn alloc_zeroed_aligned(&self, size: usize, align: usize) -> Option<Object> {
        let (object, dirty) = self.alloc_any(size, align)?;
        // SAFETY: the allocation has at least `size` bytes and nobody else knows it.
        unsafe { clear(object, size.min(dirty)) };
        Some(object)
    }

    /// Whether the size classes of `malloc` exist. Without them their numbers may be other caches'.
    fn has_classes(&self) -> bool {
        self.fast.small_end.load(Ordering::Acquire) != 0
    }

    /// Whatever serves the request; the bytes behind so many first ones are known to be zero.
    fn alloc_any(&self, size: usize, align: usize) -> Option<(Object, usize)> {
        debug_assert!(align.is_power_of_two());
        if align <= MIN_ALIGN && size <= classes::LARGEST {
            return Some((self.alloc(size)?, size));
        }
        match classes::of_aligned(size, align.max(MIN_ALIGN)) {
            Some(_) if !self.has_classes() => None,
            Some(class) => Some((self.cache_alloc(class)?, size)),
            None => self.alloc_large(size, align),
        }
    }

    /// A block of pages or a mapping; the bytes behind so many first ones are known to be zero.
    fn alloc_large(&self, size: usize, align: usize) -> Option<(Object, usize)> {
        if !self.is_ready() || !is_sane(size) || !is_sane(align) {
            return None;
        }
        let frames = crate::heap::frames_of(size.max(1))?;
        if self.is_hopeless(frames) {
            return None;
        }
        let attempt = || self.alloc_frames(frames, size, align);
        let taken = attempt().or_else(|| {
            self.after_reclaim(frames, || {
                if size > LARGEST_BLOCK {
                    // What caches gave back is no longer counted, but still in memory: a mapping
                    // would come on top of it, and a control group's limit does not wait for a
                    // look.
                    self.purge_free();
                }
                attempt()
            })
        });
        self.bound_footprint();
        taken
    }

    /// Whether no reclaim can make room for so many frames: they are more than the limit, or they
    /// are a good part of the window and live mappings leave fewer addresses. (Less than that is
    /// not refused by a count that others are about to change.)
    fn is_hopeless(&self, frames: u32) -> bool {
        const GOOD_PART: u32 = 64;
        let (arena, zones) = (self.arena(), self.pages().zones());
        if frames > arena.frames().min(zones.budget().limit()) {
            return true;
        }
        if frames <= arena.frames() / GOOD_PART {
            return false;
        }
        let of_zones: usize = zones.all().map(|zone| zone.managed() as usize * FRAME_BYTES).sum();
        let taken = arena.pageblocks_taken() * PAGEBLOCK_BYTES;
        let live = taken.saturating_sub(of_zones).saturating_sub(self.cached_bytes());
        frames as usize * FRAME_BYTES > arena.bytes().saturating_sub(live)
    }

    fn alloc_frames(&self, frames: u32, size: usize, align: usize) -> Option<(Object, usize)> {
        let inner = self.inner();
        if size <= LARGEST_BLOCK && align <= LARGEST_BLOCK {
            let order = Order::covering((align / FRAME_BYTES).max(1) as u32);
            let slot = self.fast.percpu.current();
            let page = inner.pages.alloc_exact(slot, frames, MigrateType::Movable, order)?;
            return Some((self.adopt_block(page, frames), if page.zeroed { 0 } else { size }));
        }
        let mapping = inner.mappings.alloc(inner.pages, frames, align)?;
        self.large.mappings.note_allocated();
        Some((self.address(mapping.pfn), mapping.dirty_bytes))
    }

    /// Makes frames that have been taken a block of the heap.
    pub(super) fn adopt_block(&self, page: Page, frames: u32) -> Object {
        self.frames().set_link(page.pfn, frames);
        self.frames().set_kind(page.pfn, 1, Kind::PAGES);
        self.large.blocks.note_allocated();
        if page.zeroed {
            self.inner().slab.reclaim(&self.context(), Reclaim::Pressed);
        }
        self.address(page.pfn)
    }

    /// The kind and geometry of the cache whose object starts at `address`, and its offset in the
    /// window. O(1), one byte read per frame. Any address may be given, also null.
    #[inline(always)]
    pub(super) fn object_fast(&self, address: *mut u8) -> Option<(u8, &Geometry, usize)> {
        let span = self.fast.span.load(Ordering::Acquire);
        let offset = (address as usize).wrapping_sub(self.fast.base.load(Ordering::Relaxed));
        if offset >= span {
            return None;
        }
        let kinds = self.fast.kinds.load(Ordering::Relaxed);
        let kind = kinds.wrapping_add(address as usize >> FRAME_SHIFT);
        // SAFETY: `span` is set after `kinds`, which has an entry for every frame of the span, and
        // begins a base's worth of frames before the first: see `FastPath`.
        let kind = unsafe { (*kind).load(Ordering::Relaxed) };
        let geometry = &self.fast.geometry[kind as usize];
        geometry.is_object(offset).then_some((kind, geometry, offset))
    }

    /// The fast path of a free: false means [`free_slow`](Self::free_slow). O(1), no lock, no
    /// atomic read-modify-write, one byte read per frame. Any address may be given, also null.
    ///
    /// # Safety
    /// If an allocation starts at `address`, nobody uses it any more.
    #[inline(always)]
    pub unsafe fn free_fast(&self, address: *mut u8) -> bool {
        let Some((kind, geometry, offset)) = self.object_fast(address) else { return false };
        // SAFETY: a geometry that knows objects belongs to a cache, whose number is its index; an
        // address inside the window is not null.
        let (id, object) =
            unsafe { (CacheId::new_unchecked(kind), Object::new_unchecked(address)) };
        let slab = || geometry.slab(offset);
        // SAFETY: an object of this cache starts at the address, and nobody uses it (caller).
        unsafe { C::Slab::free_fast(&self.fast.percpu, id, object, slab) == Push::Stored }
    }

    /// Frees an allocation; reports a pointer that is none and aborts.
    ///
    /// # Safety
    /// As [`free_fast`](Self::free_fast).
    pub unsafe fn free_slow(&self, object: Object) {
        match self.owner(Entry::Free, object.as_ptr()) {
            // SAFETY: an object of this cache starts there, and nobody uses it (caller's promise).
            Owner::Object(id) => unsafe { self.cache_free(id, object) },
            Owner::Pages(pfn) => {
                let frames = self.frames().link(pfn);
                self.frames().set_kind(pfn, 1, Kind::NONE);
                self.free_block(pfn, frames);
                self.large.blocks.note_freed();
            }
            Owner::Mapping(pfn) => {
                let inner = self.inner();
                inner.mappings.free(inner.pages, pfn);
                self.large.mappings.note_freed();
            }
        }
    }

    /// Both.
    ///
    /// # Safety
    /// As [`free_fast`](Self::free_fast).
    #[inline]
    pub unsafe fn free(&self, object: Object) {
        // SAFETY: the caller's promise is passed on.
        unsafe {
            if !self.free_fast(object.as_ptr()) {
                self.free_slow(object);
            }
        }
    }

    /// What starts at `address`; reports anything else and aborts.
    pub(super) fn owner(&self, entry: Entry, address: *mut u8) -> Owner {
        let Some(pfn) = self.is_ready().then(|| self.pfn(address)).flatten() else {
            self.misuse(entry, address, Misuse::Foreign);
        };
        let kind = self.frames().kind(pfn);
        if kind.is_cache() {
            let id = CacheId::new(kind.0 as usize);
            let offset = address as usize - self.fast.base.load(Ordering::Relaxed);
            if !self.fast.geometry[id.index()].is_object(offset) {
                self.misuse(entry, address, Misuse::InsideObject(id));
            }
            return Owner::Object(id);
        }
        let is_start = address as usize & (FRAME_BYTES - 1) == 0;
        match kind {
            Kind::PAGES if is_start => Owner::Pages(pfn),
            Kind::MAPPING if is_start => Owner::Mapping(pfn),
            Kind::PAGES | Kind::MAPPING => self.misuse(entry, address, Misuse::InsideBlock),
            _ => self.misuse(entry, address, self.unowned(pfn)),
        }
    }
}
