//! Release of pages that are in no index and have no pins, with their memory and descriptors.
//!
//! The task that gives up the last pin owns the page. It collects the pages that it owns, including
//! those that a drain of add batches finds, and releases many together.

use super::cache::PageCacheRef;
use super::counters::Event;
use super::host::Host;
use super::outcome::TruncationPolicy;
use crate::lru::{Few, PageNo};
use quarry_mm::frame::{End, Kind, Order, Pfn};
use quarry_mm::slab::CacheId;
use quarry_mm::stack::StackHost;
use quarry_mm::zone::GroupId;
use quarry_sys::percpu::Object;
use quarry_sys::primitive::Ordering::Relaxed;

/// Pages that are released together (`SWAP_CLUSTER_MAX` of `release_pages`, Linux 6.12).
pub(super) const TOGETHER: usize = 32;

/// Collects pages to release; releases them when it is full, and when it is dropped.
pub(super) struct Releases<'a, H: Host> {
    cache: PageCacheRef<'a, H>,
    pages: Few<PageNo, TOGETHER>,
}

impl<H: Host> Releases<'_, H> {
    /// Adds a page that the caller owns.
    #[inline]
    pub(super) fn push(&mut self, page: PageNo) {
        if self.pages.len() == TOGETHER {
            self.flush();
        }
        self.pages.push(page);
    }

    fn flush(&mut self) {
        self.cache.release(&self.pages);
        self.pages.clear();
    }
}

impl<H: Host> Drop for Releases<'_, H> {
    fn drop(&mut self) {
        self.flush();
    }
}

impl<'a, H: Host> PageCacheRef<'a, H> {
    pub(super) fn releases(self) -> Releases<'a, H> {
        Releases { cache: self, pages: Few::NONE }
    }

    pub(super) fn drain_slot(self, releases: &mut Releases<'a, H>) {
        let slot = self.slot();
        self.tables.lru.drain(&self.tables.pages, slot, &mut |page| releases.push(page));
    }

    pub(super) fn drain_batches(self) {
        let mut releases = self.releases();
        self.tables.lru.drain_all(&self.tables.pages, &mut |page| releases.push(page));
    }

    /// Moves pages from add batches to their lists, and gives unused index nodes and descriptors
    /// back. Returns the bytes of descriptors that it gave back. O(slots + descriptors).
    pub fn trim(self) -> usize {
        self.drain_batches();
        self.tables.nodes.grace.release(self.host, 1);
        self.tables.tail_blocks.release(self.host);
        self.tables.free.trim(&self.tables.pages, self.host.stack().metadata())
    }

    /// Frees up to [`TOGETHER`] pages that the caller owns.
    pub(super) fn release(self, pages: &[PageNo]) {
        if pages.is_empty() {
            return;
        }
        let (tables, slot) = (self.tables, self.slot());
        tables.lru.remove(&tables.pages, pages);
        self.free_private_objects(pages);
        let mut blocks = [(Pfn::NONE, Order::ZERO); TOGETHER];
        for (block, page) in blocks.iter_mut().zip(pages) {
            let descriptor = tables.pages.at(*page);
            *block = (descriptor.pfn(), descriptor.order());
            self.host.stack().pages().frames().set_kind(block.0, 1, Kind::NONE);
            let group = GroupId(descriptor.group.load(Relaxed));
            self.groups().uncharge_page(group, block.1.frames());
            descriptor.clear();
        }
        tables.free.put(slot, pages);
        let sections = self.free_blocks(&blocks[..pages.len()]);
        tables.counters.add(slot, Event::LruRemovals, 1);
        tables.counters.add(slot, Event::FreeSections, sections);
        let frames: u32 = blocks[..pages.len()].iter().map(|block| block.1.frames()).sum();
        tables.counters.add(slot, Event::Released, frames.into());
    }

    /// Frees blocks by the truncation policy; returns the number of calls of the page allocator.
    fn free_blocks(self, blocks: &[(Pfn, Order)]) -> u64 {
        let free = |blocks: &[(Pfn, Order)]| {
            let end = if self.tables.options.cold_hint { End::Tail } else { End::Head };
            self.host.stack().pages().free_list_at(self.slot(), blocks, end);
        };
        match self.tables.options.truncation {
            TruncationPolicy::Vanilla | TruncationPolicy::BatchedIndex => {
                blocks.iter().for_each(|block| free(core::slice::from_ref(block)));
                blocks.len() as u64
            }
            TruncationPolicy::OneIrq | TruncationPolicy::BatchedRelease => {
                free(blocks);
                1
            }
        }
    }

    fn free_private_objects(self, pages: &[PageNo]) {
        let (mut objects, mut count, mut of) = ([Object::dangling(); TOGETHER], 0, 0);
        let free = |of: u32, objects: &[Object]| {
            if let Ok(cache) = CacheId::try_from(of)
                && !objects.is_empty()
            {
                // SAFETY: the owner of the mapping named this cache for its pages' private words,
                // and put the address of an object of it there; no code uses the page any more.
                unsafe { self.host.stack().free_objects(cache, objects) };
            }
        };
        for page in pages {
            let descriptor = self.tables.pages.at(*page);
            let cache = descriptor.private_cache.load(Relaxed);
            let word = descriptor.private.load(Relaxed);
            let Some(object) = Object::new(word as *mut u8).filter(|_| cache != 0) else {
                continue;
            };
            if cache != of {
                free(of, &objects[..core::mem::take(&mut count)]);
                of = cache;
            }
            objects[count] = object;
            count += 1;
        }
        free(of, &objects[..count]);
    }
}
