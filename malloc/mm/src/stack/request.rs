//! `malloc` and its relatives: the fast paths and the slow paths.

use super::call::{Entry, MIN_ALIGN, Misuse, Request};
use super::fast_path::NotFreed;
use super::instance::{Stack, StackConfig, Watch, is_sane};
use super::owner::Owner;
use crate::frame::{FRAME_BYTES, Kind, MigrateType, Order, PAGEBLOCK_BYTES, Pfn};
use crate::heap::{LARGEST_BLOCK, classes};
use crate::pcp::Page;
use crate::slab::{CacheId, SlabPolicy};
use quarry_sys::clear::clear;
use quarry_sys::percpu::{Object, PerCpu};
use quarry_sys::primitive::Ordering;

/// Number of a class's first misses that a coarser class serves. (16 or 32 saved no more memory.)
const MISSES_OF_COLD_CLASS: u8 = 8;

/// Requests from this size on get a block if a slab gets no memory: half a page at most is wasted.
pub(super) const SMALLEST_BLOCK: usize = FRAME_BYTES / 2;

impl<C: StackConfig> Stack<C> {
    fn alloc_from_class(&self, size: usize) -> Option<Object> {
        if size > classes::LARGEST {
            return self.alloc_large(Request::of(size)).map(|(object, _)| object);
        }
        if !self.has_classes() {
            return None;
        }
        let class = classes::of(size);
        let serving = self.serving(class);
        if (serving != class || self.is_watched())
            && let Some(object) = C::Slab::alloc_fast(&self.fast.percpu, serving)
        {
            return Some(object);
        }
        let object = self.alloc_reclaiming(serving);
        let object = object.or_else(|| self.alloc_elsewhere(size, class));
        self.bound_footprint(self.known_cache(serving).order().frames());
        object
    }

    #[cold]
    #[inline(never)]
    fn alloc_elsewhere(&self, size: usize, class: CacheId) -> Option<Object> {
        self.alloc_of_cache(class)
            .or_else(|| self.alloc_of_cache(classes::coarse(class)))
            .or_else(|| self.alloc_block_of_class(size))
    }

    /// A block of pages for a request whose class finds no memory for a slab: a slab needs up to 32
    /// frames, the block only those of the request. (SLUB takes a slab of the smallest order that
    /// holds an object in such a case, `oo_order(s->min)`, Linux 2.6.27 to 6.18.)
    #[cold]
    fn alloc_block_of_class(&self, size: usize) -> Option<Object> {
        if size < SMALLEST_BLOCK {
            return None;
        }
        let (block, _) = self.alloc_frames(crate::heap::frames_of(size)?, Request::of(size))?;
        Some(block)
    }

    /// The class that serves a request after a miss. Each class in use keeps pages that no other
    /// class can use, and most programs request a few objects of many sizes. So a coarser class
    /// serves the first misses of a class.
    fn serving(&self, class: CacheId) -> CacheId {
        let misses = &self.misses[class.index()];
        let count = misses.load(Ordering::Relaxed);
        if count >= MISSES_OF_COLD_CLASS {
            return class;
        }
        misses.store(count + 1, Ordering::Relaxed);
        classes::coarse(class)
    }

    /// Usable bytes that a request is about to get; `None` if it is too large.
    #[must_use]
    pub fn size_for(&self, size: usize, align: usize) -> Option<usize> {
        if !is_sane(size) || !is_sane(align) {
            return None;
        }
        let Some(class) = classes::of_aligned(size, align) else {
            return Some(crate::heap::frames_of(size.max(1))? as usize * FRAME_BYTES);
        };
        let is_cold = self.misses[class.index()].load(Ordering::Relaxed) < MISSES_OF_COLD_CLASS;
        let class = if is_cold && align <= MIN_ALIGN { classes::coarse(class) } else { class };
        Some(classes::SIZES[class.index()] as usize)
    }

    /// Allocates for a request, which may be just a number of bytes. `None` if there is no memory,
    /// size or alignment are above `isize::MAX`, or the stack is not ready. O(1) if the running CPU
    /// has an object of the class.
    #[inline]
    pub fn alloc(&self, request: impl Into<Request>) -> Option<Object> {
        let request = request.into();
        if request.align <= MIN_ALIGN
            && let Some(object) = self.fast.alloc(request.size)
        {
            if request.zeroed {
                // SAFETY: the object has at least `size` bytes, and only we know it.
                unsafe { clear(object, request.size) };
            }
            return Some(object);
        }
        self.alloc_slow(request)
    }

    /// [`alloc`](Self::alloc) after the fast path has refused the size, or if the alignment is no
    /// object's.
    #[inline(never)]
    pub fn alloc_slow(&self, request: Request) -> Option<Object> {
        if self.is_watched() {
            return self.alloc_watched(request);
        }
        self.watch.tick(self);
        let object = self.alloc_unseen(request);
        if object.is_some() {
            self.refresh_span();
        }
        object
    }

    #[cold]
    fn alloc_watched(&self, request: Request) -> Option<Object> {
        let object = self.watch.alloc(self, request, || self.alloc_unseen(request));
        self.bound_footprint(0);
        object
    }

    pub(super) fn alloc_unseen(&self, request: Request) -> Option<Object> {
        if request.is_plain() {
            return self.alloc_from_class(request.size);
        }
        let (object, dirty) = self.alloc_any(request)?;
        if request.zeroed {
            // SAFETY: the allocation has at least `size` bytes, and only we know it.
            unsafe { clear(object, request.size.min(dirty)) };
        }
        Some(object)
    }

    /// Allocates; also returns the offset from which on all bytes are known to be zero.
    fn alloc_any(&self, request: Request) -> Option<(Object, usize)> {
        let Request { size, align, .. } = request;
        debug_assert!(align.is_power_of_two());
        if align <= MIN_ALIGN && size <= classes::LARGEST {
            return Some((self.alloc_from_class(size)?, size));
        }
        match classes::of_aligned(size, align.max(MIN_ALIGN)) {
            Some(_) if !self.has_classes() => None,
            Some(class) => Some((self.cache(class).alloc()?, size)),
            None => self.alloc_large(request),
        }
    }

    /// Same as [`alloc_any`](Self::alloc_any), by a block of pages or a mapping.
    fn alloc_large(&self, request: Request) -> Option<(Object, usize)> {
        let Request { size, align, .. } = request;
        if !self.is_ready() || !is_sane(size) || !is_sane(align) {
            return None;
        }
        let frames = crate::heap::frames_of(size.max(1))?;
        if self.is_hopeless(frames) {
            return None;
        }
        let attempt = || self.alloc_frames(frames, request);
        let taken = attempt().or_else(|| {
            self.after_reclaim(frames, || {
                if size > LARGEST_BLOCK {
                    // Memory that caches gave back has left the budget, but is still resident. A
                    // control group would count it beside the new mapping, so it goes back first.
                    self.mappings.purge_all(self.pages().zones());
                }
                attempt()
            })
        });
        self.bound_footprint(frames);
        taken
    }

    /// Returns whether no reclaim can make room for `frames`: they exceed the window or the limit,
    /// or are more than 1/64 of the window while live mappings leave too few addresses free.
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
        let live = taken.saturating_sub(of_zones).saturating_sub(self.mappings.cached_bytes());
        frames as usize * FRAME_BYTES > arena.bytes().saturating_sub(live)
    }

    fn alloc_frames(&self, frames: u32, request: Request) -> Option<(Object, usize)> {
        let Request { size, align, zeroed } = request;
        if size <= LARGEST_BLOCK && align <= LARGEST_BLOCK {
            let order = Order::covering((align / FRAME_BYTES).max(1) as u32);
            let slot = self.fast.percpu.current();
            let page = self.pages().alloc_exact(slot, frames, MigrateType::Movable, order)?;
            return Some((self.adopt_block(page, frames), if page.zeroed { 0 } else { size }));
        }
        let mapping = self.mappings.alloc(self.pages().zones(), frames, align, zeroed)?;
        self.large.mappings.note_allocated();
        Some((self.address(mapping.pfn), mapping.dirty_bytes))
    }

    pub(super) fn adopt_block(&self, page: Page, frames: u32) -> Object {
        self.frames().set_link(page.pfn, frames);
        self.frames().set_kind(page.pfn, 1, Kind::PAGES);
        self.large.blocks.note_allocated();
        if page.zeroed {
            self.slab.relieve(&self.context());
        }
        self.address(page.pfn)
    }

    /// Frees an allocation that no instrument recorded.
    ///
    /// # Safety
    /// Same as for [`free`](Self::free).
    pub(super) unsafe fn free_unseen(&self, object: Object) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.free_owned(self.owner(Entry::Free, object.as_ptr()), object) };
    }

    /// # Safety
    /// Same as for [`free`](Self::free), and `owner` is the object's owner.
    unsafe fn free_owned(&self, owner: Owner, object: Object) {
        match owner {
            // SAFETY: an object of this cache starts there and is given up (caller's promise).
            Owner::Object(id) => unsafe { self.cache(id).free(object) },
            Owner::Pages(pfn) => self.free_whole_block(pfn, self.frames().link(pfn)),
            Owner::Sampled(pfn) => {
                let frames = self.frames_of_block(pfn);
                self.watch.forget(self, pfn);
                self.free_whole_block(pfn, frames);
            }
            Owner::Mapping(pfn) => {
                self.watch.forget(self, pfn);
                self.mappings.free(self.pages().zones(), pfn);
                self.large.mappings.note_freed();
            }
            #[cfg(feature = "heaps")]
            Owner::Own(pfn) => self.own_free(pfn, object.as_ptr()),
        }
    }

    fn free_whole_block(&self, pfn: Pfn, frames: u32) {
        self.frames().set_kind(pfn, 1, Kind::NONE);
        self.free_block(pfn, frames);
        self.large.blocks.note_freed();
    }

    /// Frees an allocation; aborts if none starts there. O(1) for most objects.
    ///
    /// # Safety
    /// The user of the allocation has given it up.
    #[inline]
    pub unsafe fn free(&self, object: Object) {
        // SAFETY: the caller's promise is passed on.
        unsafe {
            if let Err(refusal) = self.fast.free(object.as_ptr()) {
                self.free_refused(object, refusal);
            }
        }
    }

    /// Frees an allocation that the fast path has just refused for this reason; aborts if none
    /// starts there, or if it is free already.
    ///
    /// # Safety
    /// Same as for [`free`](Self::free).
    #[inline(never)]
    pub unsafe fn free_refused(&self, object: Object, refusal: NotFreed) {
        // SAFETY: the caller's promise is passed on.
        if unsafe { self.watch.free(self, object) } {
            return;
        }
        self.watch.tick(self);
        let address = object.as_ptr();
        let found = match refusal {
            // SAFETY: an object of this cache starts there and is given up (caller's promise).
            NotFreed::Full(id) => return unsafe { self.cache(id).free_slow(object) },
            NotFreed::Duplicate(id) => Err(Misuse::NotInUse(id)),
            NotFreed::Kind(kind) => self.find_in(self.fast.pfn(address), kind, address),
            NotFreed::Outside => self.find(address),
        };
        // SAFETY: the caller's promise is passed on; the owner was found at the object's address.
        unsafe { self.free_owned(self.accept(Entry::Free, address, found), object) };
    }
}
