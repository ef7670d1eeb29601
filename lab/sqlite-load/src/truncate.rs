//! Drops many cached pages at once while another thread works: the experiment `truncate-stall`.
//!
//! The pages are fetched and dropped through the methods that SQLite calls, so that a million pages
//! need no file of 4 GB.

use crate::histogram::Histogram;
use crate::memory::resident;
use crate::variant::{Methods, PAGE_BYTES, Variant, page_cache_methods};
use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use libsqlite3_sys as ffi;
use serde::Serialize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The approximate bytes that SQLite wants beside each page.
const EXTRA_BYTES: i32 = 136;
/// Pages in the cache of the other thread.
const OWN_PAGES: u32 = 256;

/// How the pages are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// `xTruncate` drops all pages, as in a rollback or VACUUM.
    Truncate,
    /// `xDestroy` drops them, as when a database is closed.
    Close,
    /// Each page is fetched and discarded by itself.
    OneByOne,
}

#[derive(Args)]
pub(crate) struct Truncate {
    /// The page cache.
    #[arg(value_enum)]
    variant: Variant,
    /// How the pages are dropped.
    #[arg(value_enum)]
    way: Way,
    /// Number of pages.
    #[arg(long, default_value = "1000000")]
    pages: u32,
}

#[derive(Serialize)]
pub(crate) struct Figures {
    pages: u32,
    /// Time until all pages were dropped.
    ns: u64,
    ns_per_page: f64,
    /// The other thread's operations while the pages were dropped, and the longest of them.
    others: u64,
    longest_stall_ns: u64,
    p99_stall_ns: u64,
    /// The longest operation in an equally long time without drops: the machine's own stalls.
    idle_stall_ns: u64,
    peak_rss: u64,
    /// Pages that had the right bytes before they were dropped: all, in a right run.
    verified: u64,
}

struct Cache {
    methods: Methods,
    handle: NonNull<ffi::sqlite3_pcache>,
}

/// The part of the run for which the other thread records its operations.
#[derive(Default)]
struct Watch {
    /// 0: the times are not used; 1: no page is dropped; 2: the pages are dropped.
    part: AtomicU64,
    is_over: AtomicBool,
}

impl Truncate {
    pub(crate) fn run(self) -> Result<Figures> {
        let budget = (u64::from(self.pages) + 65_536) * (PAGE_BYTES + 512) + (256 << 20);
        self.variant.set_up(budget)?;
        let api = self.variant.api();
        let methods = page_cache_methods(api)?;
        // SAFETY: SQLite is not in use yet.
        ensure!(unsafe { (api.initialize)() } == ffi::SQLITE_OK, "sqlite3_initialize");
        let watch = Watch::default();
        thread::scope(|scope| {
            let other = scope.spawn(|| work(methods, &watch));
            let gone = self.leave(methods, &watch);
            watch.is_over.store(true, Relaxed);
            let [_, idle, busy] = other.join().expect("the other thread does not panic")?;
            let (verified, took) = gone?;
            Ok(Figures {
                pages: self.pages,
                ns: took.as_nanos() as u64,
                ns_per_page: took.as_nanos() as f64 / f64::from(self.pages),
                others: busy.total(),
                longest_stall_ns: busy.most(),
                p99_stall_ns: busy.quantile(0.99),
                idle_stall_ns: idle.most(),
                peak_rss: resident().peak,
                verified,
            })
        })
    }

    fn leave(&self, methods: Methods, watch: &Watch) -> Result<(u64, Duration)> {
        let cache = Cache::create(methods, self.pages)?;
        for key in 1..=self.pages {
            ensure!(cache.touch(key), "no memory for page {key}");
        }
        let right = (1..=self.pages).filter(|key| cache.holds(*key)).count() as u64;
        ensure!(right == u64::from(self.pages), "{right} pages are right");
        let took = self.timed(cache, watch);
        // Waits for as long again, and drops no page.
        watch.part.store(1, Relaxed);
        thread::sleep(took);
        watch.part.store(0, Relaxed);
        Ok((right, took))
    }

    fn timed(&self, cache: Cache, watch: &Watch) -> Duration {
        watch.part.store(2, Relaxed);
        let start = Instant::now();
        match self.way {
            Way::Truncate => cache.truncate(),
            Way::OneByOne => (1..=self.pages).for_each(|key| cache.discard(key)),
            Way::Close => {
                drop(cache);
                let took = start.elapsed();
                watch.part.store(0, Relaxed);
                return took;
            }
        }
        let took = start.elapsed();
        watch.part.store(0, Relaxed);
        took
    }
}

impl Cache {
    fn create(methods: Methods, pages: u32) -> Result<Self> {
        let create = methods.0.xCreate.expect("a page cache has this method");
        // SAFETY: the arguments are those of SQLite for a file.
        let handle = unsafe { create(PAGE_BYTES as i32, EXTRA_BYTES, 1) };
        let handle = NonNull::new(handle).ok_or_else(|| anyhow::anyhow!("no cache"))?;
        let cache = Self { methods, handle };
        let size = methods.0.xCachesize.expect("a page cache has this method");
        // SQLite's own cache evicts pages beyond this size, so it is twice the number of pages.
        let most = i32::try_from(pages)?.saturating_mul(2);
        // SAFETY: the cache exists.
        unsafe { size(cache.handle.as_ptr(), most) };
        Ok(cache)
    }

    fn fetch(&self, key: u32, create: i32) -> Option<NonNull<ffi::sqlite3_pcache_page>> {
        let fetch = self.methods.0.xFetch.expect("a page cache has this method");
        // SAFETY: the cache exists, and one thread uses it.
        NonNull::new(unsafe { fetch(self.handle.as_ptr(), key, create) })
    }

    fn unpin(&self, page: NonNull<ffi::sqlite3_pcache_page>, discard: bool) {
        let unpin = self.methods.0.xUnpin.expect("a page cache has this method");
        // SAFETY: the page was fetched from this cache.
        unsafe { unpin(self.handle.as_ptr(), page.as_ptr(), discard.into()) };
    }

    /// Fetches or creates a page, and writes its key to both ends; false if there is no memory.
    fn touch(&self, key: u32) -> bool {
        let Some(page) = self.fetch(key, 2) else { return false };
        // SAFETY: a page has `PAGE_BYTES` bytes, at a multiple of 8.
        unsafe {
            let bytes = page.as_ref().pBuf.cast::<u32>();
            bytes.write(key);
            bytes.add(PAGE_BYTES as usize / 4 - 1).write(key);
        }
        self.unpin(page, false);
        true
    }

    /// Returns whether the cache holds the page with its right bytes.
    fn holds(&self, key: u32) -> bool {
        let Some(page) = self.fetch(key, 0) else { return false };
        // SAFETY: same as in `touch`.
        let ends = unsafe {
            let bytes = page.as_ref().pBuf.cast::<u32>();
            [bytes.read(), bytes.add(PAGE_BYTES as usize / 4 - 1).read()]
        };
        self.unpin(page, false);
        ends == [key; 2]
    }

    fn discard(&self, key: u32) {
        if let Some(page) = self.fetch(key, 0) {
            self.unpin(page, true);
        }
    }

    fn truncate(&self) {
        let truncate = self.methods.0.xTruncate.expect("a page cache has this method");
        // SAFETY: the cache exists, and none of its pages is in use.
        unsafe { truncate(self.handle.as_ptr(), 1) };
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let destroy = self.methods.0.xDestroy.expect("a page cache has this method");
        // SAFETY: the cache is not used afterwards.
        unsafe { destroy(self.handle.as_ptr()) };
    }
}

/// The other thread's work: hits in a small cache of its own, and at times a new page. Returns the
/// times of the operations, separately for each part of the run.
fn work(methods: Methods, watch: &Watch) -> Result<[Histogram; 3]> {
    let cache = Cache::create(methods, OWN_PAGES)?;
    let mut times = [Histogram::new(), Histogram::new(), Histogram::new()];
    let mut number = 0u32;
    while !watch.is_over.load(Relaxed) {
        let part = watch.part.load(Relaxed) as usize;
        let start = Instant::now();
        let key = 1 + number % OWN_PAGES;
        ensure!(cache.touch(key), "no memory for page {key}");
        if number.is_multiple_of(16) {
            cache.discard(key);
        }
        times[part].add(start.elapsed().as_nanos() as u64);
        number = number.wrapping_add(1);
    }
    Ok(times)
}
