//! The hooks by which the stack calls the checks, and the instrument that stands before them.

use super::checks::Checks;
use quarry_mm::frame::Pfn;
use quarry_mm::heap::CheckOptions;
use quarry_mm::stack::{Entry, Request, SampledBlock, Stack, StackConfig, Watch};
use quarry_sys::locks::Visit;
use quarry_sys::percpu::Object;
use quarry_sys::primitive::Ordering;

/// The checks, and the heap profile (or `()`), which gets each request before them. Guard pages are
/// always among the checks; debugging and hardening only if `RECORDS` is true.
pub struct WithChecks<P, const RECORDS: bool>(pub P, pub Checks);

impl<C: StackConfig, P: Watch<C>, const RECORDS: bool> Watch<C> for WithChecks<P, RECORDS> {
    const NEW: Self = Self(P::NEW, Checks::new());
    const MAY_RECORD: bool = RECORDS;

    fn start(&self, stack: &Stack<C>, options: &CheckOptions) {
        if *options != CheckOptions::OFF {
            let set = self.1.options.build(|| Ok(*options));
            debug_assert!(set.is_ok(), "nothing in it can fail");
            self.1.on(stack).start();
            if RECORDS {
                self.1.on(stack).start_records();
            }
            self.1.on(stack).start_guards();
        }
    }

    fn alloc(
        &self,
        stack: &Stack<C>,
        request: Request,
        next: impl FnOnce() -> Option<Object>,
    ) -> Option<Object> {
        self.0.alloc(stack, request, || {
            let checker = self.1.on(stack);
            checker.alloc_guarded(request).or_else(|| match checker.have_records() {
                true => checker.alloc_roomy(request, 0),
                false => next(),
            })
        })
    }

    #[inline]
    fn alloc_outside(&self, stack: &Stack<C>, size: usize, zeroed: bool) -> Option<Object> {
        let object = self.0.alloc_outside(stack, size, zeroed);
        object.or_else(|| {
            let may_serve = RECORDS && self.1.is_hardened.load(Ordering::Acquire);
            if may_serve { self.1.on(stack).alloc_hardened(size, zeroed) } else { None }
        })
    }

    #[inline]
    unsafe fn free_outside(&self, stack: &Stack<C>, object: Object) -> Option<bool> {
        let may_serve = RECORDS && self.1.is_hardened.load(Ordering::Acquire);
        // SAFETY: the caller's promise is passed on.
        if may_serve { unsafe { self.1.on(stack).free_hardened(object) } } else { None }
    }

    #[inline]
    unsafe fn free(&self, stack: &Stack<C>, object: Object) -> bool {
        // SAFETY: the caller's promise is passed on.
        self.1.may_know(stack, object) && unsafe { self.1.on(stack).free_seen(Entry::Free, object) }
    }

    #[inline]
    fn size(&self, stack: &Stack<C>, entry: Entry, object: Object) -> Option<usize> {
        self.1.on(stack).seen(entry, object).map(|seen| seen.size)
    }

    #[inline]
    fn demand(
        &self,
        stack: &Stack<C>,
        entry: Entry,
        object: Object,
        size: usize,
        align: usize,
    ) -> bool {
        let checker = self.1.on(stack);
        let seen = checker.seen(entry, object);
        seen.inspect(|seen| checker.demand(entry, seen, size, align)).is_some()
    }

    #[inline]
    unsafe fn realloc(
        &self,
        stack: &Stack<C>,
        object: Object,
        request: Request,
    ) -> Option<Option<Object>> {
        if !self.1.may_know(stack, object) {
            return None;
        }
        let Request { size, align, zeroed } = request;
        // SAFETY: the caller's promise is passed on.
        unsafe { self.realloc_known(stack, object, size, align, zeroed) }
    }

    #[inline]
    fn have_records(&self) -> bool {
        RECORDS && self.1.options().have_records()
    }

    #[inline]
    fn sampled(&self, stack: &Stack<C>, pfn: Pfn) -> Option<SampledBlock> {
        self.0.sampled(stack, pfn)
    }

    #[inline]
    fn forget(&self, stack: &Stack<C>, pfn: Pfn) {
        self.0.forget(stack, pfn);
    }

    #[inline]
    fn count(&self, stack: &Stack<C>, pfn: Pfn, frames: u32, size: usize) {
        self.0.count(stack, pfn, frames, size);
    }

    #[inline]
    fn own_points(&self, stack: &Stack<C>, size: usize) -> u64 {
        self.0.own_points(stack, size)
    }

    fn begin_own_sample(
        &self,
        stack: &Stack<C>,
        block: (Pfn, u32),
        size: usize,
        points: u64,
    ) -> u32 {
        self.0.begin_own_sample(stack, block, size, points)
    }

    fn end_own_sample(&self, stack: &Stack<C>, record: u32) {
        self.0.end_own_sample(stack, record);
    }

    fn is_hidden_mapping(&self, pfn: Pfn) -> bool {
        RECORDS && self.1.hidden.lock().find(pfn).is_some_and(|block| block.about.is_mapping)
    }

    #[inline]
    fn tick(&self, stack: &Stack<C>) {
        self.1.on(stack).sample_if_due();
    }

    fn give_back(&self, stack: &Stack<C>) -> bool {
        RECORDS && self.1.on(stack).free_waiting()
    }

    fn visit_locks(&self, visit: &mut Visit<'_>) {
        self.1.visit_locks(visit);
    }
}

impl<P, const RECORDS: bool> WithChecks<P, RECORDS> {
    /// [`Watch::realloc`] of what the checks may know.
    ///
    /// # Safety
    /// Same as for [`Watch::realloc`].
    // Not inlined, and without a `Request`, which would lie on the stack of every `realloc`.
    #[inline(never)]
    unsafe fn realloc_known<C: StackConfig>(
        &self,
        stack: &Stack<C>,
        object: Object,
        size: usize,
        align: usize,
        zeroed: bool,
    ) -> Option<Option<Object>> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.1.on(stack).realloc_if_seen(object, Request { size, align, zeroed }) }
    }
}
