//! A *bed*: a stack on a test system of its own.

use super::{Backing, TestOs};
use quarry_cache::PageCaching;
use quarry_mm::heap::CheckOptions;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::pcp::{PagePolicy, V6_18};
use quarry_mm::slab::{CacheId, SlabPolicy};
use quarry_mm::stack::{CachedPages, Stack, StackConfig, StackHost};
use quarry_sys::os::OsResult;
use quarry_sys::percpu::VirtualSlots;
use quarry_watch::AllInstruments;
use std::cell::Cell;
use std::marker::PhantomData;

/// Virtual CPUs with a slab policy, a page cache and a page policy.
pub(crate) struct VirtualConfig<S, K = PageCaching, P = V6_18>(PhantomData<(S, K, P)>);

impl<S, K, P> StackConfig for VirtualConfig<S, K, P>
where
    S: SlabPolicy<VirtualSlots> + 'static,
    K: CachedPages,
    P: PagePolicy,
{
    type PerCpu = VirtualSlots;
    type Slab = S;
    type Pages = P;
    type Cache = K;
    type Watch = AllInstruments;
}

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
    static CHECKS: Cell<CheckOptions> = const { Cell::new(CheckOptions::OFF) };
}

/// Sets the checks of beds that the calling thread makes later.
pub(crate) fn fix_checks(checks: CheckOptions) {
    CHECKS.set(checks);
}

/// Puts the calling thread on virtual CPU `cpu`, modulo the number of the bed's CPUs.
pub(crate) fn on_cpu(cpu: u32) {
    CPU.set(cpu);
}

/// Gives a stack `slots` virtual CPUs; each thread runs on the CPU that it has set by [`on_cpu`].
pub(crate) fn declare(percpu: &VirtualSlots, slots: u32) {
    percpu.choice().declare(slots, || CPU.get());
}

/// Options without the classes of `malloc`: a small window, no limit, 4 declared CPUs.
pub(crate) fn small<P: Default>() -> StackOptions<P> {
    let mut options = StackOptions { heap: false, ..StackOptions::default() };
    options.pages.reserve_bytes = 64 << 20;
    options.pages.declared_cpus = 4;
    options.checks = CHECKS.get();
    options
}

/// A stack and its system, which unmaps everything when the bed is dropped.
pub(crate) struct Bed<C: StackConfig> {
    pub(crate) stack: Box<Stack<C>>,
    pub(crate) os: &'static TestOs,
}

impl<C: StackConfig> Bed<C> {
    /// A stack on an existing system.
    pub(crate) fn on(
        os: &'static TestOs,
        options: &StackOptions<C::Pages>,
        declare: impl FnOnce(&C::PerCpu),
    ) -> OsResult<Self> {
        Self::on_with(os, options, &Default::default(), declare)
    }

    /// Same as [`on`](Self::on), with options of the page cache.
    pub(crate) fn on_with(
        os: &'static TestOs,
        options: &StackOptions<C::Pages>,
        cache: &<C::Cache as CachedPages>::Options,
        declare: impl FnOnce(&C::PerCpu),
    ) -> OsResult<Self> {
        let stack = Box::new(Stack::new());
        declare(stack.percpu());
        stack.init(os, options, cache)?;
        Ok(Self { stack, os })
    }

    /// Gives back all unused memory, and checks that the stack holds nothing.
    pub(crate) fn assert_empty(&self, caches: &[CacheId]) {
        let _ = self.stack.trim();
        assert_eq!(self.stack.validate(), Ok(()));
        for &id in caches {
            let stats = self.stack.cache(id).stats();
            assert_eq!(stats.total_slabs, 0, "an empty cache keeps slabs: {stats:?}");
            assert_eq!((stats.active_objects, stats.parked_objects), (0, 0));
        }
        let budget = self.stack.pages().zones().budget();
        assert_eq!((budget.used(), budget.mapped()), (0, 0), "frames in use, frames mapped");
    }
}

impl<S, K, P> Bed<VirtualConfig<S, K, P>>
where
    S: SlabPolicy<VirtualSlots> + 'static,
    K: CachedPages,
    P: PagePolicy,
{
    /// A stack with `slots` virtual CPUs.
    pub(crate) fn new(
        backing: Backing,
        page_size: usize,
        slots: u32,
        options: &StackOptions<P>,
    ) -> Self {
        let os = Box::leak(Box::new(TestOs::new(backing, page_size)));
        Self::on(os, options, |percpu| declare(percpu, slots))
            .expect("a system on which nothing fails")
    }

    /// A stack that is not initialised yet, with `slots` virtual CPUs.
    pub(crate) fn cold(backing: Backing, page_size: usize, slots: u32) -> Self {
        let os = Box::leak(Box::new(TestOs::new(backing, page_size)));
        let stack = Box::new(Stack::<VirtualConfig<S, K, P>>::new());
        declare(stack.percpu(), slots);
        Self { stack, os }
    }
}

impl<C: StackConfig> Drop for Bed<C> {
    fn drop(&mut self) {
        // If a test has failed, other threads may still be at work in the stack.
        if !std::thread::panicking() {
            self.os.release_all();
        }
    }
}
