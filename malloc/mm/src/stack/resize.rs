//! `realloc`, `malloc_usable_size`, and the check of sizes that the program claims.
//!
//! `realloc` resizes in place if possible, moves many pages by page tables, and copies otherwise.
//! An allocation that must move because it grows by at most an eighth gets more than it requests,
//! because the program will probably let it grow again: its old bytes and a quarter, or a half from
//! 8 KiB on, where untouched bytes are often not in memory. So a block that grows by small steps to
//! `n` bytes moves at most `log(n) / log(1.25)` times, and at most `4 n` bytes are copied in all
//! (`2 n` from 8 KiB on). The price: if a block of `old` bytes grows to `size > old`, it gets at
//! most `1.25 * old * 9/8 < 1.41 * size` bytes, or `1.5 * old * 9/8 < 1.69 * size`. An allocation
//! that grows by more, like a container that doubles, gets what it requests.
//!
//! Blocks of pages grow into the free frames after them. A block that has to move in order to grow
//! goes, if possible, in front of as many free frames as it has itself; these frames stay free.

use super::call::{Entry, MIN_ALIGN, Misuse, Request};
use super::fast_path::{stays, stays_after_all};
use super::instance::{Stack, StackConfig, Watch, is_sane};
use super::owner::Owner;
use super::request::SMALLEST_BLOCK;
use crate::frame::{FRAME_BYTES, FRAME_SHIFT, Kind, PAGEBLOCK_BYTES, Pfn};
use crate::heap::{LARGEST_BLOCK, classes, frames_of};
use crate::slab::SlabPolicy;
use quarry_sys::percpu::{Object, PerCpu};
use quarry_sys::primitive::Ordering;

/// Bytes to allocate where `old` bytes move to become `size`: see the head of the file.
pub fn with_headroom(old: usize, size: usize) -> usize {
    let grows_by_little = size > old && size - old <= old / 8;
    if !grows_by_little || size > LARGEST_BLOCK {
        return size;
    }
    let more = if old < 2 * FRAME_BYTES { old / 4 } else { old / 2 };
    (old + more).min(if size <= classes::LARGEST { classes::LARGEST } else { LARGEST_BLOCK })
}

/// Returns whether a block of `held` frames stays for `size` bytes: it may waste a third of them,
/// the headroom of a block that grows.
fn block_stays(held: u32, size: usize) -> bool {
    let fits = |frames: u32| frames <= held && held - frames <= held / 3;
    size > classes::LARGEST && frames_of(size).is_some_and(fits)
}

impl<C: StackConfig> Stack<C> {
    /// Usable bytes of the allocation that starts at an address. Any address is allowed; the
    /// checks, while they are on, abort for a wrong one.
    ///
    /// # Errors
    /// None starts there, or the object is free and the running CPU would soon hand it out.
    pub fn usable_size(&self, object: Object) -> Result<usize, Misuse> {
        if let Some(size) = self.watch.size(self, Entry::UsableSize, object) {
            return Ok(size);
        }
        let owner = self.find(object.as_ptr())?;
        if let Owner::Object(id) = owner {
            // SAFETY: an object of this cache starts there.
            let start = unsafe { self.cache(id).start(object) };
            if self.slab.is_parked(self.context().with(self.known_cache(id)), start) {
                return Err(Misuse::NotInUse(id));
            }
        }
        Ok(self.bytes_of(owner))
    }

    /// Checks that `object` can be what a request of `size` bytes at a multiple of `align`, a power
    /// of two, got, or a `realloc` to that size; without `align`, only that it is not too small. A
    /// wrong size is counted, but aborts only while the checks are on: some programs delete objects
    /// through a base class without a virtual destructor. They work with every other allocator,
    /// because the address alone decides what is freed.
    pub fn demand(&self, entry: Entry, object: Object, size: usize, align: Option<usize>) {
        if self.watch.demand(self, entry, object, size, align.unwrap_or(1)) {
            return;
        }
        let owner = self.owner(entry, object.as_ptr());
        let Some(align) = align else {
            if self.bytes_of(owner) < size {
                self.wrong_size(entry, object, size, owner);
            }
            return;
        };
        let class = classes::of_aligned(size, align.max(MIN_ALIGN));
        let is_right = match (owner, class) {
            (Owner::Object(id), _) if align <= MIN_ALIGN => {
                classes::SERVED.get(id.index()).is_some_and(|served| served.has(size))
            }
            (Owner::Object(id), class) => class == Some(id),
            (Owner::Sampled(_), Some(class)) => {
                self.bytes_of(owner) == classes::SIZES[class.index()] as usize
            }
            // A slab found no memory, so this request got a block (see `alloc_block_of_class`).
            (Owner::Pages(pfn), Some(_)) if align <= MIN_ALIGN && size >= SMALLEST_BLOCK => {
                frames_of(size) == Some(self.frames_of_block(pfn))
            }
            (Owner::Pages(_) | Owner::Mapping(_), Some(_)) => false,
            #[cfg(feature = "heaps")]
            (Owner::Own(_), _) => size <= self.bytes_of(owner),
            (Owner::Pages(_) | Owner::Mapping(_) | Owner::Sampled(_), None) => {
                // The C++ library rounds a size up to the alignment, and 0 bytes up to 1.
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

    #[cold]
    #[inline(never)]
    fn wrong_size(&self, entry: Entry, object: Object, claimed: usize, owner: Owner) {
        self.wrong_sizes.fetch_add(1, Ordering::Relaxed);
        if self.watch.have_records() {
            let bytes = self.bytes_of(owner);
            self.misuse(entry, object.as_ptr(), Misuse::WrongSize { claimed, bytes })
        }
    }

    /// Returns whether `realloc` to `size` bytes leaves a block or a mapping where it is, and as
    /// long as it is. O(1), no lock. Any address is allowed.
    pub fn large_stays(&self, object: Object, size: usize) -> bool {
        let address = object.as_ptr();
        let held = || self.frames().link(self.fast.pfn(address));
        match self.fast.kind_at(address) {
            Some(Kind::PAGES) => block_stays(held(), size),
            Some(Kind::MAPPING) => frames_of(size) == Some(held()),
            _ => false,
        }
    }

    /// Resizes an allocation to a request, which may be just a number of bytes: in place if
    /// possible, else by moving it. The contents up to the smaller size stay; additional bytes are
    /// not cleared. The alignment must be that of the first request. `None` if there is no memory;
    /// the allocation is then unchanged.
    ///
    /// # Safety
    /// Only the caller uses `object`, and not after success.
    pub unsafe fn realloc(&self, object: Object, request: impl Into<Request>) -> Option<Object> {
        let request = request.into();
        let stays = self.fast.stride(object.as_ptr()).is_some_and(|old| stays(old, request.size));
        if stays && request.align <= MIN_ALIGN {
            return Some(object);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.realloc_slow(object, request) }
    }

    /// # Safety
    /// Same as for [`realloc`](Self::realloc).
    unsafe fn realloc_slow(&self, object: Object, request: Request) -> Option<Object> {
        let Request { size, align, .. } = request;
        if !is_sane(size) {
            return None;
        }
        // SAFETY: the caller's promise is passed on.
        if let Some(resized) = unsafe { self.watch.realloc(self, object, request) } {
            return resized;
        }
        let owner = self.owner(Entry::Realloc, object.as_ptr());
        #[cfg(feature = "heaps")]
        if let Owner::Own(_) = owner {
            // SAFETY: the caller's promise is passed on.
            return unsafe { self.own_realloc(object, request) }.ok();
        }
        let old = self.bytes_of(owner);
        // With checks on, only an allocation without a record comes here: a sampled one, or a block
        // of pages. It gets a record now.
        let have_records = self.watch.have_records();
        // A mapping that page tables move starts at a pageblock, so it loses a larger alignment.
        if !have_records
            && align <= PAGEBLOCK_BYTES
            && let Some(resized) = self.resize_in_place(owner, object, old, size)
        {
            return Some(resized);
        }
        let new =
            if have_records { self.alloc(request) } else { self.alloc_to_grow(old, size, align) };
        let Some(new) = new else {
            return (size <= old).then_some(object);
        };
        // SAFETY: both allocations have at least `min(old, size)` bytes and do not overlap.
        unsafe {
            core::ptr::copy_nonoverlapping(object.as_ptr(), new.as_ptr(), old.min(size));
            self.free(object);
        }
        Some(new)
    }

    #[inline(never)]
    fn resize_in_place(
        &self,
        owner: Owner,
        object: Object,
        old: usize,
        size: usize,
    ) -> Option<Object> {
        match owner {
            Owner::Object(_) => stays_after_all(old, size).then_some(object),
            Owner::Sampled(_) if old <= classes::LARGEST => {
                stays_after_all(old, size).then_some(object)
            }
            Owner::Pages(pfn) | Owner::Sampled(pfn) => {
                let is_resized = size > classes::LARGEST && self.resize_block(pfn, size);
                is_resized.then_some(object)
            }
            Owner::Mapping(pfn) if size > LARGEST_BLOCK / 2 => self.resize_mapping(pfn, size),
            Owner::Mapping(_) => None,
            #[cfg(feature = "heaps")]
            Owner::Own(_) => None,
        }
    }

    #[inline(never)]
    fn resize_mapping(&self, pfn: Pfn, size: usize) -> Option<Object> {
        let (frames, zones) = (frames_of(size)?, self.pages().zones());
        let charged = self.mappings.charged(zones, pfn);
        let moved = self.mappings.resize(zones, pfn, frames)?;
        self.large.mappings.note_resized();
        self.watch.forget(self, moved);
        self.watch.count(self, moved, frames, size);
        let more = self.mappings.charged(zones, moved).saturating_sub(charged);
        if more > 0 {
            self.bound_footprint(more);
        }
        Some(self.address(moved))
    }

    /// Resizes a block in place; returns false if the frames after it are not free.
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
        if held - frames > held / 3 {
            self.note_resized(pfn, frames, size);
            self.pages().trim_exact(slot, pfn, held, frames);
        }
        true
    }

    fn note_resized(&self, pfn: Pfn, frames: u32, size: usize) {
        self.watch.forget(self, pfn);
        self.frames().set_link(pfn, frames);
        self.watch.count(self, pfn, frames, size);
        self.large.blocks.note_resized();
    }

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

    #[inline(never)]
    fn alloc_with_room(&self, size: usize) -> Option<Object> {
        let (slot, frames) = (self.fast.percpu.current(), frames_of(size)?);
        let page = self.pages().alloc_extent_with_room(slot, frames)?;
        let object = self.adopt_block(page, frames);
        self.watch.count(self, page.pfn, frames, size);
        Some(object)
    }
}
