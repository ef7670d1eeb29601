//! A memory that times its calls for pages, except `release`, for the option `--calibrate`.

use crate::memory::{Buffer, CacheCounts, Counters, Footprint, KernelMemory, Pages};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A call that takes this long or longer was interrupted, and its time is not counted.
const INTERRUPTED: Duration = Duration::from_micros(20);

/// A memory that wraps another memory and times its allocations and frees of pages.
pub struct TimedPages<'a, M> {
    memory: &'a M,
    /// Nanoseconds between two successive readings of the clock.
    clock_ns: u64,
    page_ns: AtomicU64,
}

impl<'a, M: KernelMemory> TimedPages<'a, M> {
    /// Times the calls for pages to `memory`.
    pub fn new(memory: &'a M) -> Self {
        Self { memory, clock_ns: clock_ns(), page_ns: AtomicU64::new(0) }
    }

    /// Nanoseconds in the page allocator so far, less the time for reading the clock.
    pub fn page_ns(&self) -> u64 {
        self.page_ns.load(Relaxed)
    }

    fn time<T>(&self, call: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = call();
        let took = start.elapsed();
        if took < INTERRUPTED {
            let ns = (took.as_nanos() as u64).saturating_sub(self.clock_ns);
            self.page_ns.fetch_add(ns, Relaxed);
        }
        result
    }
}

/// Measures the difference between two successive readings of the clock: the median of many.
fn clock_ns() -> u64 {
    let mut differences: Vec<u64> =
        (0..1001).map(|_| Instant::now().elapsed().as_nanos() as u64).collect();
    differences.sort_unstable();
    differences[differences.len() / 2]
}

impl<M: KernelMemory> KernelMemory for TimedPages<'_, M> {
    type Cache = M::Cache;

    fn largest_kmalloc(&self) -> usize {
        self.memory.largest_kmalloc()
    }

    fn create_cache(&self, name: &str, bytes: usize) -> M::Cache {
        self.memory.create_cache(name, bytes)
    }

    fn alloc(&self, cache: M::Cache) -> Option<Buffer> {
        self.memory.alloc(cache)
    }

    fn free(&self, cache: M::Cache, object: Buffer) {
        self.memory.free(cache, object);
    }

    fn free_bulk(&self, cache: M::Cache, objects: &mut Vec<Buffer>) {
        self.memory.free_bulk(cache, objects);
    }

    fn alloc_pages(&self, pages: Pages) -> Option<Buffer> {
        self.time(|| self.memory.alloc_pages(pages))
    }

    fn free_pages(&self, pages: Pages, block: Buffer) {
        self.time(|| self.memory.free_pages(pages, block));
    }

    fn free_list(&self, pages: Pages, list: &mut Vec<Buffer>) {
        self.time(|| self.memory.free_list(pages, list));
    }

    fn alloc_range(&self, count: u32, pages: Pages, give: &mut dyn FnMut(Buffer)) -> bool {
        self.time(|| self.memory.alloc_range(count, pages, give))
    }

    fn free_range(&self, pages: Pages, range: &mut Vec<Buffer>) {
        self.time(|| self.memory.free_range(pages, range));
    }

    fn add_to_lru(&self, page: &Buffer) {
        self.memory.add_to_lru(page);
    }

    fn drop_page(&self, pages: Pages, page: Buffer) {
        self.time(|| self.memory.drop_page(pages, page));
    }

    fn release(&self, pages: Pages, list: &mut Vec<Buffer>) {
        self.memory.release(pages, list);
    }

    fn counters(&self) -> Counters {
        self.memory.counters()
    }

    fn caches(&self) -> Vec<CacheCounts> {
        self.memory.caches()
    }

    fn footprint(&self) -> Footprint {
        self.memory.footprint()
    }

    fn check_at_end(&self) -> Result<(), String> {
        self.memory.check_at_end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::Uncached;

    #[test]
    fn calls_for_pages_are_timed_and_passed_on() {
        let memory = Uncached::default();
        let timed = TimedPages::new(&memory);
        let page = Pages { order: 0, movable: false };
        let object = timed.alloc(8).unwrap();
        assert_eq!(timed.page_ns(), 0);
        let mut blocks: Vec<Buffer> = (0..1000).map(|_| timed.alloc_pages(page).unwrap()).collect();
        let after_allocs = timed.page_ns();
        timed.free_pages(page, blocks.pop().unwrap());
        timed.free_list(page, &mut blocks);
        timed.free(8, object);
        assert!(0 < after_allocs && after_allocs <= timed.page_ns());
        assert_eq!(timed.counters().zone_allocs, 1001);
        assert_eq!(timed.check_at_end(), Ok(()));
    }
}
