//! The checks of a stack, and how they find the slot or the guarded object of an address.

use super::checks::guards::{GuardedObject, POOL_BYTES, guarded_objects, nearest, page_of};
use super::checks::{Checks, Parts, Shape, Slot, Track, Tracked};
use core::ptr::NonNull;
use quarry_mm::frame::{Arena, FRAME_BYTES, FRAME_SHIFT, FrameTable, Kind, page_bytes};
use quarry_mm::heap::{CheckOptions, classes};
use quarry_mm::slab::{CacheId, cache_of};
use quarry_mm::stack::{Stack, StackConfig, StackHost, Watch};
use quarry_sys::clock::monotonic_ns;
use quarry_sys::percpu::Object;
use quarry_sys::primitive::{Ordering, task};

/// Frames of the largest object of a class: a class without slabs may hand out a block as long.
const MOST_OF_CLASS: u32 = (classes::LARGEST / FRAME_BYTES) as u32;

/// An allocation that has a record, or that is between guard pages.
#[derive(Clone, Copy)]
pub(super) struct Allocation {
    pub(super) storage: Storage,
    /// The address that the program uses.
    pub(super) address: usize,
    pub(super) size: usize,
}

#[derive(Clone, Copy)]
pub(super) enum Storage {
    Slot(Slot, Shape),
    Guarded(usize),
    ZeroSized(usize),
}

pub(super) struct Checker<'a, C: StackConfig> {
    pub(super) stack: &'a Stack<C>,
    pub(super) checks: &'a Checks,
}

impl Checks {
    /// The checks together with `stack`, which must be the stack of these checks.
    #[inline(always)]
    pub(super) fn on<'a, C: StackConfig>(&'a self, stack: &'a Stack<C>) -> Checker<'a, C> {
        Checker { stack, checks: self }
    }

    /// Returns false if the checks cannot know `object`. O(1): two loads while all checks are off.
    #[inline(always)]
    pub(super) fn may_know<C: StackConfig>(&self, stack: &Stack<C>, object: Object) -> bool {
        stack.instruments.see_frees() || self.guarded_at(object.as_ptr()).is_some()
    }

    /// The guarded object to whose page or guard an address belongs; `None` outside the pool. O(1).
    #[inline]
    pub(super) fn guarded_at(&self, address: *const u8) -> Option<usize> {
        let base = self.guards.base.load(Ordering::Acquire);
        let offset = address.addr().wrapping_sub(base);
        (base != 0 && offset < POOL_BYTES)
            .then(|| nearest(offset, self.guards.page.load(Ordering::Relaxed)))
    }
}

/// Returns whether this is the cache of a size class: only their objects have records.
pub(super) fn is_of_malloc(id: CacheId) -> bool {
    id.index() <= classes::COUNT
}

impl<C: StackConfig> Checker<'_, C> {
    pub(super) const MAY_RECORD: bool = <C::Watch as Watch<C>>::MAY_RECORD;

    /// Prepares what all checks need.
    pub(super) fn start(&self) {
        self.checks.secret.store(quarry_sys::random::random() as u64, Ordering::Relaxed);
        quarry_sys::unwind::unwinder();
    }

    pub(super) fn options(&self) -> &CheckOptions {
        self.checks.options()
    }

    /// Returns whether objects have records.
    pub(super) fn have_records(&self) -> bool {
        Self::MAY_RECORD && self.options().have_records()
    }

    pub(super) fn arena(&self) -> &Arena {
        self.stack.pages().arena()
    }

    pub(super) fn frames(&self) -> &FrameTable {
        self.stack.pages().frames()
    }

    pub(super) fn secret(&self) -> u64 {
        self.checks.secret.load(Ordering::Relaxed)
    }

    pub(super) fn parts(&self, slot: Slot, shape: Shape) -> Parts {
        Parts::of(slot, shape, self.secret())
    }

    pub(super) fn tracked(&self) -> Tracked {
        let mut tracked = Tracked { thread: task::number(), at_ns: monotonic_ns(), frames: [0; _] };
        quarry_sys::unwind::trace(&mut tracked.frames);
        tracked
    }

    #[inline(never)]
    pub(super) fn note_caller(&self, track: &Track) {
        let mut frames = [0; _];
        quarry_sys::unwind::trace(&mut frames);
        track.set(task::number(), monotonic_ns(), &frames);
    }

    /// The slot of the small object at `address`, or of the large one that starts in its frame.
    pub(super) fn slot_at(&self, address: *const u8) -> Option<Slot> {
        let pfn = self.arena().pfn(address)?;
        let kind = self.frames().kind(pfn);
        if let Some(id) = cache_of(self.frames(), pfn) {
            let cache = self.stack.caches.get(id).filter(|_| is_of_malloc(id))?;
            let slab = self.arena().address(pfn.align_down(cache.order()));
            let first = slab.as_ptr().expose_provenance() + cache.first_object();
            let within = address.addr().checked_sub(first)?;
            let start = first + within / cache.stride() * cache.stride();
            return Some(Slot { start, bytes: cache.stride() });
        }
        if kind != Kind::PAGES && kind != Kind::MAPPING {
            return None;
        }
        let held = self.frames().link(pfn);
        let bytes = ((held - self.guard_frames(held)) as usize) << FRAME_SHIFT;
        Some(Slot { start: self.arena().address(pfn).as_ptr().expose_provenance(), bytes })
    }

    /// The slot that starts at `start`, if that is an object of `malloc`.
    #[inline]
    pub(super) fn object_slot(&self, start: *mut u8) -> Option<Slot> {
        let (id, bytes) = self.slab_object(start)?;
        let slot = Slot { start: start.expose_provenance(), bytes };
        is_of_malloc(id).then_some(slot)
    }

    /// The cache and the bytes of the slab object that starts at `start`.
    #[inline]
    pub(super) fn slab_object(&self, start: *mut u8) -> Option<(CacheId, usize)> {
        // SAFETY: checks are switched on once the stack is initialised; the arena is the stack's.
        unsafe { self.stack.fast.slab_object(self.arena(), start) }
    }

    /// Of a large block's frames, those at its end that are for a guard: a page of the system.
    pub(super) fn guard_frames(&self, frames: u32) -> u32 {
        let has_guard = self.options().harden && frames > MOST_OF_CLASS;
        if has_guard { (self.page_bytes() / FRAME_BYTES) as u32 } else { 0 }
    }

    /// Bytes of a page of the system.
    #[inline(never)]
    pub(super) fn page_bytes(&self) -> usize {
        page_bytes(self.arena().os())
    }

    pub(super) fn guarded(&self, number: usize) -> &GuardedObject {
        assert!(number < guarded_objects(self.page_bytes()));
        // SAFETY: the table has that many entries once the pool has an address. Its bytes are zero
        // at first, which is a valid `GuardedObject`; the table is never given back.
        unsafe { &*self.checks.guards.objects.load(Ordering::Acquire).add(number) }
    }

    pub(super) fn page(&self, number: usize) -> NonNull<u8> {
        let base = self.checks.guards.base.load(Ordering::Relaxed);
        let page =
            core::ptr::with_exposed_provenance_mut(base + page_of(number, self.page_bytes()));
        NonNull::new(page).expect("no pool lies at 0")
    }
}
