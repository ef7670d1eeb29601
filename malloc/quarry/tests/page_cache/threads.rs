//! All operations at the same time, on pages whose bytes identify their version.

use crate::alone::alone;
use crate::store::{Disk, Store, page_of, writable};
use quarry::{Error, Invalidate, Mapping, PageCache, ReadWrite};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

#[test]
fn readers_writers_truncation_reclaim_and_writeback_at_once() {
    // A quarter of the pages fit into the limit.
    alone("threads::at_once", &[("QUARRY_LIMIT", "24M"), ("QUARRY_PURGE_DELAY", "100")]);
}

const PAGES: u64 = 8192;
const STEPS: u64 = 12_000;

/// The number of a page's version, from its first word; checks that all bytes belong to it.
fn version_of(bytes: &[u8]) -> u64 {
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap()) / 1_000_003;
    assert_eq!(bytes, page_of(number), "a mixture of versions");
    number
}

#[test]
#[ignore = "needs a limit of its own"]
fn at_once() {
    let disk = Disk::of_pages(PAGES);
    let mapping = PageCache::open(writable(&disk)).unwrap();
    // The newest version that each page of the front half may have; no task truncates these.
    let newest: Mutex<HashMap<u64, u64>> = Mutex::new(HashMap::new());
    let (versions, over) = (AtomicU64::new(1 << 20), AtomicBool::new(false));
    thread::scope(|scope| {
        for seed in 0..3u64 {
            let (mapping, newest, versions) = (&mapping, &newest, &versions);
            scope.spawn(move || {
                let mut state = seed;
                for _ in 0..STEPS {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                    let index = (state >> 33) % PAGES;
                    let page = match mapping.read(index) {
                        Err(Error::Full) => continue,
                        page => page.unwrap(),
                    };
                    if state >> 60 < 5 {
                        let mut page = page.latch_exclusive();
                        version_of(&page);
                        let version = versions.fetch_add(1, SeqCst);
                        page.copy_from_slice(&page_of(version));
                        if index < PAGES / 2 {
                            newest.lock().unwrap().insert(index, version);
                        }
                    } else {
                        version_of(&page.latch_shared());
                    }
                }
            });
        }
        let (mapping, over) = (&mapping, &over);
        let others = scope.spawn(move || {
            let mut round = 0u64;
            while !over.load(SeqCst) {
                round += 1;
                match round % 4 {
                    0 => drop(mapping.truncate(PAGES / 2 + round * 37 % (PAGES / 2)).unwrap()),
                    1 => mapping.flush(round * 91 % PAGES..).unwrap(),
                    2 => drop(mapping.invalidate(..PAGES / 2, Invalidate::CleanOnly)),
                    _ => mapping.prefetch(round * 57 % PAGES..round * 57 % PAGES + 64),
                }
                thread::yield_now();
            }
        });
        while versions.load(SeqCst) < (1 << 20) + STEPS * 3 / 4 {
            thread::yield_now();
        }
        over.store(true, SeqCst);
        others.join().unwrap();
    });
    check_all(&disk, &mapping, &newest.into_inner().unwrap());
    let evicted: u64 = PageCache::stats()
        .events()
        .filter(|(name, _)| name.starts_with("pgsteal"))
        .map(|(_, count)| count)
        .sum();
    assert!(evicted > 1000, "{evicted} pages were evicted: reclaim was at work");
    drop(mapping);
    assert_eq!(PageCache::stats().pages(), 0, "no page is left");
}

/// Flushes, and demands that disk and cache are equal, and that pages which were never truncated
/// have their last change.
fn check_all(disk: &Disk, mapping: &Mapping<Store<ReadWrite>>, newest: &HashMap<u64, u64>) {
    mapping.flush(..).unwrap();
    for index in 0..PAGES {
        let on_disk = version_of(&disk.page(index));
        if let Some(version) = newest.get(&index) {
            assert_eq!(on_disk, *version, "the last change of page {index} is on the disk");
        }
        match mapping.read(index) {
            Ok(page) => assert_eq!(version_of(&page.latch_shared()), on_disk),
            Err(error) => panic!("page {index}: {error}"),
        }
    }
}
