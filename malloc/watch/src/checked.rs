//! Requests under `QUARRY_DEBUG` and `QUARRY_HARDEN`, whose objects have records.
//!
//! Under these options each object of `malloc` has a record at the end of its slot
//! (`checks/record.rs` explains both). The end of a slot follows from the slab's geometry or the
//! block's length. Objects of caches that the program has created have no record.

use super::checker::{Allocation, Checker, Storage, is_of_malloc};
use super::checks::{Checks, STRIPES, Seal, Shape, Slot, WAYS};
use quarry_mm::frame::{Kind, MetadataKind, PageblockIndex, Pfn};
use quarry_mm::heap::CheckFlags;
use quarry_mm::heap::classes;
use quarry_mm::slab::cache_of;
use quarry_mm::stack::{
    Entry, Instrument, MIN_ALIGN, Misuse, Request, Stack, StackConfig, StackHost, is_sane,
    with_headroom,
};
use quarry_sys::percpu::Object;
use quarry_sys::prefetch::{LINE, prefetch};
use quarry_sys::primitive::{AtomicUsize, Ordering};

/// Maximum numbers of objects, and of their bytes, in the one quarantine of `QUARRY_DEBUG`, and in
/// the quarantine that each stripe has under hardening.
const QUARANTINE_OF_DEBUG: (usize, usize) = (16 << 10, 16 << 20);
const QUARANTINE_OF_HARDEN: (usize, usize) = (4 << 10, 256 << 10);

/// Words of objects that are ready for random order, on each stripe.
const STRIPE_WAYS: usize = (classes::COUNT + 1) * WAYS;

/// Bytes of the largest class that is allocated in random order, from up to [`WAYS`] ready objects.
const LARGEST_SHUFFLED: usize = 2048;

impl<C: StackConfig> Checker<'_, C> {
    pub(super) fn start_records(&self) {
        let (metadata, options) = (self.stack.metadata(), self.options());
        if !options.have_records() || !self.stack.has_classes() {
            return;
        }
        let (count, (objects, most)) = match options.harden {
            true => (STRIPES, QUARANTINE_OF_HARDEN),
            false => (1, QUARANTINE_OF_DEBUG),
        };
        for stripe in &self.checks.stripes[..count] {
            let room = metadata.alloc(objects * size_of::<Slot>(), 16, MetadataKind::Other);
            let Ok(room) = room else { break };
            // SAFETY: the memory is zeroed, of this size, and never given back.
            unsafe { stripe.quarantine.lock().give(room.as_ptr().cast(), objects, most) };
        }
        let bytes = STRIPES * STRIPE_WAYS * size_of::<AtomicUsize>();
        if options.harden
            && let Ok(room) = metadata.alloc(bytes, 64, MetadataKind::Other)
        {
            self.checks.shuffled.store(room.as_ptr().cast(), Ordering::Release);
        }
        if options.harden {
            self.start_zero_sized();
            let is_all = options.debug == CheckFlags::NONE;
            self.checks.is_hardened.store(is_all, Ordering::Release);
        }
        let instrument = if options.harden { Instrument::Harden } else { Instrument::Debug };
        self.stack.switch_instrument(instrument, true);
    }

    /// Allocates an object with a record, in a slot with `room` bytes more than needed.
    pub(super) fn alloc_roomy(&self, request: Request, room: usize) -> Option<Object> {
        let Request { size, align, zeroed } = request;
        if !is_sane(size) || !is_sane(align) || !self.stack.has_classes() {
            return None;
        }
        if size == 0
            && let Some(object) = self.alloc_zero_sized(align)
        {
            return Some(object);
        }
        let class = if size <= classes::LARGEST { classes::of(size).index() } else { 0 };
        let flags = self.options().flags_of(class);
        let shape = Shape::of(size, align.max(MIN_ALIGN), flags);
        let slot = self.take_slot(&shape, align, zeroed, room)?;
        self.make_ready(slot, shape, zeroed)
    }

    #[inline(never)]
    pub(super) fn make_ready(&self, slot: Slot, shape: Shape, zeroed: bool) -> Option<Object> {
        let parts = self.parts(slot, shape);
        let object = Object::new(core::ptr::with_exposed_provenance_mut(parts.user().start))?;
        // SAFETY: the slot is ours, and the program does not know it yet; a slot made for an object
        // with OWNER has tracks.
        unsafe {
            if slot.bytes <= classes::LARGEST {
                if zeroed {
                    parts.user().fill(0);
                } else {
                    parts.poison_new();
                }
            }
            parts.arm();
            if shape.flags.has(CheckFlags::OWNER) {
                let tracks = slot.tracks();
                self.note_caller(&tracks.allocated);
                tracks.freed.clear();
            }
            slot.record().set(self.secret(), &shape);
        }
        Some(object)
    }

    /// Allocates the slot of an object; if there is no memory, frees all objects that wait to be
    /// freed, and tries again. A large slot is zero if `zeroed` is true.
    fn take_slot(&self, shape: &Shape, align: usize, zeroed: bool, room: usize) -> Option<Slot> {
        let least = shape.slot_bytes()?.checked_add(room)?;
        let is_large = least > classes::LARGEST;
        let mut request = Request { size: least, align, zeroed: zeroed && is_large };
        if is_large && self.guard_frames(quarry_mm::heap::frames_of(least)?) > 0 {
            let page = self.page_bytes();
            request.size = least.checked_next_multiple_of(page)?.checked_add(page)?;
            request.align = align.max(page);
        }
        let attempt = || {
            if is_large { self.stack.alloc_unseen(request) } else { self.alloc_shuffled(request) }
        };
        let object = attempt().or_else(|| if self.free_waiting() { attempt() } else { None })?;
        let slot = self.slot_at(object.as_ptr())?;
        if is_large {
            self.protect_guard_page(slot);
        }
        Some(slot)
    }

    /// Allocates a small object: a random one of the objects that are ready for its class.
    fn alloc_shuffled(&self, request: Request) -> Option<Object> {
        loop {
            let fresh = self.stack.alloc_unseen(request)?;
            let object = self.shuffled(fresh, request.size, request.align);
            if object.is_some() {
                return object;
            }
        }
    }

    /// Exchanges an object for a random one of those that are ready for such requests; `None` if
    /// there was none in that place.
    #[inline(never)]
    pub(super) fn shuffled(&self, fresh: Object, size: usize, align: usize) -> Option<Object> {
        let ready = self.checks.shuffled.load(Ordering::Acquire);
        if ready.is_null() || align > MIN_ALIGN || size > LARGEST_SHUFFLED {
            return Some(fresh);
        }
        prefetch(fresh.as_ptr().wrapping_add(size.saturating_sub(LINE)));
        let stripe = self.stripe();
        let first = stripe * STRIPE_WAYS + classes::of(size).index() * WAYS;
        // SAFETY: the table has WAYS words for each class and stripe; it is never given back.
        let way = unsafe { &*ready.add(first + self.checks.random(stripe) % WAYS) };
        let taken = way.swap(fresh.as_ptr().expose_provenance(), Ordering::AcqRel);
        Object::new(core::ptr::with_exposed_provenance_mut(taken))
    }

    /// Frees the objects that are ready for random order; returns whether there were any.
    pub(super) fn free_shuffled(&self) -> bool {
        let ready = self.checks.shuffled.load(Ordering::Acquire);
        let mut any = false;
        for place in 0..if ready.is_null() { 0 } else { STRIPES * STRIPE_WAYS } {
            // SAFETY: the table has WAYS words for each class and stripe; it is never given back.
            let taken = unsafe { &*ready.add(place) }.swap(0, Ordering::AcqRel);
            if let Some(object) = Object::new(core::ptr::with_exposed_provenance_mut(taken)) {
                any = true;
                // SAFETY: the object was allocated, and no other code has it.
                unsafe { self.stack.free_unseen(object) };
            }
        }
        any
    }

    /// The live allocation at `object`, if it has a record or lies between guard pages. Aborts and
    /// reports if the object is not in use or starts elsewhere, or its record was overwritten.
    #[inline]
    pub(super) fn seen(&self, entry: Entry, object: Object) -> Option<Allocation> {
        if let Some(number) = self.checks.guarded_at(object.as_ptr()) {
            return Some(self.seen_guarded(entry, object, number));
        }
        if !self.have_records() || !self.stack.instruments.see_frees() {
            return None;
        }
        if let Some(number) = self.checks.zero_sized.find(object.as_ptr().addr()) {
            return Some(self.seen_zero_sized(entry, object, number));
        }
        self.seen_record(entry, object.as_ptr())
    }

    #[inline(never)]
    #[cold]
    fn seen_record(&self, entry: Entry, address: *mut u8) -> Option<Allocation> {
        let Some(pfn) = self.arena().pfn(address) else {
            self.stack.misuse(entry, address, Misuse::Foreign)
        };
        let kind = self.frames().kind(pfn);
        let cache = cache_of(self.frames(), pfn);
        // These have no record: objects of other caches, samples of the heap profile, pages, and
        // memory of own heaps.
        let has_none = [Kind::SAMPLED, Kind::BARE, Kind::OWN].contains(&kind);
        if has_none || cache.is_some_and(|id| !is_of_malloc(id)) {
            return None;
        }
        let Some(slot) = self.slot_at(address) else {
            self.misuse_without_slot(entry, address, pfn);
        };
        slot.prefetch();
        // SAFETY: the slot is memory of a slab, a block or a mapping in use.
        let record = unsafe { slot.record() };
        let (seal, shape) = (record.seal(self.secret()), record.shape());
        if seal == Seal::Broken {
            self.report_broken(entry, address, slot);
        }
        let (start, size) = (self.parts(slot, shape).user().start, shape.size);
        let seen = Allocation { storage: Storage::Slot(slot, shape), address: start, size };
        if start != address.addr() {
            let inside = cache.map_or(Misuse::InsideBlock, Misuse::InsideObject);
            self.misuse_of_seen_at(entry, address, &seen, inside);
        }
        if seal == Seal::Freed {
            let misuse = cache.map_or(Misuse::NothingInUse, Misuse::NotInUse);
            self.misuse_of_seen(entry, &seen, misuse);
        }
        Some(seen)
    }

    #[cold]
    #[inline(never)]
    fn misuse_without_slot(&self, entry: Entry, address: *mut u8, pfn: Pfn) -> ! {
        self.report_if_hidden(entry, address, pfn);
        let cache = cache_of(self.frames(), pfn);
        let misuse = cache.map_or(Misuse::Unowned(pfn), Misuse::InsideObject);
        self.stack.misuse(entry, address, misuse)
    }

    /// Frees an allocation that has a record or is guarded; returns false for any other allocation.
    ///
    /// # Safety
    /// The user of the object has given it up.
    #[inline(never)]
    pub(super) unsafe fn free_seen(&self, entry: Entry, object: Object) -> bool {
        let Some(seen) = self.seen(entry, object) else { return false };
        // SAFETY: the object is live, and its user has given it up (caller's promise).
        let mut buried = unsafe {
            match seen.storage {
                Storage::Slot(slot, shape) => {
                    if !Self::MAY_RECORD {
                        return false;
                    }
                    self.bury(entry, &seen, slot, shape)
                }
                Storage::Guarded(number) => {
                    self.free_guarded(entry, &seen, number);
                    None
                }
                Storage::ZeroSized(number) => {
                    self.free_zero_sized(entry, &seen, number);
                    None
                }
            }
        };
        if buried.is_none() {
            return true;
        }
        loop {
            self.exchange(&mut buried);
            let Some(due) = buried.take() else { return true };
            self.release(due);
        }
    }

    /// Marks an object as freed; returns its slot if the object is to be put into quarantine.
    ///
    /// # Safety
    /// The object is live, and its user has given it up.
    #[inline(never)]
    unsafe fn bury(
        &self,
        entry: Entry,
        seen: &Allocation,
        slot: Slot,
        shape: Shape,
    ) -> Option<Slot> {
        let parts = self.parts(slot, shape);
        // SAFETY: the slot holds a live object (caller's promise); if another thread frees the
        // object too, one of the two detects it here.
        unsafe {
            if !slot.record().free(self.secret()) {
                self.misuse_of_seen(entry, seen, Misuse::NothingInUse);
            }
            if let Some(damage) = parts.damage() {
                self.report_damage(Some(entry), slot, shape, damage);
            }
            if shape.flags.has(CheckFlags::OWNER) {
                self.note_caller(&slot.tracks().freed);
            }
        }
        if slot.bytes > classes::LARGEST && self.hide_large(slot, shape) {
            return None;
        }
        // SAFETY: the object was live, and its user has given it up.
        unsafe { parts.bury() };
        Some(slot)
    }

    pub(super) fn free_waiting(&self) -> bool {
        let mut any = self.free_shuffled();
        for stripe in &self.checks.stripes {
            let next = || stripe.quarantine.lock_of_others()?.pop(true);
            while let Some(slot) = next() {
                self.release(slot);
                any = true;
            }
        }
        self.free_hidden() || any
    }
}

impl<C: StackConfig> Checker<'_, C> {
    /// `realloc` of an allocation with a record or between guard pages; `None` for any other one. A
    /// small object always moves, so that stale pointers to it are found. A large object stays in
    /// its slot if it fits and fills at least half of it. A large object that grows gets headroom.
    ///
    /// # Safety
    /// Same as [`Stack::realloc`].
    pub(super) unsafe fn realloc_if_seen(
        &self,
        object: Object,
        request: Request,
    ) -> Option<Option<Object>> {
        let (seen, size) = (self.seen(Entry::Realloc, object)?, request.size);
        if Self::MAY_RECORD
            && let Storage::Slot(slot, shape) = seen.storage
            // SAFETY: the object is live, and only the caller uses it (caller's promise).
            && unsafe { self.resize_checked(slot, shape, size) }
        {
            return Some(Some(object));
        }
        let grows = seen.size > classes::LARGEST && size > seen.size;
        let room = if grows { with_headroom(seen.size, size) - size } else { 0 };
        let new = match self.have_records() {
            true => self.alloc_roomy(request, room),
            false => self.stack.alloc_unseen(request),
        };
        if let Some(new) = new {
            // SAFETY: both objects have at least that many bytes and do not overlap; the old one is
            // live.
            unsafe {
                core::ptr::copy_nonoverlapping(object.as_ptr(), new.as_ptr(), seen.size.min(size));
                self.free_seen(Entry::Realloc, object);
            }
        }
        Some(new)
    }

    /// Resizes a large object in place to `size` bytes; false if it should move.
    ///
    /// # Safety
    /// The object is live, and only the caller uses it.
    // Not inlined: its variables take no room on the thread's stack while the caller allocates.
    #[inline(never)]
    unsafe fn resize_checked(&self, slot: Slot, shape: Shape, size: usize) -> bool {
        let resized = Shape { size, ..shape };
        let fits = resized.slot_bytes().is_some_and(|bytes| {
            slot.bytes > classes::LARGEST && bytes <= slot.bytes && bytes >= slot.bytes / 2
        });
        if !fits {
            return false;
        }
        let before = self.parts(slot, shape);
        // SAFETY: the object is live, and no other code uses it (caller's promise).
        unsafe {
            if let Some(damage) = before.damage() {
                self.report_damage(Some(Entry::Realloc), slot, shape, damage);
            }
            self.parts(slot, resized).arm();
            slot.record().set(self.secret(), &resized);
        }
        true
    }
}

impl Checks {
    /// Checks every object of `stack` (the stack of these checks) that has a record, in use or in
    /// quarantine. Reports the first forbidden write that it finds, and aborts. No other thread may
    /// be on a slow path. O(memory of the heap).
    pub fn look_at_all<C: StackConfig>(&self, stack: &Stack<C>) {
        if stack.has_classes() && self.options().have_records() {
            self.on(stack).look_at_all();
        }
    }
}

impl<C: StackConfig> Checker<'_, C> {
    fn look_at_all(&self) {
        for stripe in &self.checks.stripes {
            if let Some(mut quarantine) = stripe.quarantine.lock_of_others() {
                quarantine.all().for_each(|slot| self.look_at_freed(slot));
            }
        }
        for block in (0..self.arena().span_blocks()).map(PageblockIndex) {
            if self.arena().is_taken(block) {
                block.frames().for_each(|pfn| self.look_at_frame(pfn));
            }
        }
    }

    fn look_at_frame(&self, pfn: Pfn) {
        let kind = self.frames().kind(pfn);
        let address = self.arena().address(pfn);
        if self.checks.guarded_at(address.as_ptr()).is_some() {
            return;
        }
        if kind == Kind::PAGES || kind == Kind::MAPPING {
            let slot = self.slot_at(address.as_ptr());
            return slot.into_iter().for_each(|slot| self.look_at_live(slot));
        }
        let id = cache_of(self.frames(), pfn).filter(|id| is_of_malloc(*id));
        let Some(cache) = id.and_then(|id| self.stack.caches.get(id)) else { return };
        if !pfn.is_aligned(cache.order()) {
            return;
        }
        let first = address.as_ptr().expose_provenance() + cache.first_object();
        let bytes = cache.stride();
        for number in 0..cache.objects() as usize {
            self.look_at_live(Slot { start: first + number * bytes, bytes });
        }
    }

    fn look_at_live(&self, slot: Slot) {
        // SAFETY: the slot is memory of a slab, a block or a mapping in use.
        let record = unsafe { slot.record() };
        if record.seal(self.secret()) != Seal::Live {
            return;
        }
        let shape = record.shape();
        // SAFETY: the slot is memory of a slab, a block or a mapping in use.
        if let Some(damage) = unsafe { self.parts(slot, shape).damage() } {
            self.report_damage(None, slot, shape, damage);
        }
    }
}
