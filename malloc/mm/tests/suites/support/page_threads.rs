//! Threads on the page cache of one stack, with real sequences: each thread reads, dirties, writes,
//! truncates, invalidates and reclaims. Each word of a page names the page's mapping and index, and
//! is changed only under the page's exclusive latch.

use super::seed::{Dice, seed};
use super::{Backing, Bed, TestOs, small, unregister};
use quarry_cache::lru::{LruPolicy, PageNo};
use quarry_cache::page_cache::{
    Effort, Invalidate, MappingId, MappingOptions, PageCacheRef, ReadError, ScanFor, ScanRequest,
    Slot, TruncationPolicy,
};
use quarry_cache::{PageCaching, PageCachingOptions};
use quarry_mm::frame::NodeId;
use quarry_mm::pcp::V6_18;
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{Stack, StackConfig};
use quarry_sys::percpu::NativeSlots;
use quarry_watch::AllInstruments;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const MAPPINGS: u64 = 3;
const INDEXES: u64 = 400;
const STEPS: usize = 20_000;
/// The limit in frames: fewer than the pages of all mappings.
const LIMIT_FRAMES: u32 = 700;
const WORDS: usize = 512;

struct Config<P>(PhantomData<P>);

impl<P: LruPolicy> StackConfig for Config<P> {
    type PerCpu = NativeSlots;
    type Slab = Sheaf;
    type Pages = V6_18;
    type Cache = PageCaching<P>;
    type Watch = AllInstruments;
}

type Cache<'a, P> = PageCacheRef<'a, Stack<Config<P>>>;

struct Worker<'a, P: LruPolicy> {
    cache: Cache<'a, P>,
    ids: &'a [MappingId],
    dice: Dice,
}

impl<P: LruPolicy> Worker<'_, P> {
    fn key(&mut self) -> (MappingId, u64, u64) {
        let mapping = self.dice.below(MAPPINGS as usize);
        // Two thirds of the keys are among the first eighth of the indexes.
        let most = if self.dice.below(3) == 0 { INDEXES } else { INDEXES / 8 };
        let index = self.dice.below(most as usize) as u64;
        (self.ids[mapping], index, (mapping as u64) << 32 | index)
    }

    fn words(&self, page: PageNo) -> *mut u64 {
        self.cache.address(page).as_ptr().cast()
    }

    /// Reads a page, and writes it now and then.
    fn read(&mut self) {
        let (id, index, name) = self.key();
        let page = match self.cache.get_or_alloc(id, index, Effort::Every) {
            Ok(Slot::Found(page)) => page,
            Ok(Slot::New(page)) if self.dice.below(20) == 0 => {
                return self.cache.fill_failed(page, 5);
            }
            Ok(Slot::New(page)) => {
                for at in 0..WORDS {
                    // SAFETY: the page is pinned and has `WORDS` words, and this thread fills it.
                    unsafe { self.words(page).add(at).write(name) };
                }
                self.cache.fill_done(page);
                page
            }
            Err(error) => return assert!(matches!(error, ReadError::Full | ReadError::Failed(5))),
        };
        if self.dice.below(4) == 0 {
            self.write(page, name);
        } else {
            self.look(page, name);
        }
        self.cache.unpin(page);
    }

    /// Checks that two words name the page, and that both have seen the same number of writes.
    fn look(&mut self, page: PageNo, name: u64) {
        self.cache.latch_shared(page);
        let (start, at) = (self.words(page), self.dice.below(WORDS));
        // SAFETY: the page is pinned and latched, and has `WORDS` words.
        let (first, other) = unsafe { (start.read_volatile(), start.add(at).read_volatile()) };
        self.cache.unlatch_shared(page);
        let writes = 0xffff << 40;
        assert_eq!(first & !writes, name, "another page's bytes");
        assert_eq!(first, other, "half a write");
    }

    fn write(&mut self, page: PageNo, name: u64) {
        self.cache.latch_exclusive(page);
        let start = self.words(page);
        for at in 0..WORDS {
            // SAFETY: the page is pinned and latched for writing, and has `WORDS` words.
            unsafe { start.add(at).write((start.add(at).read() + (1 << 40)) & !(1 << 56)) };
        }
        if self.dice.below(3) == 0 {
            self.cache.mark_dirty(page);
        }
        self.cache.unlatch_exclusive(page);
        self.look(page, name);
    }

    fn flush(&mut self) {
        let (id, index, _) = self.key();
        let mut pages = [PageNo(0); 16];
        let count = self.cache.dirty_pages(id, index / 2, &mut pages);
        for page in &pages[..count] {
            self.cache.latch_shared(*page);
            let begun = self.cache.begin_writeback(*page);
            self.cache.unlatch_shared(*page);
            if begun {
                self.cache.end_writeback(*page, self.dice.below(8) == 0);
            }
            self.cache.unpin(*page);
        }
    }

    fn step(&mut self) {
        match self.dice.below(100) {
            0..90 => self.read(),
            90..95 => self.flush(),
            95..97 => {
                let (id, index, _) = self.key();
                self.cache.truncate(id, index + INDEXES / 4);
            }
            97 => {
                let (id, index, _) = self.key();
                self.cache.invalidate(id, index..index + 20, Invalidate::CleanOnly);
            }
            98 => {
                let (id, index, _) = self.key();
                self.cache.discard(id, index);
            }
            _ => {
                let who =
                    if self.dice.below(2) == 0 { ScanFor::Direct } else { ScanFor::Background };
                let request = ScanRequest {
                    who,
                    most: 32,
                    most_scanned: 64,
                    until_ns: u64::MAX,
                    spares_low: true,
                };
                self.cache.reclaim(NodeId(0), &request);
            }
        }
    }
}

/// Threads share pages under an LRU and a truncation policy; `unregistered` threads have no rseq.
pub(crate) fn share_pages<P: LruPolicy>(
    policy: P,
    truncation: TruncationPolicy,
    unregistered: usize,
) {
    let mut options = small();
    options.pages.limit_frames = LIMIT_FRAMES;
    let mut cached = PageCachingOptions::default();
    cached.lru.policy = policy;
    cached.pages.truncation = truncation;
    let os = Box::leak(Box::new(TestOs::new(Backing::Linux, 4096)));
    let bed = Bed::<Config<P>>::on_with(os, &options, &cached, |_| {})
        .expect("a system that fails nowhere");
    let cache = PageCaching::open(&*bed.stack).expect("memory for the tables");
    let create = |_| cache.create_mapping(&MappingOptions::default()).expect("memory");
    let ids: Vec<_> = (0..MAPPINGS).map(create).collect();
    let (seed, done) = (seed(), AtomicBool::new(false));
    let rounds = std::env::var("QUARRY_TEST_ROUNDS").map_or(1, |text| text.parse().unwrap());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|number: usize| {
                let mut worker = Worker { cache, ids: &ids, dice: Dice::new(seed + number as u64) };
                scope.spawn(move || {
                    if number < unregistered {
                        unregister();
                    }
                    (0..STEPS * rounds).for_each(|_| worker.step());
                })
            })
            .collect();
        let trimmer = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let _ = bed.stack.trim();
                (0..20).for_each(|_| thread::yield_now());
            }
        });
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::Release);
        trimmer.join().expect("giving memory back");
        results.into_iter().for_each(|result| result.expect("a worker"));
    });
    assert_eq!(cache.validate(), Ok(()));
    assert_eq!(cache.pinned_frames(), 0);
    ids.into_iter().for_each(|id| assert!(cache.destroy_mapping(id)));
    // Pages are still in the add batches of other CPUs.
    cache.trim();
    assert_eq!(cache.events().in_memory(), 0);
    bed.assert_empty(&[]);
}
