//! Guard pages by sampling: which requests get a guarded object (*samples* here), and reports.

use super::checker::{Allocation, Checker, Storage};
use super::checks::guards::{GuardedObject, POOL_BYTES, guarded_objects, place};
use super::checks::{Range, Seal};
use quarry_mm::frame::{MetadataKind, PAGEBLOCK_BYTES};
use quarry_mm::heap::Sampling;
use quarry_mm::stack::{Entry, Instrument, MIN_ALIGN, Misuse, Request, StackConfig, StackHost};
use quarry_sys::clock::coarse_ns;
use quarry_sys::percpu::Object;
use quarry_sys::primitive::Ordering;
use quarry_sys::report::warn;

const _: () = assert!(POOL_BYTES == PAGEBLOCK_BYTES);

impl<C: StackConfig> Checker<'_, C> {
    pub(super) fn start_guards(&self) {
        let (stack, guards) = (self.stack, &self.checks.guards);
        if self.options().guard == Sampling::Off || guards.base.load(Ordering::Relaxed) != 0 {
            return;
        }
        let (os, count) = (self.arena().os(), guarded_objects(self.page_bytes()));
        let bytes = count * size_of::<GuardedObject>();
        let objects = stack.metadata().alloc(bytes, 64, MetadataKind::Other).ok();
        let pool = stack.alloc_unseen(Request::of(POOL_BYTES).aligned(PAGEBLOCK_BYTES));
        let (Some(objects), Some(base)) = (objects, pool) else { return };
        if os.set_accessible(base, POOL_BYTES, false).is_err() {
            return warn(format_args!("no guard pages: the system does not protect memory"));
        }
        guards.objects.store(objects.as_ptr().cast(), Ordering::Relaxed);
        let mut free = guards.free.lock();
        (0..count).for_each(|number| free.push(number));
        drop(free);
        guards.page.store(self.page_bytes(), Ordering::Relaxed);
        guards.base.store(base.as_ptr().expose_provenance(), Ordering::Release);
        self.stack.switch_instrument(Instrument::Guard, true);
    }

    #[inline(never)]
    pub(super) fn alloc_guarded(&self, request: Request) -> Option<Object> {
        let Request { size, align, zeroed } = request;
        let bytes = self.page_bytes();
        if !self.stack.instruments.has(Instrument::Guard) || size > bytes || align > bytes {
            return None;
        }
        let guards = &self.checks.guards;
        let number = guards.free.try_lock()?.pop();
        self.wait_for_next_sample();
        let number = number?;
        let (page, os) = (self.page(number), self.arena().os());
        if os.set_accessible(page, bytes, true).is_err() {
            guards.free.lock_of_others()?.push(number);
            return None;
        }
        let is_right = self.checks.random(0) & 1 == 1;
        let page = Range { start: page.as_ptr().expose_provenance(), bytes };
        let user = place(page, size, align.max(MIN_ALIGN), is_right);
        let object = self.guarded(number);
        self.note_caller(&object.tracks.allocated);
        object.tracks.freed.clear();
        object.set(user);
        // SAFETY: the page is accessible, and the program does not know of it.
        unsafe {
            if zeroed {
                user.fill(0);
            }
            object.arm(bytes);
        }
        Object::new(core::ptr::with_exposed_provenance_mut(user.start))
    }

    /// If samples are due at intervals, lets the fast paths serve requests until the next one.
    fn wait_for_next_sample(&self) {
        if let Sampling::Each(milliseconds) = self.options().guard {
            let next = coarse_ns() + u64::from(milliseconds) * 1_000_000;
            self.checks.guards.next_ns.store(next, Ordering::Relaxed);
            self.stack.switch_instrument(Instrument::Guard, false);
        }
    }

    /// Makes the next request a sample, if one is due. Slow paths and the background thread call
    /// this, because requests on fast paths do not read the clock. O(1).
    #[inline]
    pub(super) fn sample_if_due(&self) {
        let next = self.checks.guards.next_ns.load(Ordering::Relaxed);
        if next != 0 {
            self.sample_from(next);
        }
    }

    // Not inlined: the time takes no room on the stack of requests without this mode.
    #[inline(never)]
    fn sample_from(&self, next: u64) {
        if coarse_ns() >= next {
            self.checks.guards.next_ns.store(0, Ordering::Relaxed);
            self.stack.switch_instrument(Instrument::Guard, true);
        }
    }

    /// The live object that starts at an address in the pool; reports any other address and aborts.
    #[inline(never)]
    pub(super) fn seen_guarded(&self, entry: Entry, object: Object, number: usize) -> Allocation {
        let guarded = self.guarded(number);
        let user = guarded.user();
        let seen =
            Allocation { storage: Storage::Guarded(number), address: user.start, size: user.bytes };
        let misuse = match guarded.seal() {
            Seal::Broken => self.stack.misuse(entry, object.as_ptr(), Misuse::NothingInUse),
            Seal::Live if user.start == object.as_ptr().addr() => return seen,
            Seal::Live => Misuse::InsideBlock,
            Seal::Freed => Misuse::NothingInUse,
        };
        self.misuse_of_seen_at(entry, object.as_ptr(), &seen, misuse)
    }

    /// # Safety
    /// The object is live, and its user has given it up.
    #[inline(never)]
    pub(super) unsafe fn free_guarded(&self, entry: Entry, seen: &Allocation, number: usize) {
        let object = self.guarded(number);
        if !object.free() {
            self.misuse_of_seen(entry, seen, Misuse::NothingInUse);
        }
        // SAFETY: the page is accessible until `set_accessible` below makes it inaccessible.
        if let Some(at) = unsafe { object.damage(self.page_bytes()) } {
            let Allocation { address, size, .. } = *seen;
            let distance = at as isize - address as isize;
            warn(format_args!(
                "{entry}({address:#x}): object of {size} bytes was written outside: byte {distance}"
            ));
            self.tell_guarded(number);
            self.end_here();
        }
        self.note_caller(&object.tracks.freed);
        // If the system refuses, a later misuse is detected only by the object's state.
        let (page, bytes) = (self.page(number), self.page_bytes());
        let _ = self.arena().os().set_accessible(page, bytes, false);
        // If this thread holds the lock, losing the page for ever is better than a deadlock.
        if let Some(mut free) = self.checks.guards.free.lock_of_others() {
            free.push(number);
        }
    }
}
