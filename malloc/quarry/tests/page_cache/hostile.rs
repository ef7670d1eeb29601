//! Programs that make requests which no sensible program makes.

use crate::alone::{alone, dies};
use crate::store::{Disk, PAGE, page_of, readable, writable};
use quarry::{Backing, Effort, Error, MappingOptions, OsError, PageCache, RawMapping, ReadOnly};
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;

/// An endless file of zeroes, whose type has an unusual alignment.
#[repr(align(8192))]
struct Zeroes;

impl Backing for Zeroes {
    type Access = ReadOnly;

    fn size(&self) -> u64 {
        u64::MAX
    }

    fn read(&self, _: u64, bytes: &mut [u8]) -> Result<usize, OsError> {
        bytes.fill(0);
        Ok(bytes.len())
    }
}

#[test]
fn a_page_that_no_file_can_hold_is_out_of_range() {
    for order in [0, 4] {
        let disk = Disk::of_pages(64);
        let mapping = PageCache::builder().page_order(order).open(writable(&disk)).unwrap();
        let first = disk.page(0);
        let beyond = (i64::MAX as u64 + 1) >> (12 + order);
        for index in [u64::MAX, u64::MAX >> (12 + order), (u64::MAX >> (12 + order)) + 1, beyond] {
            let refused = || Error::OutOfRange { index, size: 64 * PAGE as u64 };
            assert_eq!(mapping.create(index).map(drop), Err(refused()));
            assert_eq!(mapping.read(index).map(drop), Err(refused()));
            drop(mapping.read(0).unwrap());
            assert_eq!(mapping.rekey(0, index), Err(refused()));
            assert!(mapping.get(index).is_none() && !mapping.discard(index).unwrap());
        }
        drop(mapping.create(beyond - 1).unwrap());
        mapping.flush(..).unwrap();
        mapping.flush(u64::MAX..).unwrap();
        assert_eq!(disk.page(0), first, "no offset comes round");
    }
}

#[test]
fn a_page_that_no_index_holds_is_out_of_range() {
    let raw = RawMapping::create(&MappingOptions::default()).unwrap();
    let last = raw.get_or_alloc((1 << 52) - 1, Effort::Every).unwrap().page;
    // SAFETY: this test has made the page.
    unsafe { last.fill_done() };
    for index in [1 << 52, (1 << 52) + 1, 1 << 60, u64::MAX - 1, u64::MAX] {
        let refused = || Error::OutOfRange { index, size: u64::MAX };
        for effort in [Effort::Easy, Effort::Every] {
            assert_eq!(raw.get_or_alloc(index, effort), Err(refused()));
            assert_eq!(raw.hold(index, Some(effort)), Err(refused()));
        }
        assert_eq!(raw.hold(index, None), Ok(None));
        assert_eq!((raw.get(index), raw.hold_present(index)), (None, None));
        assert_eq!((raw.truncate(index), raw.discard(index)), (0, false));
        // SAFETY: the page is pinned.
        assert_eq!(unsafe { last.rekey(index) }, Err(Error::Full));
    }
    assert_eq!(raw.pages(), 1);
    // SAFETY: the pin is the one from making the page.
    unsafe { last.unpin() };
    assert!(raw.destroy());
}

#[test]
fn an_endless_backing_is_read_to_its_last_page() {
    let mapping = PageCache::builder().read_ahead(usize::MAX).open(Zeroes).unwrap();
    let last = i64::MAX as u64 >> 12;
    for index in [0, 1, 2, 3, last - 1, last] {
        assert_eq!(mapping.read(index).unwrap()[..], [0; PAGE]);
    }
    mapping.set_read_ahead(1 << 44);
    assert_eq!(mapping.read(1 << 40).unwrap()[7], 0);
}

#[test]
fn a_page_keeps_its_index_where_it_gets_it_again() {
    let disk = Disk::of_pages(8);
    let mapping = PageCache::open(writable(&disk)).unwrap();
    let page = mapping.read(3).unwrap();
    mapping.rekey(3, 3).unwrap();
    assert_eq!(mapping.get(3).unwrap().latch_shared()[..], page_of(3));
    assert_eq!(page.latch_shared()[..], page_of(3));
}

#[test]
fn a_mapping_goes_though_its_backing_panics() {
    alone("hostile::goes_in_a_panic", &[]);
}

#[test]
#[ignore = "counts all pages of the process"]
fn goes_in_a_panic() {
    let disk = Disk::of_pages(8);
    let mapping = PageCache::open(writable(&disk)).unwrap();
    (0..4).for_each(|index| mapping.read(index).unwrap().latch_exclusive().fill(9));
    disk.panics.store(true, SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(mapping))).is_err());
    assert_eq!(PageCache::stats().pages(), 0, "no page is left behind");
    assert_eq!(std::sync::Arc::strong_count(&disk), 1, "nor the backing");
}

#[test]
fn a_backing_that_panics_in_the_background_ends_the_process() {
    let said = dies("hostile::panics_in_the_background", &[("QUARRY_LIMIT", "16M")]);
    assert!(said.contains("the backing panics, as it was told"), "{said}");
}

#[test]
#[ignore = "aborts"]
fn panics_in_the_background() {
    let disk = Disk::of_pages(4096);
    let mapping = PageCache::open(writable(&disk)).unwrap();
    PageCache::set_dirty_ratios(1, 100).unwrap();
    for index in 0..1024 {
        drop(mapping.read(index).unwrap());
    }
    disk.panics.store(true, SeqCst);
    for index in (0..1024).cycle() {
        if let Some(page) = mapping.get(index) {
            page.latch_exclusive().fill(1);
        }
    }
}

#[test]
fn many_mappings_live_at_once() {
    alone("hostile::many_mappings", &[("QUARRY_LIMIT", "256M")]);
}

#[test]
#[ignore = "counts all pages of the process"]
fn many_mappings() {
    let disk = Disk::of_pages(3);
    for _ in 0..2 {
        let all: Vec<_> = (0..10_000).map(|_| PageCache::open(readable(&disk)).unwrap()).collect();
        let pins: Vec<_> = all.iter().map(|mapping| mapping.read(2).unwrap()).collect();
        assert!(pins.iter().all(|page| page[..] == page_of(2)));
        assert_eq!(PageCache::stats().pages(), 10_000);
        drop(pins);
        drop(all);
        assert_eq!(PageCache::stats().pages(), 0);
    }
}

#[test]
fn large_pages_live_under_a_small_limit() {
    alone("hostile::large_pages", &[("QUARRY_LIMIT", "16M")]);
}

#[test]
#[ignore = "needs a limit of its own"]
fn large_pages() {
    let disk = Disk::of_pages(16 * 600);
    let mapping = PageCache::builder().page_order(4).open(writable(&disk)).unwrap();
    for round in 0..3 {
        for index in 0..600u64 {
            let mut page = mapping.read(index).unwrap().latch_exclusive();
            assert_eq!(page[8], if round == 0 { page_of(index * 16)[8] } else { round - 1 });
            page[8] = round;
        }
    }
    mapping.flush(..).unwrap();
    assert!((0..600).all(|index| disk.page(index * 16)[8] == 2));
    drop(mapping);
    assert_eq!(PageCache::stats().pages(), 0);
}

#[test]
fn pins_that_nobody_gives_up_end_in_one_line() {
    let said = dies("hostile::clones_without_end", &[]);
    assert!(
        said.lines().any(|line| line.starts_with("quarry: ") && line.contains("pins")),
        "{said}"
    );
}

#[test]
#[ignore = "aborts"]
fn clones_without_end() {
    let mapping = PageCache::open(Zeroes).unwrap();
    let page = mapping.read(0).unwrap();
    for _ in 0..1 << 20 {
        forget(page.clone());
    }
}

#[test]
fn a_page_with_too_many_pins_is_refused() {
    alone("hostile::reads_without_end", &[]);
}

#[test]
#[ignore = "leaves a page pinned for ever"]
fn reads_without_end() {
    let mapping = PageCache::open(Zeroes).unwrap();
    let mut pins = 0u64;
    let refused = loop {
        match mapping.read(0) {
            Ok(page) => forget(page),
            Err(error) => break error,
        }
        pins += 1;
        assert!(pins < 1 << 20, "more pins than a page has");
    };
    assert_eq!(refused, Error::Full);
    assert_eq!(mapping.get_or_alloc(0).map(drop), Err(Error::Full));
    assert!(mapping.get(0).is_none());
}

#[test]
fn an_address_space_without_room_is_an_error() {
    alone("hostile::no_room", &[]);
}

#[test]
#[ignore = "limits the process"]
fn no_room() {
    let limit = libc::rlimit { rlim_cur: 64 << 20, rlim_max: 64 << 20 };
    // SAFETY: the limit is readable.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    match PageCache::open(Zeroes) {
        Err(error) => assert_eq!(error.errno(), libc::ENOMEM),
        Ok(mapping) => {
            for index in 0..100_000 {
                match mapping.read(index) {
                    Ok(page) => assert_eq!(page[5], 0),
                    Err(error) => assert_eq!(error.errno(), libc::ENOMEM),
                }
            }
        }
    }
}
