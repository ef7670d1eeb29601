//! A pair of instruments; the first one gets each request first.

use super::call::{Entry, Request};
use super::instance::{SampledBlock, Stack, StackConfig, Watch};
use crate::frame::Pfn;
use crate::heap::CheckOptions;
use quarry_sys::locks::Visit;
use quarry_sys::percpu::Object;

impl<C: StackConfig, A: Watch<C>, B: Watch<C>> Watch<C> for (A, B) {
    const NEW: Self = (A::NEW, B::NEW);
    const IS_ANY: bool = A::IS_ANY || B::IS_ANY;

    fn start(&self, stack: &Stack<C>, options: &CheckOptions) {
        self.0.start(stack, options);
        self.1.start(stack, options);
    }

    fn alloc(
        &self,
        stack: &Stack<C>,
        request: Request,
        next: impl FnOnce() -> Option<Object>,
    ) -> Option<Object> {
        self.0.alloc(stack, request, || self.1.alloc(stack, request, next))
    }

    #[inline]
    fn alloc_counted(&self, stack: &Stack<C>, size: usize, zeroed: bool) -> Option<Object> {
        let counted = self.0.alloc_counted(stack, size, zeroed);
        counted.or_else(|| self.1.alloc_counted(stack, size, zeroed))
    }

    #[inline]
    unsafe fn free(&self, stack: &Stack<C>, object: Object) -> bool {
        // SAFETY: the caller's promise is passed on; at most one of the two frees the object.
        unsafe { self.0.free(stack, object) || self.1.free(stack, object) }
    }

    #[inline]
    fn size(&self, stack: &Stack<C>, entry: Entry, object: Object) -> Option<usize> {
        self.0.size(stack, entry, object).or_else(|| self.1.size(stack, entry, object))
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
        self.0.demand(stack, entry, object, size, align)
            || self.1.demand(stack, entry, object, size, align)
    }

    #[inline]
    unsafe fn realloc(
        &self,
        stack: &Stack<C>,
        object: Object,
        request: Request,
    ) -> Option<Option<Object>> {
        // SAFETY: the caller's promise is passed on; at most one of them has recorded the object.
        unsafe {
            let resized = self.0.realloc(stack, object, request);
            resized.or_else(|| self.1.realloc(stack, object, request))
        }
    }

    #[inline]
    fn have_records(&self) -> bool {
        Watch::<C>::have_records(&self.0) || Watch::<C>::have_records(&self.1)
    }

    #[inline]
    fn sampled(&self, stack: &Stack<C>, pfn: Pfn) -> Option<SampledBlock> {
        self.0.sampled(stack, pfn).or_else(|| self.1.sampled(stack, pfn))
    }

    #[inline]
    fn forget(&self, stack: &Stack<C>, pfn: Pfn) {
        self.0.forget(stack, pfn);
        self.1.forget(stack, pfn);
    }

    #[inline]
    fn count(&self, stack: &Stack<C>, pfn: Pfn, frames: u32, size: usize) {
        self.0.count(stack, pfn, frames, size);
        self.1.count(stack, pfn, frames, size);
    }

    #[inline]
    fn is_hidden_mapping(&self, pfn: Pfn) -> bool {
        Watch::<C>::is_hidden_mapping(&self.0, pfn) || Watch::<C>::is_hidden_mapping(&self.1, pfn)
    }

    #[inline]
    fn tick(&self, stack: &Stack<C>) {
        self.0.tick(stack);
        self.1.tick(stack);
    }

    fn give_back(&self, stack: &Stack<C>) -> bool {
        self.0.give_back(stack) | self.1.give_back(stack)
    }

    fn visit_locks(&self, visit: &mut Visit<'_>) {
        Watch::<C>::visit_locks(&self.0, visit);
        Watch::<C>::visit_locks(&self.1, visit);
    }
}
