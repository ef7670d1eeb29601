//! The page cache of a stack as file systems use it.

use crate::file_cache::FileCache;
use crate::host::yield_now;
use crate::stack::{LabConfig, Slots, StackMemory};
use quarry_cache::PageCaching;
use quarry_cache::lru::PageNo;
use quarry_cache::page_cache::{Effort, MappingId, MappingOptions, PageCacheRef, Slot};
use quarry_mm::slab::SlabPolicy;
use quarry_mm::stack::Stack;
use std::slice;

/// Pages of a request for dirty pages (`PAGEVEC_SIZE` of Linux 4.14).
const DIRTY_BATCH: usize = 14;

/// Attempts to allocate a page before the page counts as lost. A direct reclaim may run out of time
/// while other programs run.
const MOST_ATTEMPTS: u32 = 100_000;

type Cache<'a, S> = PageCacheRef<'a, Stack<LabConfig<S>>>;

impl<S: SlabPolicy<Slots> + 'static> StackMemory<S> {
    fn page_cache(&self) -> Cache<'_, S> {
        PageCaching::open(self.stack()).expect("memory for the tables of the page cache")
    }

    /// Pins a page. If it is not cached, `fill` writes its bytes first.
    fn pin(
        &self,
        mapping: MappingId,
        index: u64,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> (PageNo, bool) {
        let cache = self.page_cache();
        if let Some(page) = cache.get(mapping, index) {
            return (page, true);
        }
        // A kernel does not fail because one page is missing: it reclaims until a page is free.
        for _ in 0..MOST_ATTEMPTS {
            match cache.get_or_alloc(mapping, index, Effort::Every) {
                Ok(Slot::Found(page)) => return (page, true),
                Ok(Slot::New(page)) => {
                    // SAFETY: the page is new and latched for this filler alone, and pinned.
                    fill(unsafe { bytes_mut(cache, page) });
                    cache.fill_done(page);
                    return (page, false);
                }
                Err(_full) => yield_now(),
            }
        }
        panic!("no page of the cache can be had, nor reclaimed");
    }
}

/// The bytes of a page.
///
/// # Safety
/// As long as it uses the bytes, the caller pins the page and keeps all tasks from writing to it.
unsafe fn bytes<S: SlabPolicy<Slots> + 'static>(cache: Cache<'_, S>, page: PageNo) -> &[u8] {
    // SAFETY: a pinned page's memory stays, and the caller keeps it pinned while the slice is used.
    unsafe { slice::from_raw_parts(cache.address(page).as_ptr(), cache.bytes(page)) }
}

/// The bytes of a page, to be changed.
///
/// # Safety
/// The caller pins the page and has its exclusive latch, and keeps no other view of it.
unsafe fn bytes_mut<'a, S: SlabPolicy<Slots> + 'static>(
    cache: Cache<'a, S>,
    page: PageNo,
) -> &'a mut [u8] {
    // SAFETY: as in `bytes`; the exclusive latch keeps others away (the caller's promise).
    unsafe { slice::from_raw_parts_mut(cache.address(page).as_ptr(), cache.bytes(page)) }
}

impl<S: SlabPolicy<Slots> + 'static> FileCache for StackMemory<S> {
    type Mapping = MappingId;

    fn create_mapping(&self) -> MappingId {
        let options = MappingOptions::default();
        self.page_cache().create_mapping(&options).expect("memory for a mapping")
    }

    fn destroy_mapping(&self, mapping: MappingId) {
        assert!(self.page_cache().destroy_mapping(mapping), "a mapping is ended once");
    }

    fn read(
        &self,
        mapping: MappingId,
        index: u64,
        fill: &mut dyn FnMut(&mut [u8]),
        see: &mut dyn FnMut(&[u8]),
    ) -> bool {
        let (page, was_cached) = self.pin(mapping, index, fill);
        let cache = self.page_cache();
        cache.latch_shared(page);
        // SAFETY: the page is pinned and latched for reading.
        see(unsafe { bytes(cache, page) });
        cache.unlatch_shared(page);
        cache.unpin(page);
        was_cached
    }

    fn write(
        &self,
        mapping: MappingId,
        index: u64,
        fill: &mut dyn FnMut(&mut [u8]),
        change: &mut dyn FnMut(&mut [u8]),
    ) -> bool {
        let (page, was_cached) = self.pin(mapping, index, fill);
        let cache = self.page_cache();
        cache.latch_exclusive(page);
        // SAFETY: the page is pinned and latched for writing.
        change(unsafe { bytes_mut(cache, page) });
        cache.mark_dirty(page);
        cache.unlatch_exclusive(page);
        cache.unpin(page);
        was_cached
    }

    fn flush(&self, mapping: MappingId, write: &mut dyn FnMut(u64, &[u8])) -> u64 {
        let cache = self.page_cache();
        let (mut from, mut count, mut pages) = (0, 0, [PageNo(0); DIRTY_BATCH]);
        loop {
            let found = cache.dirty_pages(mapping, from, &mut pages);
            for &page in &pages[..found] {
                let (_, index) = cache.key(page);
                cache.latch_shared(page);
                if cache.begin_writeback(page) {
                    // SAFETY: the page is pinned and latched for reading.
                    write(index, unsafe { bytes(cache, page) });
                    count += 1;
                    cache.end_writeback(page, false);
                }
                cache.unlatch_shared(page);
                cache.unpin(page);
                from = index + 1;
            }
            if found < pages.len() {
                return count;
            }
        }
    }

    fn truncate(&self, mapping: MappingId, from: u64) {
        self.page_cache().truncate(mapping, from);
    }
}
