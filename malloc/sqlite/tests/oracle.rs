//! The page cache's methods, called as SQLite may call them, and compared with a naive model.

use quarry_sqlite::{PcacheMethods2, cached_pages, open_caches, page_cache_methods};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::slice;

const EXTRA: usize = 216;
const KEYS: u64 = 400;

/// Pseudorandom numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }
}

/// A page in the model.
#[derive(Clone, Copy)]
struct Page {
    known: usize,
    mark: u8,
    is_pinned: bool,
}

/// A cache and its model. Only `xShrink` reclaims in this test, so an unpinned page may be missing
/// only after a shrink.
struct Beside {
    methods: PcacheMethods2,
    cache: *mut quarry_sqlite::Pcache,
    bytes: usize,
    pages: BTreeMap<u32, Page>,
    next_mark: u8,
}

impl Beside {
    fn new(bytes: usize, is_purgeable: bool) -> Self {
        let methods = page_cache_methods();
        let create = methods.create.unwrap();
        // SAFETY: arguments as SQLite gives them.
        let cache = unsafe { create(bytes as c_int, EXTRA as c_int, is_purgeable.into()) };
        assert!(!cache.is_null());
        Self { methods, cache, bytes, pages: BTreeMap::new(), next_mark: 1 }
    }

    /// The bytes of a page with its slack, and the extra bytes beside it.
    fn parts(&mut self, known: usize) -> (&mut [u8], &mut [u8], &[u8]) {
        // SAFETY: the page is pinned; the cache promises so many bytes, and 16 to read after them.
        unsafe {
            let known = &*(known as *const quarry_sqlite::PcachePage);
            assert!(known.buffer.addr().is_multiple_of(8) && known.extra.addr().is_multiple_of(8));
            (
                slice::from_raw_parts_mut(known.buffer.cast(), self.bytes),
                slice::from_raw_parts_mut(known.extra.cast(), EXTRA),
                slice::from_raw_parts(known.buffer.cast::<u8>().add(self.bytes), 16),
            )
        }
    }

    fn fetch(&mut self, key: u32, create: c_int) {
        let fetch = self.methods.fetch.unwrap();
        // SAFETY: the cache exists, and one thread uses it.
        let found = unsafe { fetch(self.cache, key as c_uint, create) } as usize;
        match self.pages.get(&key).copied() {
            Some(page) => {
                assert_eq!(found, page.known, "page {key} stays where it is");
                let (bytes, extra, slack) = self.parts(found);
                let _ = slack.iter().fold(0u8, |sum, byte| sum ^ byte);
                assert!([bytes[0], bytes[bytes.len() - 1], extra[EXTRA - 1]] == [page.mark; 3]);
                self.pages.get_mut(&key).unwrap().is_pinned = true;
            }
            None if create == 0 => assert_eq!(found, 0, "page {key} is not there"),
            None => self.fill(key, found),
        }
    }

    fn fill(&mut self, key: u32, found: usize) {
        assert_ne!(found, 0, "there is memory for page {key}");
        let mark = self.next_mark;
        self.next_mark = self.next_mark.wrapping_add(1).max(1);
        let (bytes, extra, _) = self.parts(found);
        assert_eq!(extra[..8], [0; 8], "a page is new if these are zero");
        bytes.fill(mark);
        extra.fill(mark);
        self.pages.insert(key, Page { known: found, mark, is_pinned: true });
    }

    /// A key of a pinned page, from `from` on, if there is one.
    fn pinned(&self, from: u32) -> Option<u32> {
        let mut pinned = self.pages.range(from..).filter(|(_, page)| page.is_pinned);
        pinned.next().map(|(key, _)| *key)
    }

    fn unpin(&mut self, key: u32, discard: bool) {
        let known = self.pages[&key].known;
        let unpin = self.methods.unpin.unwrap();
        // SAFETY: the page is pinned.
        unsafe { unpin(self.cache, known as *mut quarry_sqlite::PcachePage, discard.into()) };
        self.pages.get_mut(&key).unwrap().is_pinned = false;
        if discard {
            self.pages.remove(&key);
        }
    }

    fn rekey(&mut self, old: u32, new: u32) {
        if self.pages.get(&new).is_some_and(|page| page.is_pinned) {
            return;
        }
        let known = self.pages[&old].known;
        let rekey = self.methods.rekey.unwrap();
        // SAFETY: the page is pinned, and that at the new key is not.
        unsafe { rekey(self.cache, known as *mut quarry_sqlite::PcachePage, old, new) };
        let page = self.pages.remove(&old).unwrap();
        self.pages.insert(new, page);
    }

    fn truncate(&mut self, limit: u32) {
        // SAFETY: the cache exists.
        unsafe { self.methods.truncate.unwrap()(self.cache, limit) };
        self.pages.split_off(&limit);
    }

    /// Drops unpinned pages. A page may stay if the add batch of a CPU has it.
    fn shrink(&mut self) {
        // SAFETY: the cache exists.
        unsafe { self.methods.shrink.unwrap()(self.cache) };
        let fetch = self.methods.fetch.unwrap();
        let idle: Vec<u32> =
            self.pages.iter().filter(|(_, page)| !page.is_pinned).map(|(key, _)| *key).collect();
        for key in idle {
            // SAFETY: the cache exists.
            if unsafe { fetch(self.cache, key, 0) }.is_null() {
                self.pages.remove(&key);
            } else {
                self.pages.get_mut(&key).unwrap().is_pinned = true;
                self.unpin(key, false);
            }
        }
    }

    fn check_count(&self) {
        // SAFETY: the cache exists.
        let count = unsafe { self.methods.pagecount.unwrap()(self.cache) };
        assert_eq!(count as usize, self.pages.len());
    }

    fn step(&mut self, random: &mut Random) {
        let key = 1 + random.below(KEYS) as u32;
        match random.below(40) {
            0..=19 => self.fetch(key, random.below(3) as c_int),
            20..=33 => {
                if let Some(key) = self.pinned(key) {
                    self.unpin(key, random.below(6) == 0);
                }
            }
            34..=37 => {
                if let Some(old) = self.pinned(key) {
                    self.rekey(old, 1 + random.below(2 * KEYS) as u32);
                }
            }
            38 => self.truncate(key + random.below(KEYS) as u32),
            _ if random.below(8) == 0 => self.shrink(),
            _ => self.truncate(u32::MAX),
        }
        self.check_count();
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // SAFETY: the cache is not used any more.
        unsafe { self.methods.destroy.unwrap()(self.cache) };
    }
}

/// Compares methods and model for each page size, purgeable or not; afterwards no page is left. A
/// single test, so that no other one has pages.
#[test]
fn methods_do_what_the_model_does() {
    for (seed, bytes) in [512, 1024, 4096, 8192, 32768, 65536].into_iter().enumerate() {
        let mut beside = Beside::new(bytes, seed % 2 == 0);
        let mut random = Random(seed as u64);
        for _ in 0..6000 {
            beside.step(&mut random);
        }
    }
    assert_eq!((open_caches(), cached_pages()), (0, 0));
    quarry::Quarry::validate().unwrap();
}
