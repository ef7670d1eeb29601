//! The heap beside a busy cache at the limit: no request fails while there are enough clean pages,
//! and no read fails unless the heap has all of the memory.

use crate::alone::alone;
use crate::store::PAGE;
use quarry::{Backing, Budget, Mapping, OsError, PageCache, Quarry, ReadWrite};
use std::alloc::{GlobalAlloc, Layout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;

const LIMIT: usize = 64 << 20;
const PAGES: u64 = 4 * (LIMIT / PAGE) as u64;
const TASKS: u64 = 8;

/// A disk on which each page begins with its own offset. While the counter is above 0, the disk
/// refuses writes, and counts them.
#[derive(Default)]
struct Numbers(Arc<AtomicU32>);

impl Backing for Numbers {
    type Access = ReadWrite;

    fn size(&self) -> u64 {
        PAGES * PAGE as u64
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, OsError> {
        for (page, offset) in bytes.chunks_mut(PAGE).zip((offset..).step_by(PAGE)) {
            page[..8].copy_from_slice(&offset.to_le_bytes());
        }
        Ok(bytes.len())
    }

    fn write_pages(&self, _: u64, pages: &[&[u8]]) -> Result<usize, OsError> {
        if self.0.load(SeqCst) > 0 {
            self.0.fetch_add(1, SeqCst);
            return Err(OsError(libc::EIO));
        }
        Ok(pages.iter().map(|page| page.len()).sum())
    }
}

/// Memory of the heap whose last byte was written.
struct Block(*mut u8, Layout);

impl Block {
    fn of(bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes, 16).unwrap();
        // SAFETY: the layout has a size.
        let start = unsafe { Quarry.alloc(layout) };
        (!start.is_null()).then(|| {
            // SAFETY: it was just allocated, with so many bytes.
            unsafe { start.add(bytes - 1).write(7) };
            Self(start, layout)
        })
    }

    fn demand(bytes: usize) -> Self {
        Self::of(bytes).unwrap_or_else(|| {
            let stats = Budget::get().unwrap().stats();
            let clean = stats.file - stats.dirty - stats.writeback - stats.pinned;
            panic!(
                "{bytes} bytes are refused where {clean} bytes of the cache are clean: {stats:?}"
            )
        })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and no other code has it.
        unsafe { Quarry.dealloc(self.0, self.1) };
    }
}

/// Runs `heap` beside tasks that read random pages, and write one in `write` of them, if given.
fn beside(write: Option<u64>, heap: impl FnOnce(&dyn Fn())) {
    let mapping = PageCache::builder().read_ahead(0).open(Numbers::default()).unwrap();
    let (over, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let task = |mapping: &Mapping<Numbers>, seed: u64| {
        let mut state = seed * 99 + 7;
        while !over.load(SeqCst) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let index = state % PAGES;
            let page = mapping.read(index).expect("no read fails");
            match write {
                Some(every) if (state >> 40).is_multiple_of(every) => {
                    page.latch_exclusive()[PAGE - 1] = 1;
                }
                _ => {
                    let number = page.latch_shared()[..8].try_into().unwrap();
                    assert_eq!(u64::from_le_bytes(number), index * PAGE as u64);
                }
            }
            reads.fetch_add(1, SeqCst);
        }
    };
    /// Ends the tasks, even if `heap` panics.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    thread::scope(|scope| {
        let _ends = Ends(&over);
        let tasks: Vec<_> = (0..TASKS)
            .map(|seed| {
                scope.spawn({
                    let (mapping, task) = (&mapping, &task);
                    move || task(mapping, seed)
                })
            })
            .collect();
        heap(&|| {
            // Wait until the cache has all of the memory again.
            while Budget::get().unwrap().stats().free > LIMIT / 16 {
                assert!(!tasks.iter().any(|task| task.is_finished()), "no read fails");
                thread::yield_now();
            }
        });
        assert!(!tasks.iter().any(|task| task.is_finished()), "no read fails");
    });
    assert!(reads.into_inner() > 0);
}

#[test]
fn a_large_request_is_served_beside_readers() {
    for background in ["0", "1"] {
        let options = [("QUARRY_LIMIT", "64M"), ("QUARRY_BACKGROUND", background)];
        alone("at_limit::large_beside_readers", &options);
    }
}

#[test]
#[ignore = "needs a limit of its own"]
fn large_beside_readers() {
    beside(None, |filled| {
        for bytes in [8 << 20, 1 << 20, LIMIT / 2] {
            for _ in 0..20 {
                filled();
                Block::demand(bytes);
            }
        }
    });
}

#[test]
fn a_large_request_is_served_beside_writers() {
    alone("at_limit::large_beside_writers", &[("QUARRY_LIMIT", "64M")]);
}

#[test]
#[ignore = "needs a limit of its own"]
fn large_beside_writers() {
    beside(Some(4), |filled| {
        for _ in 0..30 {
            filled();
            Block::demand(8 << 20);
        }
    });
}

#[test]
fn small_requests_are_served_beside_readers() {
    alone("at_limit::small_beside_readers", &[("QUARRY_LIMIT", "64M")]);
}

#[test]
#[ignore = "needs a limit of its own"]
fn small_beside_readers() {
    beside(None, |filled| {
        for bytes in [100, 3000, 40_000] {
            filled();
            let held: Vec<Block> = (0..LIMIT / 2 / bytes).map(|_| Block::demand(bytes)).collect();
            assert_eq!(held.len(), LIMIT / 2 / bytes);
        }
    });
}

#[test]
fn the_heap_leaves_the_cache_its_floor() {
    alone("at_limit::floor", &[("QUARRY_LIMIT", "64M")]);
}

#[test]
#[ignore = "needs a limit of its own"]
fn floor() {
    beside(None, |filled| {
        for bytes in [2 << 20, 20_000] {
            filled();
            let held: Vec<Block> = std::iter::from_fn(|| Block::of(bytes)).collect();
            assert!(held.len() * bytes > LIMIT * 8 / 10, "{} blocks of {bytes}", held.len());
            // These requests are refused again and again, while the tasks continue.
            (0..20).for_each(|_| assert!(Block::of(8 << 20).is_none()));
        }
    });
}

#[test]
fn dirty_pages_are_written_for_a_request_or_counted() {
    alone("at_limit::dirty", &[("QUARRY_LIMIT", "64M")]);
}

#[test]
#[ignore = "needs a limit of its own"]
fn dirty() {
    let refuses = Arc::new(AtomicU32::new(0));
    let mapping = PageCache::builder().read_ahead(0).open(Numbers(Arc::clone(&refuses))).unwrap();
    let mut pages = 0..u64::MAX;
    let mut change = |is_enough: &dyn Fn() -> bool| {
        while !is_enough() {
            let index = pages.next().unwrap() % PAGES;
            mapping.read(index).unwrap().latch_exclusive()[8] = 1;
        }
    };
    let balances = || Budget::get().unwrap().stats().balances;
    let is_full = || PageCache::stats().dirty() > (LIMIT / PAGE) as u64 * 9 / 10;
    // The background thread begins to write; afterwards pages are written only on request.
    change(&|| PageCache::stats().events().any(|(name, count)| name == "nr_written" && count > 0));
    PageCache::set_dirty_ratios(100, 100).unwrap();
    change(&is_full);
    assert_eq!(balances().refused, 0);
    drop(Block::demand(8 << 20));
    change(&is_full);
    refuses.store(1, SeqCst);
    // On a busy machine requests are refused before any page could be written.
    while Block::of(8 << 20).is_some() || refuses.load(SeqCst) == 1 {
        change(&is_full);
    }
    assert!(balances().refused > 0 && balances().refused_dirty > 0, "{:?}", balances());
    refuses.store(0, SeqCst);
    assert!(mapping.flush(..).is_err(), "it is reported");
    mapping.flush(..).unwrap();
    drop(Block::demand(8 << 20));
}
