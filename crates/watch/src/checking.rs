//! The hooks by which the stack calls the checks.

use super::checks::Checks;
use quarry_mm::frame::Pfn;
use quarry_mm::heap::CheckOptions;
use quarry_mm::stack::{Entry, Request, Stack, StackConfig, Watch};
use quarry_sys::locks::Visit;
use quarry_sys::percpu::Object;

impl<C: StackConfig> Watch<C> for Checks {
    const NEW: Self = Self::new();

    fn start(&self, stack: &Stack<C>, options: &CheckOptions) {
        if *options != CheckOptions::OFF {
            self.set_options(*options);
            self.on(stack).start_records();
            self.on(stack).start_guards();
        }
    }

    fn alloc(
        &self,
        stack: &Stack<C>,
        request: Request,
        next: impl FnOnce() -> Option<Object>,
    ) -> Option<Object> {
        let checker = self.on(stack);
        if let Some(object) = checker.alloc_guarded(request) {
            return Some(object);
        }
        if self.options().have_records() { checker.alloc_checked(request) } else { next() }
    }

    #[inline]
    unsafe fn free(&self, stack: &Stack<C>, object: Object) -> bool {
        // SAFETY: the caller's promise is passed on.
        self.may_know(stack, object) && unsafe { self.on(stack).free_seen(Entry::Free, object) }
    }

    #[inline]
    fn size(&self, stack: &Stack<C>, entry: Entry, object: Object) -> Option<usize> {
        self.on(stack).seen(entry, object).map(|seen| seen.size)
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
        let checker = self.on(stack);
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
        if !self.may_know(stack, object) {
            return None;
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.on(stack).realloc_if_seen(object, request) }
    }

    #[inline]
    fn have_records(&self) -> bool {
        self.options().have_records()
    }

    fn is_hidden_mapping(&self, pfn: Pfn) -> bool {
        self.hidden.lock().find(pfn).is_some_and(|block| block.about.is_mapping)
    }

    #[inline]
    fn tick(&self, stack: &Stack<C>) {
        self.on(stack).sample_if_due();
    }

    fn give_back(&self, stack: &Stack<C>) -> bool {
        self.on(stack).free_waiting()
    }

    fn visit_locks(&self, visit: &mut Visit<'_>) {
        self.visit_locks(visit);
    }
}
