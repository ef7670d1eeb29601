//! `realloc` and `malloc_usable_size`: in place where that is possible, by page tables where the
//! pages are many, else by copying.
//!
//! A program that asks for a little more will ask again. So an allocation that has to move because
//! it grows by at most an eighth gets a quarter more than its old bytes: a block that grows by
//! small steps to `n` bytes then moves at most `log(n) / log(1.25)` times, and `4 n` bytes are
//! copied in all. The price: such a block of `old` bytes that was asked to be `size > old` has at
//! most `1.25 * old * 9/8 < 1.41 * size` bytes. An allocation that grows by more, like that of a
//! container that doubles, gets what it asks for.
//!
//! Blocks of pages grow into the free frames after them. One that has to move because it grows is
//! put, if possible, where as many free frames as it takes follow it; these stay free.

use super::call::{Entry, MIN_ALIGN, Request};
use super::instance::{Stack, StackConfig, Watch, is_sane};
use super::misuse::Misuse;
use super::request::{Owner, SMALLEST_BLOCK};
use crate::frame::{FRAME_BYTES, FRAME_SHIFT, PAGEBLOCK_BYTES, Pfn};
use crate::heap::{LARGEST_BLOCK, classes, frames_of};
use crate::slab::{CacheId, ParkedObjects};
use quarry_sys::percpu::{Object, PerCpu};
use quarry_sys::primitive::Ordering;

/// Bytes to take for an allocation of `old` bytes that moves because it should have `size`; see the
/// module.
pub fn with_headroom(old: usize, size: usize) -> usize {
    let grows_by_little = size > old && size - old <= old / 8;
    if !grows_by_little || size > LARGEST_BLOCK {
        return size;
    }
    // Within the sizes that the same part of the heap serves.
    (old + old / 4).min(if size <= classes::LARGEST { classes::LARGEST } else { LARGEST_BLOCK })
}

/// Returns whether an object of `old` bytes stays for `size` bytes: it holds as many, and wastes at
/// most half.
#[inline(always)]
fn stays(old: usize, size: usize) -> bool {
    size.wrapping_sub(old / 2) <= old - old / 2
}

/// Returns whether a block of `held` frames can have `size` bytes, with nothing to be done.
fn block_stays(held: u32, size: usize) -> bool {
    let fits = |frames: u32| frames <= held && held - frames <= held / 4;
    size > classes::LARGEST && frames_of(size).is_some_and(fits)
}

impl<C: StackConfig> Stack<C> {
    /// The fast path of [`usable_size`](Self::usable_size), for objects of slabs: `None` means that
    /// it has to be called. O(1), no lock. Any address may be given, also null.
    #[inline(always)]
    pub fn usable_fast(&self, address: *mut u8) -> Option<usize> {
        let (kind, ..) = self.object_fast(address)?;
        Some(self.fast.strides[kind as usize].load(Ordering::Relaxed) as usize)
    }

    /// Same as [`usable_fast`](Self::usable_fast), but also refuses an object that seems to have
    /// been freed a moment ago.
    #[inline(always)]
    pub fn usable_fast_in_use(&self, object: Object) -> Option<usize> {
        let (kind, ..) = self.object_fast(object.as_ptr())?;
        // SAFETY: a geometry that knows objects belongs to a cache, whose number is its index.
        let id = unsafe { CacheId::new_unchecked(kind) };
        let is_in_use = !C::Slab::seems_parked(&self.fast.percpu, id, object);
        is_in_use.then(|| self.fast.strides[kind as usize].load(Ordering::Relaxed) as usize)
    }

    /// Bytes that the allocation at `object` has, at least what was asked for. Reports an object
    /// that the running CPU would hand out next, and aborts.
    pub fn usable_size(&self, object: Object) -> usize {
        if let Some(size) = self.watch.size(self, Entry::UsableSize, object) {
            return size;
        }
        let owner = self.owner(Entry::UsableSize, object.as_ptr());
        if let Owner::Object(id) = owner
            && self.inner().slab.is_parked(&self.context(), self.known_cache(id), object)
        {
            self.misuse(Entry::UsableSize, object.as_ptr(), Misuse::NotInUse(id));
        }
        self.bytes_of(owner)
    }

    fn bytes_of(&self, owner: Owner) -> usize {
        match owner {
            Owner::Object(id) => self.known_cache(id).stride(),
            Owner::Pages(pfn) | Owner::Mapping(pfn) => {
                (self.frames().link(pfn) as usize) << FRAME_SHIFT
            }
            Owner::Sampled(pfn) => {
                self.watch.sampled(self, pfn).map_or(0, |sampled| sampled.usable)
            }
        }
    }

    /// Returns whether `address` is an object of a slab that a request of `size` bytes can have
    /// got: the fast path of [`demand_size`](Self::demand_size). O(1), no lock. Any address may be
    /// given, also null.
    #[inline(always)]
    pub fn was_asked_fast(&self, address: *mut u8, size: usize) -> bool {
        let served = |(kind, ..): (u8, _, _)| classes::SERVED.get(kind as usize);
        self.object_fast(address).and_then(served).is_some_and(|served| served.has(size))
    }

    /// Demands that a request of `size` bytes at a multiple of `align`, a power of two, gets such
    /// an `object`, and that it has not been resized since. Another size is only counted, unless
    /// [`forgives_wrong_size`](Self::forgives_wrong_size) refuses; reports a pointer that is not an
    /// allocation, and aborts.
    pub fn demand_size(&self, entry: Entry, object: Object, size: usize, align: usize) {
        if self.watch.demand(self, entry, object, size, align) {
            return;
        }
        let owner = self.owner(entry, object.as_ptr());
        let class = classes::of_aligned(size, align.max(MIN_ALIGN));
        let is_right = match (owner, class) {
            (Owner::Object(id), _) if align <= MIN_ALIGN => {
                classes::SERVED.get(id.index()).is_some_and(|served| served.has(size))
            }
            (Owner::Object(id), class) => class == Some(id),
            (Owner::Sampled(_), Some(class)) => {
                self.bytes_of(owner) == classes::SIZES[class.index()] as usize
            }
            // There was no memory for a slab.
            (Owner::Pages(pfn), Some(_)) if align <= MIN_ALIGN && size >= SMALLEST_BLOCK => {
                frames_of(size) == Some(self.frames_of_block(pfn))
            }
            (Owner::Pages(_) | Owner::Mapping(_), Some(_)) => false,
            (Owner::Pages(_) | Owner::Mapping(_) | Owner::Sampled(_), None) => {
                // The C++ library rounds what it asks for up to the alignment, and asks for a byte
                // instead of nothing.
                let rounded =
                    size.max(1).checked_next_multiple_of(align.max(1)).and_then(frames_of);
                let held = (self.bytes_of(owner) >> FRAME_SHIFT) as u32;
                let least = frames_of(size.max(1));
                least.is_some_and(|least| least <= held)
                    && rounded.is_none_or(|most| held <= most.max(1))
            }
        };
        if !is_right {
            self.wrong_size(entry, object, size, owner);
        }
    }

    /// Demands that `object` has `size` bytes, with any size requested first; otherwise same as
    /// [`demand_size`](Self::demand_size).
    pub fn demand_room(&self, entry: Entry, object: Object, size: usize) {
        if self.watch.demand(self, entry, object, size, 1) {
            return;
        }
        let owner = self.owner(entry, object.as_ptr());
        if self.bytes_of(owner) < size {
            self.wrong_size(entry, object, size, owner);
        }
    }

    #[cold]
    #[inline(never)]
    fn wrong_size(&self, entry: Entry, object: Object, claimed: usize, owner: Owner) {
        if !self.forgives_wrong_size() {
            let bytes = self.bytes_of(owner);
            self.misuse(entry, object.as_ptr(), Misuse::WrongSize { claimed, bytes })
        }
    }

    /// Counts a wrong size; returns false to have it reported. The address alone decides what is
    /// freed, and programs that run on every other allocator delete objects through a base class
    /// without a virtual destructor. So a wrong size is an error only while the checks search for
    /// errors.
    pub fn forgives_wrong_size(&self) -> bool {
        self.wrong_sizes.fetch_add(1, Ordering::Relaxed);
        !self.watch.have_records()
    }

    /// Returns whether `address` is an object of a slab that can have `size` bytes where it is: the
    /// fast path of [`realloc`](Self::realloc). O(1), no lock. Any address may be given, also null.
    #[inline(always)]
    pub fn stays_fast(&self, address: *mut u8, size: usize) -> bool {
        self.usable_fast(address).is_some_and(|old| stays(old, size))
    }

    /// Returns whether `address` is a block of pages that can have `size` bytes unchanged: where a
    /// block grows by steps smaller than a page, most steps find this. O(1), no lock. Any address
    /// may be given, also null.
    #[inline]
    pub fn stays_block_fast(&self, address: *mut u8, size: usize) -> bool {
        let block = self.block_fast(address).filter(|_| !self.is_watched());
        block.is_some_and(|(_, held)| block_stays(held, size))
    }

    /// Moves the contents of an object to another one of `size` bytes or somewhat more, by fast
    /// paths alone, and hands the old object to `free`. Returns `None`, and does nothing, where
    /// they refuse.
    ///
    /// # Safety
    /// Only the caller uses `object`, and not after success; `free` frees it.
    #[inline]
    pub unsafe fn move_fast(
        &self,
        object: Object,
        size: usize,
        free: impl FnOnce(Object),
    ) -> Option<Object> {
        let old = self.usable_fast(object.as_ptr())?;
        let new = self.alloc_fast(with_headroom(old, size))?;
        // SAFETY: both have at least `min(old, size)` bytes and do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(object.as_ptr(), new.as_ptr(), old.min(size)) };
        free(object);
        Some(new)
    }

    /// Changes the size of an allocation, which may be just a number of bytes: in place where
    /// possible, else by moving; the contents up to the smaller size stay. An allocation that was
    /// requested at an alignment must be resized with the same one. Additional bytes are not
    /// cleared. `None` where there is no memory for a larger one; the allocation is unchanged then.
    ///
    /// # Safety
    /// Only the caller uses `object`, and not after success.
    pub unsafe fn realloc(&self, object: Object, request: impl Into<Request>) -> Option<Object> {
        let Request { size, align, .. } = request.into();
        if align <= MIN_ALIGN && self.stays_fast(object.as_ptr(), size) {
            return Some(object);
        }
        // SAFETY: the caller's promise is passed on; what has moved is freed once.
        unsafe {
            if align <= MIN_ALIGN
                && let Some(new) = self.move_fast(object, size, |object| self.free(object))
            {
                return Some(new);
            }
            self.realloc_aligned(object, size, align)
        }
    }

    /// Same as [`realloc`](Self::realloc), for an allocation at a multiple of `align`, a power of
    /// two, which the result keeps.
    ///
    /// # Safety
    /// Same as for [`realloc`](Self::realloc).
    pub unsafe fn realloc_aligned(
        &self,
        object: Object,
        size: usize,
        align: usize,
    ) -> Option<Object> {
        if !is_sane(size) {
            return None;
        }
        let request = Request::of(size).aligned(align);
        // SAFETY: the caller's promise is passed on.
        if let Some(resized) = unsafe { self.watch.realloc(self, object, request) } {
            return resized;
        }
        let owner = self.owner(Entry::Realloc, object.as_ptr());
        let old = self.bytes_of(owner);
        // Then all but samples have records, and so has what a sample becomes: a sample moves.
        let have_records = self.watch.have_records();
        // A mapping that moves by page tables moves to a pageblock.
        if !have_records
            && align <= PAGEBLOCK_BYTES
            && let Some(resized) = self.resize_in_place(owner, object, old, size)
        {
            return Some(resized);
        }
        let new =
            if have_records { self.alloc(request) } else { self.alloc_to_grow(old, size, align) };
        let Some(new) = new else {
            // An allocation that shrinks has memory enough.
            return (size <= old).then_some(object);
        };
        // SAFETY: both allocations have at least `min(old, size)` bytes and do not overlap.
        unsafe {
            core::ptr::copy_nonoverlapping(object.as_ptr(), new.as_ptr(), old.min(size));
            self.free(object);
        }
        Some(new)
    }

    /// Objects stay while they waste at most half, blocks while they waste at most a quarter, or
    /// are trimmed; mappings grow, shrink and move by page tables.
    #[inline(never)]
    fn resize_in_place(
        &self,
        owner: Owner,
        object: Object,
        old: usize,
        size: usize,
    ) -> Option<Object> {
        match owner {
            Owner::Object(_) => stays(old, size).then_some(object),
            Owner::Sampled(_) if old <= classes::LARGEST => stays(old, size).then_some(object),
            Owner::Pages(pfn) | Owner::Sampled(pfn) => {
                let is_resized = size > classes::LARGEST && self.resize_block(pfn, size);
                is_resized.then_some(object)
            }
            Owner::Mapping(pfn) if size > LARGEST_BLOCK / 2 => self.resize_mapping(pfn, size),
            Owner::Mapping(_) => None,
        }
    }

    /// Makes a mapping one of `size` bytes, in place or elsewhere.
    #[inline(never)]
    fn resize_mapping(&self, pfn: Pfn, size: usize) -> Option<Object> {
        let inner = self.inner();
        let frames = frames_of(size)?;
        let charged = inner.mappings.charged(inner.pages.zones(), pfn);
        let moved = inner.mappings.resize(inner.pages.zones(), pfn, frames)?;
        self.large.mappings.note_resized();
        self.watch.forget(self, moved);
        self.watch.count(self, moved, frames, size);
        let more = inner.mappings.charged(inner.pages.zones(), moved).saturating_sub(charged);
        if more > 0 {
            self.bound_footprint(more);
        }
        Some(self.address(moved))
    }

    /// Makes a block as large as `size` asks for, or leaves it as it is where it wastes at most a
    /// quarter; false where the frames after it are not free.
    #[inline(never)]
    fn resize_block(&self, pfn: Pfn, size: usize) -> bool {
        let Some(frames) = frames_of(size) else { return false };
        let (slot, held) = (self.fast.percpu.current(), self.frames_of_block(pfn));
        if frames > held {
            let is_extended = self.pages().extend_exact(slot, pfn, held, frames);
            if is_extended {
                self.note_resized(pfn, frames, size);
            }
            return is_extended;
        }
        if held - frames > held / 4 {
            self.note_resized(pfn, frames, size);
            self.pages().trim_exact(slot, pfn, held, frames);
        }
        true
    }

    /// Notes that a block of pages, or a sample, has `frames` frames from now on.
    fn note_resized(&self, pfn: Pfn, frames: u32, size: usize) {
        self.watch.forget(self, pfn);
        self.frames().set_link(pfn, frames);
        self.watch.count(self, pfn, frames, size);
        self.large.blocks.note_resized();
    }

    /// An allocation of `size` bytes or somewhat more, in place of one of `old` bytes; a block that
    /// grows is put where it can go on growing.
    #[inline(never)]
    fn alloc_to_grow(&self, old: usize, size: usize, align: usize) -> Option<Object> {
        let roomy = with_headroom(old, size);
        let is_block = (classes::LARGEST + 1..=LARGEST_BLOCK).contains(&roomy);
        if size > old && is_block && align <= FRAME_BYTES {
            let object = self.alloc_with_room(roomy);
            if object.is_some() {
                return object;
            }
        }
        let taken = if roomy > size { self.alloc(Request::of(roomy).aligned(align)) } else { None };
        taken.or_else(|| self.alloc(Request::of(size).aligned(align)))
    }

    /// A block with as much free memory after it.
    #[inline(never)]
    fn alloc_with_room(&self, size: usize) -> Option<Object> {
        let (slot, frames) = (self.fast.percpu.current(), frames_of(size)?);
        let page = self.pages().alloc_extent_with_room(slot, frames)?;
        let object = self.adopt_block(page, frames);
        self.watch.count(self, page.pfn, frames, size);
        Some(object)
    }

    /// Returns whether `object` is a block or a mapping that can have `size` bytes where it is,
    /// with nothing to be done. False also where it is an object.
    pub fn stays_large(&self, object: Object, size: usize) -> bool {
        let Some(frames) = frames_of(size) else { return false };
        if !self.is_ready() || self.watch.size(self, Entry::Realloc, object).is_some() {
            return false;
        }
        match self.owner(Entry::Realloc, object.as_ptr()) {
            Owner::Object(_) => false,
            Owner::Pages(pfn) | Owner::Sampled(pfn) => block_stays(self.frames_of_block(pfn), size),
            Owner::Mapping(pfn) => frames == self.frames().link(pfn),
        }
    }
}
