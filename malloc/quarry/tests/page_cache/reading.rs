//! Reading: every byte comes from the backing, whatever the backing does.

use crate::store::{Disk, PAGE, page_of, readable};
use quarry::{Backing, Error, OsError, PageCache, ReadOnly};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

const EIO: OsError = OsError(libc::EIO);

#[test]
fn every_page_is_the_one_of_its_index() {
    let disk = Disk::of_pages(300);
    let mapping = PageCache::open(readable(&disk)).unwrap();
    for index in (0..300).chain([7, 299, 150]) {
        assert_eq!(mapping.read(index).unwrap()[..], page_of(index), "page {index}");
    }
    assert_eq!(mapping.pages(), 300);
    let calls = disk.reads.lock().unwrap().len();
    assert!(calls < 30, "{calls} calls for 300 pages: they come together");
    let again = mapping.get(42).unwrap();
    assert_eq!((again.index(), &again[..]), (42, &page_of(42)[..]));
    assert_eq!(disk.reads.lock().unwrap().len(), calls, "what is cached is not read again");
}

#[test]
fn the_last_page_is_filled_up_with_zeroes() {
    let disk = Disk::of_pages(3);
    disk.bytes.lock().unwrap().truncate(2 * PAGE + 100);
    let mapping = PageCache::open(readable(&disk)).unwrap();
    let last = mapping.read(2).unwrap();
    assert_eq!(last[..100], page_of(2)[..100]);
    assert!(last[100..].iter().all(|byte| *byte == 0));
    let size = 2 * PAGE as u64 + 100;
    for index in [3, 4, 1 << 40] {
        let refused = mapping.read(index).err();
        assert_eq!(refused, Some(Error::OutOfRange { index, size }));
    }
}

#[test]
fn short_reads_are_continued() {
    for most in [1, 7, 511, 4095, 4096, 4097, 10_000, 3 * PAGE] {
        let disk = Disk::of_pages(20);
        disk.bytes.lock().unwrap().truncate(19 * PAGE + 9);
        disk.most.store(most, SeqCst);
        let mapping = PageCache::open(readable(&disk)).unwrap();
        for index in 0..19 {
            assert_eq!(mapping.read(index).unwrap()[..], page_of(index), "{most} bytes at a time");
        }
        assert_eq!(mapping.read(19).unwrap()[..9], page_of(19)[..9]);
    }
}

/// A file that another process lengthens between two reads.
struct Growing(AtomicUsize);

impl Backing for Growing {
    type Access = ReadOnly;

    fn size(&self) -> u64 {
        2 * PAGE as u64
    }

    fn read(&self, _offset: u64, bytes: &mut [u8]) -> Result<usize, OsError> {
        let read = if self.0.fetch_add(1, SeqCst) == 0 { 0 } else { bytes.len() };
        bytes[..read].fill(7);
        Ok(read)
    }
}

#[test]
fn a_page_of_which_nothing_is_read_does_not_move_the_next_one() {
    let (mut first, mut second) = ([0; PAGE], [0; PAGE]);
    let read = Growing(AtomicUsize::new(0)).read_pages(0, &mut [&mut first, &mut second]);
    assert_eq!((read, second), (Ok(0), [0; PAGE]));
}

#[test]
fn a_page_that_cannot_be_read_is_not_cached() {
    let disk = Disk::of_pages(10);
    disk.bad_reads.lock().unwrap().insert(4, libc::EIO);
    let mapping = PageCache::builder().read_ahead(0).open(readable(&disk)).unwrap();
    assert_eq!(mapping.read(4).err(), Some(Error::Read { index: 4, error: EIO }));
    assert!(mapping.get(4).is_none(), "never up to date");
    assert_eq!(mapping.pages(), 0);
    disk.bad_reads.lock().unwrap().clear();
    assert_eq!(mapping.read(4).unwrap()[..], page_of(4), "and is read anew");
}

#[test]
fn a_bad_page_ahead_is_no_error_of_the_page_that_is_asked_for() {
    let disk = Disk::of_pages(100);
    disk.bad_reads.lock().unwrap().extend([(2, libc::EIO), (20, libc::ENXIO)]);
    let mapping = PageCache::open(readable(&disk)).unwrap();
    for index in 0..100 {
        let found = mapping.read(index).map(|page| page.to_vec());
        match index {
            2 => assert_eq!(found, Err(Error::Read { index, error: EIO })),
            20 => assert_eq!(found, Err(Error::Read { index, error: OsError(libc::ENXIO) })),
            _ => assert_eq!(found, Ok(page_of(index)), "page {index}"),
        }
    }
    assert_eq!(mapping.pages(), 98);
}

#[test]
fn one_reader_fills_and_the_others_wait_for_it() {
    const READERS: usize = 6;
    let disk = Disk::of_pages(8);
    let mapping = PageCache::builder().read_ahead(0).open(readable(&disk)).unwrap();
    let (mapping, begun) = (&mapping, &AtomicUsize::new(0));
    disk.close();
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                begun.fetch_add(1, SeqCst);
                assert_eq!(mapping.read(5).unwrap()[..], page_of(5));
            });
        }
        wait_until(|| begun.load(SeqCst) == READERS && disk.arrived.load(SeqCst) == 1);
        disk.open();
    });
    assert_eq!(disk.reads.lock().unwrap().len(), 1, "one of them has read");
}

#[test]
fn all_who_wait_for_a_fill_get_its_error() {
    const READERS: usize = 6;
    let disk = Disk::of_pages(8);
    disk.bad_reads.lock().unwrap().insert(5, libc::ESTALE);
    let mapping = PageCache::builder().read_ahead(0).open(readable(&disk)).unwrap();
    let begun = AtomicUsize::new(0);
    disk.close();
    let errors: Vec<Option<Error>> = thread::scope(|scope| {
        let read = || {
            begun.fetch_add(1, SeqCst);
            mapping.read(5).err()
        };
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
        wait_until(|| begun.load(SeqCst) == READERS && disk.arrived.load(SeqCst) == 1);
        disk.open();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    let stale = Error::Read { index: 5, error: OsError(libc::ESTALE) };
    assert_eq!(errors, vec![Some(stale); READERS]);
    assert_eq!(mapping.pages(), 0, "the page has left");
}

#[test]
fn a_backing_that_panics_has_failed() {
    let disk = Disk::of_pages(64);
    let mapping = PageCache::open(readable(&disk)).unwrap();
    disk.is_quiet.store(true, SeqCst);
    disk.panics.store(true, SeqCst);
    thread::scope(|scope| {
        assert!(scope.spawn(|| mapping.read(0).map(drop)).join().is_err(), "the panic goes on");
    });
    assert_eq!(mapping.pages(), 0, "no page is left latched");
    disk.panics.store(false, SeqCst);
    assert_eq!(mapping.read(0).unwrap()[..], page_of(0));
}

#[test]
fn pages_come_ahead_of_who_asks_for_them() {
    let disk = Disk::of_pages(200);
    let mapping = PageCache::open(readable(&disk)).unwrap();
    mapping.prefetch(10..74);
    let calls: Vec<_> = disk.reads.lock().unwrap().drain(..).collect();
    assert_eq!(calls.iter().map(|call| call.pieces).collect::<Vec<_>>(), [32, 32]);
    assert!((10..74).all(|index| mapping.get(index).is_some_and(|page| *page == *page_of(index))));
    assert!(mapping.get(9).is_none() && mapping.get(74).is_none());
    mapping.prefetch(..);
    assert_eq!(mapping.pages(), 200, "up to the end of the backing");
    assert_eq!(
        disk.reads.lock().unwrap().iter().map(|call| call.pieces).sum::<usize>(),
        136,
        "what is cached is not read again"
    );
}

#[test]
fn random_reads_bring_one_page_each() {
    let disk = Disk::of_pages(1000);
    let mapping = PageCache::open(readable(&disk)).unwrap();
    for index in [700, 30, 555, 90, 211, 999, 64] {
        assert_eq!(mapping.read(index).unwrap()[..], page_of(index));
    }
    assert_eq!(mapping.pages(), 7);
}

#[test]
fn pages_of_all_orders() {
    for order in 0..=4 {
        let disk = Disk::of_pages(64);
        let mapping = PageCache::builder().page_order(order).open(readable(&disk)).unwrap();
        let bytes = PAGE << order;
        assert_eq!(mapping.page_bytes(), bytes);
        let whole = disk.bytes.lock().unwrap().clone();
        for (index, expected) in whole.chunks(bytes).enumerate() {
            let page = mapping.read(index as u64).unwrap();
            assert_eq!((page.as_ptr() as usize % bytes, &page[..]), (0, expected));
        }
    }
    let refused = PageCache::builder().page_order(5).open(readable(&Disk::of_pages(1)));
    assert_eq!(refused.err(), Some(Error::NoSuchOrder { order: 5 }));
}

#[test]
fn pins_keep_bytes_that_nobody_finds_any_more() {
    let disk = Disk::of_pages(30);
    let mapping = PageCache::open(readable(&disk)).unwrap();
    let held = mapping.read(20).unwrap();
    let copy = held.clone();
    drop(held);
    mapping.prefetch(..);
    assert_eq!(mapping.truncate(15).unwrap(), 15);
    assert_eq!((mapping.pages(), mapping.get(20).is_none()), (15, true));
    assert_eq!(copy[..], page_of(20));
    assert_eq!(mapping.read(20).unwrap()[..], page_of(20), "a new one");
}

/// Lets other threads run until the condition holds.
pub(crate) fn wait_until(holds: impl Fn() -> bool) {
    while !holds() {
        thread::yield_now();
    }
}
