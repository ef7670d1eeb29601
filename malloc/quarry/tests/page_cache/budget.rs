//! One budget: heap and cache share the memory, and each gives some back when the other needs it.

use crate::alone::alone;
use crate::store::{Disk, PAGE, page_of, readable, writable};
use quarry::{Budget, Error, PageCache, PagePool, Pages};

/// Takes blocks of 64 KiB, `bytes` bytes in total.
fn blocks(pool: &PagePool, bytes: usize) -> Option<Vec<Pages<'_>>> {
    (0..bytes >> 16).map(|_| pool.alloc(4, Default::default())).collect()
}

#[test]
fn the_cache_gives_way_to_the_heap_and_comes_back() {
    alone("budget::gives_way", &[("QUARRY_LIMIT", "32M")]);
}

#[test]
#[ignore = "needs a limit of its own"]
fn gives_way() {
    const PAGES: u64 = 16 << 20 >> 12;
    let disk = Disk::of_pages(PAGES);
    let mapping = PageCache::open(readable(&disk)).unwrap();
    let pool = PagePool::new();
    let read_all = || {
        for index in 0..PAGES {
            assert_eq!(mapping.read(index).unwrap()[..64], page_of(index)[..64]);
        }
    };
    read_all();
    assert_eq!(mapping.pages(), PAGES, "half of the memory is enough for all");
    for round in 0..3 {
        let heap = blocks(&pool, 22 << 20).expect("the cache gives way to it");
        let left = mapping.pages();
        assert!(left < 10 << 20 >> 12, "round {round}: {left} pages are left of {PAGES}");
        read_all();
        let used = Budget::get().expect("it serves").stats().used;
        assert!(used <= 32 << 20, "{used} bytes of 32 MiB");
        drop(heap);
        read_all();
        let back = mapping.pages();
        assert!(back > PAGES * 9 / 10, "round {round}: {back} pages of {PAGES} are back");
    }
}

#[test]
fn where_all_pages_are_pinned_a_request_says_so() {
    alone("budget::all_pinned", &[("QUARRY_LIMIT", "16M")]);
}

#[test]
#[ignore = "needs a limit of its own"]
fn all_pinned() {
    let disk = Disk::of_pages(16 << 20 >> 12);
    let mapping = PageCache::builder().read_ahead(0).open(readable(&disk)).unwrap();
    let mut pinned = Vec::new();
    let refused = loop {
        match mapping.read(pinned.len() as u64) {
            Ok(page) => pinned.push(page),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, Error::Full);
    assert!(pinned.len() > 14 << 20 >> 12, "{} pages of 16 MiB", pinned.len());
    let text = "the limit is reached, and all cached pages are in use or dirty";
    assert_eq!(refused.to_string(), text);
    assert!(mapping.get(3).is_some(), "what is there is found");
    let figures = Budget::get().unwrap().stats();
    assert!(figures.pinned >= (pinned.len() - 64) * PAGE, "{figures:?}");
    assert!(figures.available < 2 << 20, "pins make memory unavailable: {figures:?}");
    for (index, page) in pinned.iter().enumerate() {
        assert_eq!(page[..], page_of(index as u64), "no pinned page is taken");
    }
    let next = pinned.len() as u64;
    pinned.truncate(pinned.len() / 2);
    assert_eq!(mapping.read(next).unwrap()[..], page_of(next), "others make room again");
}

#[test]
fn dirty_pages_are_written_to_make_room() {
    alone("budget::all_dirty", &[("QUARRY_LIMIT", "16M"), ("QUARRY_BACKGROUND", "0")]);
}

#[test]
#[ignore = "needs a limit of its own"]
fn all_dirty() {
    const PAGES: u64 = 64 << 20 >> 12;
    let disk = Disk::of_pages(0);
    // All memory may be dirty, so that no page is written before memory is used up.
    PageCache::set_dirty_ratios(100, 100).unwrap();
    let mapping = PageCache::open(writable(&disk)).unwrap();
    for index in 0..PAGES {
        let page = mapping.create(index).unwrap();
        drop(page.fill_dirty(|bytes| bytes[..8].copy_from_slice(&index.to_le_bytes())));
    }
    mapping.flush(..).unwrap();
    for index in (0..PAGES).step_by(7) {
        assert_eq!(disk.page(index)[..8], index.to_le_bytes());
    }
    // A device that refuses all writes: the memory fills up, and written data is kept in it.
    *disk.bad_writes.lock().unwrap() = vec![libc::EIO; 1 << 20];
    let mut made = PAGES;
    let refused = loop {
        match mapping.create(made) {
            Ok(page) => drop(page.fill_dirty(|bytes| bytes[PAGE - 1] = 7)),
            Err(error) => break error,
        }
        made += 1;
    };
    assert_eq!(refused, Error::Full, "a defined end, and no spin");
    assert!((PAGES..made).all(|index| mapping.get(index).is_some()), "nothing dirty is lost");
    disk.bad_writes.lock().unwrap().clear();
    assert!(mapping.flush(..).is_err(), "it is reported");
    mapping.flush(..).unwrap();
    assert!((PAGES..made).all(|index| disk.page(index)[PAGE - 1] == 7));
    drop(mapping.create(made).unwrap().fill_dirty(|_| {}));
}
