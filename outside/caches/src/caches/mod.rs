//! The caches that are compared, each an implementation of one trait.
//!
//! ```text
//! shelves   quick_cache, moka and foyer: maps whose values are pages
//! vmcache   the mechanism of vmcache
//! swizzle   the mechanism of LeanStore
//! quarry    Quarry's page cache
//! pool      memory for the pages of the two mechanisms
//! ```

mod pool;
mod quarry;
mod shelves;
mod swizzle;
mod vmcache;

pub use quarry::QuarryCache;
pub use shelves::{Foyer, Moka, QuickCache};
pub use swizzle::Swizzle;
pub use vmcache::{Guard, VmCache};

use crate::page::{Key, Page, Reading};

/// A cache of pages.
pub trait PageCache: Sync {
    /// Reads the part of a page that `reading` selects; `None` if the page is not cached.
    fn get(&self, key: Key, reading: Reading) -> Option<u64>;

    /// Inserts a page with the bytes that `fill` writes, and evicts pages for it. Another thread
    /// may be inserting the same page. Returns whether one of the threads inserted it.
    fn insert(&self, key: Key, fill: impl FnOnce(&Page)) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::thread;

    const CAPACITY: u32 = 512;
    const PAGES: u32 = 4 * CAPACITY;

    fn look_up(cache: &impl PageCache, number: u32, fills: &AtomicU64) {
        let key = Key::of(number);
        for reading in [Reading::Word, Reading::Whole] {
            match cache.get(key, reading) {
                Some(found) => assert_eq!(found, key.expected(reading), "page {number}"),
                None => {
                    let is_in = cache.insert(key, |page| {
                        fills.fetch_add(1, Relaxed);
                        page.write(key);
                    });
                    assert!(is_in, "page {number} was refused");
                }
            }
        }
    }

    /// A cache returns the right bytes of every page, also while it evicts pages, and keeps about
    /// as many pages as it has room for.
    fn holds_what_it_says(cache: &impl PageCache) {
        let fills = AtomicU64::new(0);
        thread::scope(|scope| {
            for seed in 0..3 {
                let fills = &fills;
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..20_000 {
                        look_up(cache, random.below(PAGES), fills);
                    }
                });
            }
        });
        assert!(fills.load(Relaxed) > u64::from(PAGES), "pages are evicted");
        let cached = (0..PAGES).filter(|page| cache.get(Key::of(*page), Reading::Whole).is_some());
        let cached = cached.count() as u32;
        assert!((CAPACITY / 2..=CAPACITY).contains(&cached), "{cached} of {CAPACITY}");
    }

    #[test]
    fn every_cache_returns_the_right_bytes() {
        holds_what_it_says(&QuickCache::new(CAPACITY));
        holds_what_it_says(&Foyer::new(CAPACITY));
        holds_what_it_says(&VmCache::new(CAPACITY, PAGES).unwrap());
        holds_what_it_says(&Swizzle::new(CAPACITY, PAGES).unwrap());
    }

    /// moka evicts later, in its own maintenance.
    #[test]
    fn moka_returns_the_right_bytes() {
        let (cache, fills) = (Moka::new(CAPACITY), AtomicU64::new(0));
        let mut random = Random::new(4);
        for _ in 0..20_000 {
            look_up(&cache, random.below(PAGES), &fills);
        }
        cache.settle();
        let cached = (0..PAGES).filter(|page| cache.get(Key::of(*page), Reading::Whole).is_some());
        assert!(cached.count() <= CAPACITY as usize);
    }
}
