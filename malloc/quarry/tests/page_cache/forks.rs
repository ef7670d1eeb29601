//! A fork while other threads work: the parent continues, and the child finds what the
//! documentation promises.

use crate::alone::alone;
use crate::store::{Disk, page_of, readable, writable};
use quarry::{Error, Invalidate, PageCache};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

#[test]
fn a_fork_in_the_middle_of_reads_writes_and_waits() {
    alone("forks::in_the_middle", &[("QUARRY_LIMIT", "32M")]);
}

/// Runs `child` in a forked child, which exits without running the parent's destructors.
fn in_child(child: impl FnOnce()) {
    // SAFETY: the child has one thread. It uses no lock that another thread of the parent may have
    // held, except Quarry's, and leaves by `_exit`.
    let id = unsafe { libc::fork() };
    assert!(id >= 0, "no fork");
    if id == 0 {
        let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).is_ok();
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!passed)) };
    }
    let mut status = 0;
    // SAFETY: `status` is writable.
    assert_eq!(unsafe { libc::waitpid(id, &raw mut status, 0) }, id);
    assert_eq!(status, 0, "the child fails");
}

#[test]
#[ignore = "forks beside threads"]
fn in_the_middle() {
    const PAGES: u64 = 600;
    let (disk, written) = (Disk::of_pages(PAGES), Disk::of_pages(PAGES));
    let reading = PageCache::open(readable(&disk)).unwrap();
    let writing = PageCache::open(writable(&written)).unwrap();
    let kept = reading.read(7).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..2u64 {
            let (reading, writing, over) = (&reading, &writing, &over);
            scope.spawn(move || {
                let mut round = seed;
                while !over.load(SeqCst) {
                    round = round.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                    let index = (round >> 33) % PAGES;
                    assert_eq!(reading.read(index).unwrap()[..], page_of(index));
                    let mut page = writing.read(index).unwrap().latch_exclusive();
                    let to = u64::from_le_bytes(page[..8].try_into().unwrap()) / 1_000_003;
                    assert_eq!(page[..], page_of(to), "a mixture");
                    page.copy_from_slice(&page_of(to + 1));
                    drop(page);
                    match round >> 40 & 31 {
                        0 => reading.invalidate(.., Invalidate::CleanOnly).dropped,
                        1 => reading.truncate(index).unwrap(),
                        2 => writing.flush(..).map(|()| 0).unwrap(),
                        _ => 0,
                    };
                }
            });
        }
        for _ in 0..12 {
            in_child(|| {
                assert_eq!(kept[..], page_of(7), "what is pinned stays");
                assert_eq!(reading.read(PAGES - 1).map(drop).err(), child_error(&reading));
                assert_eq!(writing.flush(..), Err(Error::Forked));
                assert_eq!(reading.truncate(0), Err(Error::Forked));
                // A cache made by the child, over a disk that only it uses.
                let own = Disk::of_pages(60);
                let mapping = PageCache::open(writable(&own)).unwrap();
                for index in 0..60 {
                    let mut page = mapping.read(index).unwrap().latch_exclusive();
                    assert_eq!(page[..], page_of(index));
                    page.copy_from_slice(&page_of(index + 1));
                }
                mapping.flush(..).unwrap();
                drop(mapping);
                assert!((0..60).all(|index| own.page(index) == page_of(index + 1)));
            });
        }
        over.store(true, SeqCst);
    });
    drop(kept);
    writing.flush(..).unwrap();
    drop((reading, writing));
    assert_eq!(PageCache::stats().pages(), 0, "no page is left in the parent");
}

/// The error of reading the last page in the child; none if the page is cached.
fn child_error<B: quarry::Backing>(mapping: &quarry::Mapping<B>) -> Option<Error> {
    mapping.get(599).is_none().then_some(Error::Forked)
}

#[test]
fn a_child_drops_what_it_inherits_and_writes_nothing() {
    alone("forks::inherits", &[]);
}

#[test]
#[ignore = "forks"]
fn inherits() {
    let disk = Disk::of_pages(20);
    let mapping = PageCache::open(writable(&disk)).unwrap();
    (3..9).for_each(|index| {
        mapping.read(index).unwrap().latch_exclusive().copy_from_slice(&page_of(index + 100));
    });
    let address = &raw const mapping;
    in_child(|| {
        assert_eq!(mapping.get(5).unwrap().latch_shared()[..], page_of(105));
        assert_eq!(mapping.rekey(5, 6), Err(Error::Forked));
        assert_eq!(mapping.create(15).err(), Some(Error::Forked));
        assert_eq!(mapping.discard(5), Err(Error::Forked));
        assert_eq!(mapping.wait_writeback(..), Err(Error::Forked));
        mapping.prefetch(..);
        // SAFETY: the child leaves by `_exit`, so this copy is the only one that is dropped.
        drop(unsafe { address.read() });
        assert!(disk.writes.lock().unwrap().is_empty(), "these pages are the parent's to write");
        assert_eq!(PageCache::stats().pages(), 0);
    });
    mapping.flush(..).unwrap();
    assert!((3..9).all(|index| disk.page(index) == page_of(index + 100)));
}

#[test]
fn a_fork_while_the_background_writes() {
    alone("forks::background_writes", &[("QUARRY_LIMIT", "32M")]);
}

#[test]
#[ignore = "forks beside the background thread"]
fn background_writes() {
    let disk = Disk::of_pages(0);
    PageCache::set_dirty_ratios(1, 100).unwrap();
    let mapping = PageCache::open(writable(&disk)).unwrap();
    let begun = |at_least: usize| {
        while disk.arrived.load(SeqCst) < at_least {
            thread::yield_now();
        }
    };
    for round in 0..8u64 {
        disk.close();
        let before = disk.arrived.load(SeqCst);
        for index in round * 500..round * 500 + 500 {
            let page = mapping.create(index).unwrap();
            drop(page.fill_dirty(|bytes| bytes.copy_from_slice(&page_of(index))));
        }
        // The background thread is writing now, with pages latched and marked.
        begun(before + 1);
        in_child(|| {
            let page = mapping.get(round * 500).expect("it is cached");
            assert!(page.version().is_some(), "nobody writes it");
            assert_eq!(mapping.flush(..), Err(Error::Forked));
            let own = Disk::of_pages(2000);
            let mapping = PageCache::open(writable(&own)).unwrap();
            for index in 0..2000 {
                mapping.read(index).unwrap().latch_exclusive()[0] = 1;
            }
            mapping.flush(..).unwrap();
            assert!((0..2000).all(|index| own.page(index)[0] == 1));
        });
        disk.open();
        mapping.flush(..).unwrap();
    }
    assert!((0..4000).all(|index| disk.page(index) == page_of(index)));
    drop(mapping);
    assert_eq!(PageCache::stats().pages(), 0);
}
