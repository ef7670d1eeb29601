//! The interface by which file systems use a kernel's page cache.

use crate::memory::KernelMemory;

/// A kernel's page cache, with pages of 4 KiB. The file system locks each file, so no two calls for
/// the same file mapping run at the same time.
pub trait FileCache: KernelMemory {
    /// Names a file mapping.
    type Mapping: Copy + Send + Sync;

    /// Makes a file mapping without pages.
    fn create_mapping(&self) -> Self::Mapping;

    /// Ends a file mapping that has no pages left.
    fn destroy_mapping(&self, mapping: Self::Mapping);

    /// Reads a page. If the page is not cached, `fill` writes its bytes first. Then `see` reads the
    /// bytes. Returns whether the page was cached.
    fn read(
        &self,
        mapping: Self::Mapping,
        index: u64,
        fill: &mut dyn FnMut(&mut [u8]),
        see: &mut dyn FnMut(&[u8]),
    ) -> bool;

    /// Changes a page and makes it dirty. If the page is not cached, `fill` writes its bytes first.
    /// Returns whether the page was cached.
    fn write(
        &self,
        mapping: Self::Mapping,
        index: u64,
        fill: &mut dyn FnMut(&mut [u8]),
        change: &mut dyn FnMut(&mut [u8]),
    ) -> bool;

    /// Hands the dirty pages of a file mapping to `write`, in the order of their page numbers, and
    /// makes them clean. Returns how many pages were dirty.
    fn flush(&self, mapping: Self::Mapping, write: &mut dyn FnMut(u64, &[u8])) -> u64;

    /// Drops the pages from page number `from` on, and the shadow entries of evicted pages.
    fn truncate(&self, mapping: Self::Mapping, from: u64);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::memory::tests::Uncached;
    use crate::memory::{Buffer, CacheCounts, Counters, Footprint, Pages};
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

    struct Page {
        bytes: Vec<u8>,
        dirty: bool,
    }

    /// The simplest page cache: a map. When it is full, it evicts its lowest clean page.
    #[derive(Default)]
    pub(crate) struct Naive {
        memory: Uncached,
        pages: Mutex<BTreeMap<(u32, u64), Page>>,
        mappings: AtomicU32,
        ended: AtomicU32,
        truncated: AtomicU64,
        /// Maximum number of pages that the cache may hold; 0 = no limit.
        most: usize,
    }

    impl Naive {
        /// Makes a cache of at most `most` pages.
        pub(crate) fn of(most: usize) -> Self {
            Self { most, ..Self::default() }
        }

        fn with<T>(
            &self,
            key: (u32, u64),
            fill: &mut dyn FnMut(&mut [u8]),
            act: impl FnOnce(&mut Page) -> T,
        ) -> (bool, T) {
            let mut pages = self.pages.lock().unwrap();
            let was_cached = pages.contains_key(&key);
            if !was_cached && self.most > 0 && pages.len() == self.most {
                let clean = pages.iter().find(|(_, page)| !page.dirty).map(|(key, _)| *key);
                pages.remove(&clean.expect("not all pages are dirty"));
            }
            let page = pages.entry(key).or_insert_with(|| {
                let mut bytes = vec![0xee; 4096];
                fill(&mut bytes);
                Page { bytes, dirty: false }
            });
            (was_cached, act(page))
        }
    }

    impl KernelMemory for Naive {
        type Cache = usize;

        fn largest_kmalloc(&self) -> usize {
            self.memory.largest_kmalloc()
        }

        fn create_cache(&self, name: &str, bytes: usize) -> usize {
            self.memory.create_cache(name, bytes)
        }

        fn alloc(&self, bytes: usize) -> Option<Buffer> {
            self.memory.alloc(bytes)
        }

        fn free(&self, bytes: usize, object: Buffer) {
            self.memory.free(bytes, object);
        }

        fn free_bulk(&self, bytes: usize, objects: &mut Vec<Buffer>) {
            self.memory.free_bulk(bytes, objects);
        }

        fn alloc_pages(&self, pages: Pages) -> Option<Buffer> {
            self.memory.alloc_pages(pages)
        }

        fn free_pages(&self, pages: Pages, block: Buffer) {
            self.memory.free_pages(pages, block);
        }

        fn free_list(&self, pages: Pages, list: &mut Vec<Buffer>) {
            self.memory.free_list(pages, list);
        }

        fn counters(&self) -> Counters {
            Counters { pages_truncated: self.truncated.load(Relaxed), ..self.memory.counters() }
        }

        fn caches(&self) -> Vec<CacheCounts> {
            self.memory.caches()
        }

        fn footprint(&self) -> Footprint {
            self.memory.footprint()
        }

        fn check_at_end(&self) -> Result<(), String> {
            let (made, ended) = (self.mappings.load(Relaxed), self.ended.load(Relaxed));
            match self.pages.lock().unwrap().len() {
                0 if made == ended => self.memory.check_at_end(),
                pages => Err(format!("{pages} pages, {ended} of {made} mappings ended")),
            }
        }
    }

    impl FileCache for Naive {
        type Mapping = u32;

        fn create_mapping(&self) -> u32 {
            self.mappings.fetch_add(1, Relaxed)
        }

        fn destroy_mapping(&self, mapping: u32) {
            let pages = self.pages.lock().unwrap();
            assert!(pages.range((mapping, 0)..(mapping + 1, 0)).next().is_none(), "it has pages");
            self.ended.fetch_add(1, Relaxed);
        }

        fn read(
            &self,
            mapping: u32,
            index: u64,
            fill: &mut dyn FnMut(&mut [u8]),
            see: &mut dyn FnMut(&[u8]),
        ) -> bool {
            self.with((mapping, index), fill, |page| see(&page.bytes)).0
        }

        fn write(
            &self,
            mapping: u32,
            index: u64,
            fill: &mut dyn FnMut(&mut [u8]),
            change: &mut dyn FnMut(&mut [u8]),
        ) -> bool {
            let change = |page: &mut Page| {
                change(&mut page.bytes);
                page.dirty = true;
            };
            self.with((mapping, index), fill, change).0
        }

        fn flush(&self, mapping: u32, write: &mut dyn FnMut(u64, &[u8])) -> u64 {
            let mut pages = self.pages.lock().unwrap();
            let of_mapping = pages.range_mut((mapping, 0)..(mapping + 1, 0));
            let mut count = 0;
            for (key, page) in of_mapping.filter(|(_, page)| page.dirty) {
                write(key.1, &page.bytes);
                page.dirty = false;
                count += 1;
            }
            count
        }

        fn truncate(&self, mapping: u32, from: u64) {
            let mut pages = self.pages.lock().unwrap();
            let keys: Vec<_> =
                pages.range((mapping, from)..(mapping + 1, 0)).map(|it| *it.0).collect();
            self.truncated.fetch_add(keys.len() as u64, Relaxed);
            keys.iter().for_each(|key| drop(pages.remove(key)));
        }
    }
}
