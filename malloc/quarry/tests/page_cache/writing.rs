//! Writing: each dirty page is written to the backing once and whole; and backings that refuse.

use crate::alone::alone;
use crate::reading::wait_until;
use crate::store::{Call, Disk, PAGE, Store, page_of, writable};
use quarry::{Error, Invalidate, Invalidated, Mapping, OsError, PageCache, PageSlot, ReadWrite};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

type Written = Mapping<Store<ReadWrite>>;

fn opened(disk: &Arc<Disk>) -> Written {
    PageCache::open(writable(disk)).unwrap()
}

/// Fills a page with the bytes of another index.
fn change(mapping: &Written, index: u64, to: u64) {
    mapping.read(index).unwrap().latch_exclusive().copy_from_slice(&page_of(to));
}

#[test]
fn changes_come_to_the_backing_when_they_are_flushed() {
    let disk = Disk::of_pages(50);
    let mapping = opened(&disk);
    for index in [3, 4, 5, 40] {
        change(&mapping, index, 1000 + index);
    }
    assert_eq!(disk.page(4), page_of(4), "not before");
    mapping.flush(..).unwrap();
    for index in 0..50 {
        let to = if [3, 4, 5, 40].contains(&index) { 1000 + index } else { index };
        assert_eq!(disk.page(index), page_of(to), "page {index}");
        assert_eq!(mapping.read(index).unwrap().latch_shared()[..], page_of(to));
    }
    let call =
        |index: usize, pieces| Call { offset: (index * PAGE) as u64, bytes: pieces * PAGE, pieces };
    assert_eq!(*disk.writes.lock().unwrap(), [call(3, 3), call(40, 1)], "neighbours together");
    mapping.flush(..).unwrap();
    assert_eq!(disk.writes.lock().unwrap().len(), 2, "they are clean");
}

#[test]
fn a_flush_of_a_range_leaves_the_rest() {
    let disk = Disk::of_pages(300);
    let mapping = opened(&disk);
    (0..300).for_each(|index| change(&mapping, index, 1000 + index));
    mapping.flush(100..=199).unwrap();
    let written: Vec<_> = (0..300).filter(|index| disk.page(*index) != page_of(*index)).collect();
    assert_eq!(written, (100..200).collect::<Vec<_>>());
    assert!(disk.writes.lock().unwrap().iter().all(|call| call.pieces > 1));
    drop(mapping);
    assert!((0..300).all(|index| disk.page(index) == page_of(1000 + index)), "at the latest now");
}

#[test]
fn pages_that_are_looked_at_stay_clean() {
    let disk = Disk::of_pages(4);
    let mapping = opened(&disk);
    let page = mapping.read(1).unwrap().latch_exclusive();
    assert_eq!(page[..], page_of(1));
    let pin = page.unlatch();
    drop(pin.latch_shared());
    drop(mapping);
    assert_eq!(disk.writes.lock().unwrap().len(), 0);
}

#[test]
fn short_writes_are_continued() {
    for most in [1, 7, 511, 4095, 4096, 4097, 10_000] {
        let disk = Disk::of_pages(12);
        let mapping = opened(&disk);
        (2..9).for_each(|index| change(&mapping, index, 77 + index));
        disk.most.store(most, SeqCst);
        mapping.flush(..).unwrap();
        for index in 0..12 {
            let to = if (2..9).contains(&index) { 77 + index } else { index };
            assert_eq!(disk.page(index), page_of(to), "{most} bytes at a time");
        }
    }
}

#[test]
fn what_is_refused_stays_dirty_and_is_reported_once_to_each() {
    let disk = Disk::of_pages(10);
    let mapping = opened(&disk);
    let (mut first, mut second) = (mapping.flusher(), mapping.flusher());
    (4..7).for_each(|index| change(&mapping, index, 100 + index));
    disk.bad_writes.lock().unwrap().push(libc::ENOSPC);
    let full = Err(Error::Write(OsError(libc::ENOSPC)));
    assert_eq!(first.flush(..), full);
    assert_eq!(disk.page(5), page_of(5));
    assert_eq!(mapping.invalidate(.., Invalidate::CleanOnly).busy, 3, "they are dirty");
    assert_eq!(second.flush(..), full, "it is another one's news too");
    assert_eq!((first.flush(..), second.flush(..)), (Ok(()), Ok(())));
    assert!((4..7).all(|index| disk.page(index) == page_of(100 + index)), "nothing is lost");
    assert_eq!(mapping.flush(..), full, "the mapping itself has not been told");
    assert_eq!(mapping.flush(..), Ok(()));
}

#[test]
fn a_write_that_moves_nothing_has_failed() {
    struct Stuck;
    impl quarry::Backing for Stuck {
        type Access = ReadWrite;
        fn size(&self) -> u64 {
            PAGE as u64
        }
        fn read(&self, _: u64, _: &mut [u8]) -> Result<usize, OsError> {
            Ok(0)
        }
        fn write_pages(&self, _: u64, _: &[&[u8]]) -> Result<usize, OsError> {
            Ok(0)
        }
    }
    let mapping = PageCache::open(Stuck).unwrap();
    let error = OsError(libc::EIO);
    assert_eq!(
        mapping.read(0).err(),
        Some(Error::Read { index: 0, error }),
        "so has a read, where the backing goes on"
    );
    drop(mapping.create(0).unwrap().fill_dirty(|bytes| bytes.fill(1)));
    assert_eq!(mapping.flush(..), Err(Error::Write(error)));
    assert_eq!(mapping.truncate(0), Ok(1));
}

#[test]
fn some_of_a_run_may_be_written() {
    let disk = Disk::of_pages(10);
    let mapping = opened(&disk);
    (0..10).for_each(|index| change(&mapping, index, 100 + index));
    // Two calls that move one and a half pages each, and then an error.
    disk.most.store(PAGE * 3 / 2, SeqCst);
    *disk.bad_writes.lock().unwrap() = vec![libc::EIO];
    let refusal = thread::scope(|scope| {
        disk.close();
        let flush = scope.spawn(|| mapping.flush(..));
        wait_until(|| !disk.writes.lock().unwrap().is_empty());
        disk.open();
        flush.join().unwrap()
    });
    assert_eq!(refusal, Err(Error::Write(OsError(libc::EIO))));
    mapping.flush(..).unwrap();
    assert!((0..10).all(|index| disk.page(index) == page_of(100 + index)));
}

#[test]
fn pages_wait_for_the_log() {
    let disk = Disk::of_pages(10);
    let mapping = opened(&disk);
    disk.log.store(50, SeqCst);
    for (index, mark) in [(1, 50), (2, 51), (3, 10), (7, 90)] {
        let mut page = mapping.read(index).unwrap().latch_exclusive();
        page.copy_from_slice(&page_of(100 + index));
        page.mark_dirty_at(mark);
        page.mark_dirty_at(3);
    }
    assert_eq!(mapping.flush(..), Err(Error::Withheld { pages: 2 }));
    let is_written = |index| disk.page(index) == page_of(100 + index);
    assert_eq!([1, 2, 3, 7].map(is_written), [true, false, true, false]);
    disk.log.store(90, SeqCst);
    assert_eq!(mapping.flush(..), Ok(()));
    assert_eq!([1, 2, 3, 7].map(is_written), [true; 4]);
}

#[test]
fn new_pages_make_the_backing_longer() {
    let disk = Disk::of_pages(2);
    let mapping = opened(&disk);
    drop(mapping.create(2).unwrap().fill_dirty(|bytes| bytes.copy_from_slice(&page_of(2))));
    assert_eq!(mapping.create(2).err(), Some(Error::Busy { index: 2 }));
    assert!(matches!(mapping.get_or_alloc(2), Ok(PageSlot::Found(_))));
    assert_eq!(mapping.read(2).unwrap().latch_shared()[..], page_of(2), "before it is written");
    let PageSlot::New(given_up) = mapping.try_get_or_alloc(9).unwrap() else { panic!("it is new") };
    assert_eq!(given_up.index(), 9);
    drop(given_up);
    assert_eq!(mapping.pages(), 1);
    mapping.sync().unwrap();
    assert_eq!(disk.page(2), page_of(2));
    assert_eq!(disk.bytes.lock().unwrap().len(), 3 * PAGE);
}

#[test]
fn readers_go_on_while_a_page_is_written_and_writers_wait() {
    let disk = Disk::of_pages(3);
    let mapping = opened(&disk);
    change(&mapping, 1, 100);
    disk.close();
    thread::scope(|scope| {
        let flush = scope.spawn(|| mapping.flush(..));
        let before = disk.reads.lock().unwrap().len();
        wait_until(|| !disk.writes.lock().unwrap().is_empty());
        let page = mapping.get(1).unwrap();
        assert!(page.version().is_some(), "nobody writes");
        let page = page.try_latch_shared().unwrap().unlatch();
        let refused = page.try_latch_exclusive();
        assert!(refused.is_err(), "its bytes are on their way");
        assert_eq!(PageCache::stats().writeback().min(1), 1);
        let busy = mapping.invalidate(1..2, Invalidate::All);
        assert_eq!(busy, Invalidated { dropped: 0, busy: 1 });
        disk.open();
        flush.join().unwrap().unwrap();
        assert_eq!(disk.reads.lock().unwrap().len(), before);
    });
    mapping.wait_writeback(..).unwrap();
    change(&mapping, 1, 200);
    mapping.flush(..).unwrap();
    assert_eq!(disk.page(1), page_of(200));
}

#[test]
fn a_backing_that_panics_has_not_written() {
    let disk = Disk::of_pages(8);
    let mapping = opened(&disk);
    (2..6).for_each(|index| change(&mapping, index, 100 + index));
    disk.is_quiet.store(true, SeqCst);
    disk.panics.store(true, SeqCst);
    thread::scope(|scope| assert!(scope.spawn(|| mapping.flush(..)).join().is_err()));
    disk.panics.store(false, SeqCst);
    mapping.flush(..).unwrap();
    assert!((2..6).all(|index| disk.page(index) == page_of(100 + index)));
}

#[test]
fn pages_change_their_index() {
    let disk = Disk::of_pages(20);
    let mapping = opened(&disk);
    change(&mapping, 3, 100);
    drop(mapping.read(8).unwrap());
    mapping.rekey(3, 8).unwrap();
    assert!(mapping.get(3).is_none());
    assert_eq!(mapping.get(8).unwrap().latch_shared()[..], page_of(100));
    let gone = Error::OutOfRange { index: 3, size: 20 * PAGE as u64 };
    assert_eq!(mapping.rekey(3, 4), Err(gone));
    let latched = mapping.read(9).unwrap().latch_shared();
    assert_eq!(mapping.rekey(8, 9), Err(Error::Busy { index: 9 }));
    drop(latched);
    mapping.flush(..).unwrap();
    assert_eq!((disk.page(8), disk.page(3)), (page_of(100), page_of(3)));
}

#[test]
fn what_is_truncated_is_never_written() {
    let disk = Disk::of_pages(40);
    let mapping = opened(&disk);
    (10..30).for_each(|index| change(&mapping, index, 100 + index));
    assert!(mapping.discard(12).unwrap() && !mapping.discard(12).unwrap());
    mapping.truncate(20).unwrap();
    drop(mapping);
    for index in 0..40 {
        let is_written = (10..20).contains(&index) && index != 12;
        let to = if is_written { 100 + index } else { index };
        assert_eq!(disk.page(index), page_of(to), "page {index}");
    }
}

#[test]
fn optimistic_readers_see_whole_versions() {
    const ROUNDS: u64 = 3000;
    let disk = Disk::of_pages(1);
    let mapping = opened(&disk);
    change(&mapping, 0, 0);
    let seen: u64 = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (page, mut bytes, mut whole) = (mapping.read(0).unwrap(), vec![0; PAGE], 0);
            loop {
                if !page.copy_optimistic(0, &mut bytes) {
                    continue;
                }
                let first = u64::from_le_bytes(bytes[..8].try_into().unwrap()) / 1_000_003;
                assert_eq!(bytes, page_of(first), "a mixture of versions");
                whole += 1;
                if first == ROUNDS {
                    return whole;
                }
            }
        });
        for round in 1..=ROUNDS {
            change(&mapping, 0, round);
        }
        reader.join().unwrap()
    });
    assert!(seen > 0);
}

#[test]
fn the_background_writes_where_much_is_dirty() {
    alone("writing::much_is_dirty", &[("QUARRY_LIMIT", "64M"), ("QUARRY_PURGE_DELAY", "100")]);
}

#[test]
#[ignore = "needs a limit of its own"]
fn much_is_dirty() {
    let disk = Disk::of_pages(0);
    let mapping = opened(&disk);
    // 32 MiB; the background thread starts to write when a tenth of 64 MiB is dirty.
    for index in 0..8192 {
        let page = mapping.create(index).unwrap();
        drop(page.fill_dirty(|bytes| bytes.copy_from_slice(&page_of(index))));
    }
    wait_until(|| PageCache::stats().dirty() <= 1638);
    assert!(!disk.writes.lock().unwrap().is_empty(), "without a flush");
    mapping.flush(..).unwrap();
    assert!((0..8192).all(|index| disk.page(index) == page_of(index)));
}

#[test]
fn who_makes_pages_dirty_writes_where_nobody_else_does() {
    alone("writing::nobody_else_writes", &[("QUARRY_LIMIT", "64M"), ("QUARRY_BACKGROUND", "0")]);
}

#[test]
#[ignore = "needs a limit of its own"]
fn nobody_else_writes() {
    let disk = Disk::of_pages(0);
    let mapping = opened(&disk);
    let mut most = 0;
    for index in 0..40_000 {
        let page = mapping.create(index).unwrap();
        drop(page.fill_dirty(|bytes| bytes[..8].copy_from_slice(&index.to_le_bytes())));
        most = most.max(PageCache::stats().dirty());
    }
    assert!(most <= 16_384 / 5 + 64, "{most} pages of 16,384 are dirty");
    mapping.flush(..).unwrap();
    for index in 0..40_000u64 {
        assert_eq!(disk.page(index)[..8], index.to_le_bytes());
    }
}

#[test]
fn a_mapping_that_cannot_be_written_says_so_when_it_goes() {
    let said = alone("writing::goes_unwritten", &[]);
    let line = "quarry: a mapping is dropped, and its dirty pages are lost: \
                dirty pages are not written: Input/output error (os error 5)\n";
    assert_eq!(said.matches("quarry: ").count(), 1, "{said}");
    assert!(said.contains(line), "{said}");
}

#[test]
#[ignore = "prints a line"]
fn goes_unwritten() {
    let disk = Disk::of_pages(3);
    let mapping = opened(&disk);
    change(&mapping, 1, 9);
    *disk.bad_writes.lock().unwrap() = vec![libc::EIO];
    drop(mapping);
    assert_eq!((disk.page(1), PageCache::stats().pages()), (page_of(1), 0));
    // An error after which the same pages were written with success is no loss.
    let mapping = opened(&disk);
    change(&mapping, 2, 9);
    *disk.bad_writes.lock().unwrap() = vec![libc::ENOSPC];
    let mut flusher = mapping.flusher();
    assert!(flusher.flush(..).is_err() && flusher.flush(..).is_ok());
    drop(mapping);
    assert_eq!(disk.page(2), page_of(9));
}
