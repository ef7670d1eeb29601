//! Own heaps: their frames, and the requests of the program (see `crate::own_heap`).
//!
//! [`own_take`](Stack::own_take) and [`own_give`](Stack::own_give) are allowed outside the gate:
//! they change bits and counts, which the child of a fork can mend. All else takes frames or gives
//! them back, inside the gate, and without the lock of a heap.
//!
//! A *rest* has the objects that a group has left when it ended. It gives out an object only to
//! `realloc`, keeps no empty slab, and ends with its last object.

use super::call::{Entry, MIN_ALIGN, Misuse, Request};
use super::fast_path::stays;
use super::instance::{Stack, StackConfig, Watch, is_sane};
use super::instruments::Instrument;
use crate::frame::{FRAME_BYTES, Kind, MigrateType, Order, Pfn};
use crate::heap::{LARGEST_BLOCK, classes, frames_of};
use crate::own_heap::{Contents, LARGEST, Missed, OwnHeapId, OwnHeaps, Use};
use crate::pcp::PageRequest;
use crate::slab::SlabPages;
use crate::zone::AllocFlags;
use quarry_sys::clear::clear;
use quarry_sys::own_stack;
use quarry_sys::percpu::{Object, PerCpu};
use quarry_sys::primitive::Ordering;

/// Gone frames that a stack keeps apart at least, 4 MiB, and the share of the frames in use that it
/// keeps if that is more.
const GONE_LEAST: u32 = 1024;
const GONE_SHARE: u32 = 8;

/// The class of a request that slabs serve. An object is aligned to the largest power of two that
/// divides the size of its class, up to a page.
fn class_of(size: usize, align: usize) -> Option<u8> {
    if size > LARGEST || align > FRAME_BYTES {
        return None;
    }
    let class = classes::of_aligned(size, align.max(MIN_ALIGN));
    class.map(|class| class.index() as u8).filter(|class| usize::from(*class) <= OwnHeaps::CLASSES)
}

impl<C: StackConfig> Stack<C> {
    /// Takes an object of at least `size` bytes, if the heap has one at hand; after `None`, call
    /// [`own_alloc`](Self::own_alloc). Allowed outside the gate. O(1).
    #[inline(always)]
    pub fn own_take(&self, id: OwnHeapId, size: usize) -> Option<Object> {
        if size > LARGEST || self.instruments.has(Instrument::Profile) {
            return None;
        }
        Object::new(self.own.take_next(id, classes::of(size).index() as u8) as *mut u8)
    }

    fn own_take_for(&self, id: OwnHeapId, class: u8, request: Request) -> Result<Object, Missed> {
        let base = self.fast.base.load(Ordering::Relaxed);
        let address = self.own.take(id, class, base)?;
        let object = Object::new(address as *mut u8).ok_or(Missed::Empty)?;
        if request.zeroed {
            // SAFETY: the object has at least `size` bytes, and only we know it.
            unsafe { clear(object, request.size) };
        }
        Ok(object)
    }

    /// Serves a request from a heap.
    ///
    /// # Errors
    /// The reason, which is never [`Missed::Empty`].
    #[inline(never)]
    pub fn own_alloc(&self, id: OwnHeapId, request: Request) -> Result<Object, Missed> {
        let Request { size, align, .. } = request;
        if !is_sane(size) || !is_sane(align) {
            return Err(Missed::NoMemory);
        }
        let points = self.watch.own_points(self, size);
        if points > 0
            && let Ok(object) = self.own_alloc_large(id, request)
        {
            self.own_sample(id, object, request, points);
            return Ok(object);
        }
        let Some(class) = class_of(size, align) else { return self.own_alloc_large(id, request) };
        let class = if align <= MIN_ALIGN { self.own.serving(id, class)? } else { class };
        loop {
            match self.own_take_for(id, class, request) {
                Err(Missed::Empty) => {}
                done => return done,
            }
            match self.own_grow(id, class) {
                Ok(()) => {}
                // A slab has at least two objects, and the request needs only one.
                Err(Missed::Dead) => return Err(Missed::Dead),
                Err(_) if size >= FRAME_BYTES / 2 => return self.own_alloc_large(id, request),
                Err(missed) => return Err(missed),
            }
        }
    }

    #[cold]
    fn own_sample(&self, id: OwnHeapId, object: Object, request: Request, points: u64) {
        let Request { size, align, .. } = request;
        let pfn = self.fast.pfn(object.as_ptr());
        let at = self.frames().link(pfn);
        let Some(slab) = self.own.slab(at) else { return };
        let usable = match class_of(size, align) {
            Some(class) => classes::SIZES[usize::from(class)] as usize,
            None => slab.object_bytes(),
        };
        let record = self.watch.begin_own_sample(self, (pfn, slab.frames()), size, points);
        if record != 0 {
            self.own.set_sample(id, at, record, usable);
        }
    }

    /// Gives what a heap holds beyond objects in use back, at its limit.
    #[cold]
    #[inline(never)]
    pub(super) fn own_make_room(&self, id: OwnHeapId) {
        self.own.rewind(id, |address| {
            let address = address as *mut u8;
            self.own_place(self.fast.pfn(address), address)
        });
        self.own_release_chain(self.own.detach_empty(&self.groups, id));
    }

    fn own_charge(&self, id: OwnHeapId, frames: u32) -> Result<(), Missed> {
        match self.own.charge(&self.groups, id, frames) {
            Err(Missed::Limit | Missed::GroupLimit(_)) => {
                self.own_make_room(id);
                self.own.charge(&self.groups, id, frames)
            }
            done => done,
        }
    }

    #[inline(never)]
    fn own_grow(&self, id: OwnHeapId, class: u8) -> Result<(), Missed> {
        let order = match self.own.charge_slab(&self.groups, id, class) {
            Err(Missed::Limit | Missed::GroupLimit(_)) => {
                self.own_make_room(id);
                self.own.charge_slab(&self.groups, id, class)
            }
            done => done,
        }?;
        let least = OwnHeaps::least_order(class);
        let take = |order: u8| {
            let slot = self.fast.percpu.current();
            let node = self.pages().zones().node_of(slot);
            let (order, flags) = (Order::new(order), AllocFlags::default());
            let request = PageRequest { order, migratetype: MigrateType::Unmovable, flags, node };
            self.built().alloc(slot, request).map(|page| (page.pfn, order.frames()))
        };
        let taken = take(order).or_else(|| if order > least { take(least) } else { None });
        let taken = taken.or_else(|| self.after_reclaim(1 << least, || take(least)));
        let Some((first, frames)) = taken else {
            self.own.uncharge(&self.groups, id, 1 << order);
            return Err(Missed::NoMemory);
        };
        self.own.uncharge(&self.groups, id, (1 << order) - frames);
        let grown = self.own_adopt(id, (first, frames), Contents::Objects(class));
        self.bound_footprint(frames);
        grown.map(|_| ())
    }

    /// Gives frames, for which the heap is charged, to the heap.
    fn own_adopt(
        &self,
        id: OwnHeapId,
        (first, count): (Pfn, u32),
        contents: Contents,
    ) -> Result<u32, Missed> {
        let described = self.own.describe(id, (first, count), contents, &self.built().metadata);
        let Some(at) = described else {
            self.own_free_frames((first, count), contents);
            self.own.uncharge(&self.groups, id, count);
            return Err(Missed::NoMemory);
        };
        // Only the first frame of a block has an owner. `free` reads the kind of others, too, but
        // finds no allocation there.
        let owned = if matches!(contents, Contents::Objects(_)) { count } else { 1 };
        for frame in 0..owned {
            self.frames().set_link(first.plus(frame), at);
        }
        self.frames().set_kind(first, owned, Kind::OWN);
        match contents {
            Contents::Objects(_) => {}
            Contents::Block => self.large.blocks.note_allocated(),
            Contents::Mapping => self.large.mappings.note_allocated(),
        }
        if self.own.attach(id, at) {
            return Ok(at);
        }
        // Rare, so it takes no part of the thread's stack.
        own_stack::run(|| self.own_release(at));
        Err(Missed::Dead)
    }

    #[inline(never)]
    fn own_alloc_large(&self, id: OwnHeapId, request: Request) -> Result<Object, Missed> {
        let Request { size, align, zeroed } = request;
        let count = frames_of(size.max(1)).ok_or(Missed::NoMemory)?;
        self.own_charge(id, count)?;
        let is_block = size <= LARGEST_BLOCK && align <= LARGEST_BLOCK;
        let taken = self.own_take_frames(count, request, is_block);
        let taken = taken.or_else(|| {
            self.after_reclaim(count, || self.own_take_frames(count, request, is_block))
        });
        let Some((first, dirty)) = taken else {
            self.own.uncharge(&self.groups, id, count);
            return Err(Missed::NoMemory);
        };
        let contents = if is_block { Contents::Block } else { Contents::Mapping };
        self.own_adopt(id, (first, count), contents)?;
        self.bound_footprint(count);
        let object = self.address(first);
        if zeroed {
            // SAFETY: the allocation has at least `size` bytes, and only we know it.
            unsafe { clear(object, size.min(dirty)) };
        }
        Ok(object)
    }

    /// Takes frames for one allocation; also returns how many bytes at their front may not be 0.
    #[inline(never)]
    fn own_take_frames(
        &self,
        count: u32,
        Request { size, align, zeroed }: Request,
        is_block: bool,
    ) -> Option<(Pfn, usize)> {
        if !is_block {
            let mapping = self.mappings.alloc(self.pages().zones(), count, align, zeroed)?;
            return Some((mapping.pfn, mapping.dirty_bytes));
        }
        let order = Order::covering((align / FRAME_BYTES).max(1) as u32);
        let slot = self.fast.percpu.current();
        let page = self.pages().alloc_exact(slot, count, MigrateType::Movable, order)?;
        Some((page.pfn, if page.zeroed { 0 } else { size }))
    }

    /// Frees the object at an address that the fast path has refused as of the kind `OWN`, if it is
    /// in use in a slab. Allowed outside the gate. After `None`, call
    /// [`free_refused`](Self::free_refused); else, the result is a slab for
    /// [`own_trim`](Self::own_trim), or 0. O(1).
    ///
    /// # Safety
    /// If an allocation starts at `address`, its user has given it up.
    #[inline]
    pub unsafe fn own_give(&self, address: *mut u8) -> Option<u32> {
        let (at, pfn, offset) = self.own_place(self.fast.pfn(address), address);
        let given = self.own.give((at, false), (pfn, offset), address as usize);
        given.map(|has_many| if has_many { at } else { 0 })
    }

    /// Gives a slab back that has become empty, if its heap has many.
    pub fn own_trim(&self, at: u32) {
        let heap = self.own.slab(at).map_or(0, |slab| slab.heap());
        if self.own.detach_emptied(&self.groups, at) {
            self.own_release(at);
            self.own_end_rest(heap);
        }
    }

    /// Frees an allocation in a frame of the kind `OWN`.
    pub(super) fn own_free(&self, pfn: Pfn, address: *mut u8) {
        let (at, pfn, offset) = self.own_place(pfn, address);
        if let Some(has_many) = self.own.give((at, true), (pfn, offset), address as usize) {
            if has_many {
                self.own_trim(at);
            }
        } else if let Some(heap) = self.own.detach(&self.groups, at, pfn) {
            self.own_release(at);
            self.own_end_rest(heap);
        } else {
            let misuse = self.own_find(pfn, address).err().unwrap_or(Misuse::NothingInUse);
            self.misuse(Entry::Free, address, misuse);
        }
    }

    /// The heap of the allocation in a frame of the kind `OWN`.
    pub(super) fn own_heap_of(&self, pfn: Pfn) -> Option<OwnHeapId> {
        let number = self.own.slab(self.frames().link(pfn))?.heap();
        let heap = self.own.heap(number).filter(|heap| heap.is_live())?;
        Some(OwnHeapId { number, generation: heap.generation() })
    }

    /// The heap in which an allocation in use starts at an address.
    pub fn own_heap_at(&self, address: *mut u8) -> Option<OwnHeapId> {
        let pfn = self.is_ready().then(|| self.pfn(address)).flatten()?;
        (self.frames().kind(pfn) == Kind::OWN).then(|| self.own_heap_of(pfn)).flatten()
    }

    /// [`realloc`](Self::realloc) of an allocation of a heap, which the result is of, too.
    ///
    /// # Errors
    /// The reason; the allocation is then unchanged.
    ///
    /// # Safety
    /// Same as for [`realloc`](Self::realloc).
    pub unsafe fn own_realloc(&self, object: Object, request: Request) -> Result<Object, Missed> {
        let address = object.as_ptr();
        let found = self.pfn(address).ok_or(Misuse::Foreign);
        let found = found.and_then(|pfn| self.own_find(pfn, address));
        let pfn = found.unwrap_or_else(|misuse| self.misuse(Entry::Realloc, address, misuse));
        let id = self.own_heap_of(pfn).ok_or(Missed::Dead)?;
        let (old, size) = (self.own_bytes(pfn), request.size);
        if !is_sane(size) {
            return Err(Missed::NoMemory);
        }
        let is_near = if old > LARGEST { frames_of(size) == frames_of(old) } else { false };
        if is_near || stays(old, size) && old <= 2 * LARGEST {
            return Ok(object);
        }
        if old > LARGEST_BLOCK && size > LARGEST_BLOCK / 2 && request.align <= FRAME_BYTES {
            return self.own_resize_mapping(id, pfn, size);
        }
        let new = self.own_alloc(id, request);
        self.own_rewind_rest(id.number);
        let new = match new {
            Ok(new) => new,
            Err(_) if size <= old => return Ok(object),
            Err(missed) => return Err(missed),
        };
        // SAFETY: both allocations have at least `min(old, size)` bytes and do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(address, new.as_ptr(), old.min(size)) };
        self.own_free(pfn, address);
        Ok(new)
    }

    fn own_resize_mapping(&self, id: OwnHeapId, pfn: Pfn, size: usize) -> Result<Object, Missed> {
        let at = self.frames().link(pfn);
        let held = self.own.slab(at).map_or(0, |slab| slab.frames());
        let count = frames_of(size).ok_or(Missed::NoMemory)?;
        self.own_charge(id, count.saturating_sub(held))?;
        let frames = self.frames();
        frames.set_link(pfn, held);
        frames.set_kind(pfn, 1, Kind::MAPPING);
        let moved = self.mappings.resize(self.pages().zones(), pfn, count);
        let first = moved.unwrap_or(pfn);
        frames.set_link(first, at);
        frames.set_kind(first, 1, Kind::OWN);
        if moved.is_none() {
            self.own.uncharge(&self.groups, id, count.saturating_sub(held));
            return Err(Missed::NoMemory);
        }
        self.own.move_mapping(id, at, (first, count));
        self.own.uncharge(&self.groups, id, held.saturating_sub(count));
        self.large.mappings.note_resized();
        self.bound_footprint(count.saturating_sub(held));
        Ok(self.address(first))
    }

    /// Frees all that lives in a heap, which keeps its slabs. O(slabs).
    ///
    /// # Errors
    /// [`Missed::Dead`].
    pub fn reset_own_heap(&self, id: OwnHeapId) -> Result<(), Missed> {
        self.own_release_chain(self.own.reset(&self.groups, id)?);
        Ok(())
    }

    /// Frees all that lives in a heap, and ends it. O(slabs).
    ///
    /// # Errors
    /// [`Missed::Dead`].
    pub fn destroy_own_heap(&self, id: OwnHeapId) -> Result<(), Missed> {
        let end_sample = |record| self.watch.end_own_sample(self, record);
        self.own_release_chain(self.own.destroy(&self.groups, id, end_sample)?);
        let used = self.pages().zones().budget().used();
        self.own_release_gone((used / GONE_SHARE).max(GONE_LEAST));
        Ok(())
    }

    /// Lets a heap, if it is a rest, give out no further object, and ends it if it has none.
    pub(super) fn own_rewind_rest(&self, number: u32) {
        if let Some(id) = self.rest(number) {
            self.own_make_room(id);
            self.own_end_rest(number);
        }
    }

    /// Ends a heap if it is a rest that has become empty.
    pub(super) fn own_end_rest(&self, number: u32) {
        let is_empty =
            |id: &OwnHeapId| self.own.heap(id.number).is_some_and(|heap| heap.charged() == 0);
        if let Some(id) = self.rest(number).filter(is_empty) {
            // Fails if another thread was first.
            let _ = self.destroy_own_heap(id);
        }
    }

    fn rest(&self, number: u32) -> Option<OwnHeapId> {
        let heap = self.own.heap(number).filter(|it| it.serves() == Use::Rest && it.is_live())?;
        Some(OwnHeapId { number, generation: heap.generation() })
    }
}
