//! Errors other than those of reads and writes: of syncs, of new sizes, and of read-ahead.

use crate::store::{Disk, page_of, readable, writable};
use quarry::{Error, FileBacking, OsError, PageCache, ReadWrite};
use std::sync::atomic::Ordering::SeqCst;

#[test]
fn a_refused_sync_is_reported_once_to_each() {
    let disk = Disk::of_pages(4);
    let mapping = PageCache::open(writable(&disk)).unwrap();
    let (mut first, mut second) = (mapping.flusher(), mapping.flusher());
    mapping.read(1).unwrap().latch_exclusive().copy_from_slice(&page_of(9));
    disk.bad_syncs.lock().unwrap().push(libc::EIO);
    let io = Err(Error::Write(OsError(libc::EIO)));
    assert_eq!(first.sync(), io);
    assert_eq!((disk.page(1), disk.synced.load(SeqCst)), (page_of(9), 0));
    assert_eq!(second.flush(..), io, "what the second one has written may be lost as well");
    assert_eq!(mapping.sync(), io, "the mapping itself has not been told");
    let synced = disk.synced.load(SeqCst);
    assert_eq!((first.sync(), second.sync(), mapping.sync()), (Ok(()), Ok(()), Ok(())));
    assert_eq!(disk.synced.load(SeqCst), synced + 3, "each of them has asked the backing");
    let mut late = mapping.flusher();
    assert_eq!(late.sync(), Ok(()), "it came when everything was reported");
}

#[test]
fn a_sync_is_refused_as_long_as_the_backing_refuses() {
    let disk = Disk::of_pages(4);
    let mapping = PageCache::open(writable(&disk)).unwrap();
    let mut flusher = mapping.flusher();
    *disk.bad_syncs.lock().unwrap() = vec![libc::ENOSPC, libc::EIO, libc::EIO];
    for errno in [libc::EIO, libc::EIO, libc::ENOSPC] {
        assert_eq!(flusher.sync(), Err(Error::Write(OsError(errno))));
        assert_eq!(disk.synced.load(SeqCst), 0);
    }
    assert_eq!((flusher.sync(), disk.synced.load(SeqCst)), (Ok(()), 1));
    assert_eq!(mapping.flush(..), Err(Error::Write(OsError(libc::ENOSPC))), "the last of three");
    assert_eq!((mapping.flush(..), mapping.sync()), (Ok(()), Ok(())));
}

#[test]
fn a_refused_size_changes_nothing() {
    let path = std::env::temp_dir().join(format!("quarry-size-{}", std::process::id()));
    std::fs::write(&path, page_of(0)).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mapping = PageCache::open(FileBacking::<ReadWrite>::from(file)).unwrap();
    let size = page_of(0).len() as u64;
    for bytes in [0, 1, 2 * size, 1 << 63, u64::MAX] {
        let refused = mapping.backing().set_size(bytes);
        assert_eq!(refused, Err(OsError(libc::EINVAL).into()), "the file is open for reading");
        assert_eq!(quarry::Backing::size(mapping.backing()), size);
    }
    assert_eq!(mapping.read(0).unwrap().latch_shared()[..], page_of(0));
    let behind = mapping.read(1).map(drop);
    assert_eq!(behind, Err(Error::OutOfRange { index: 1, size }));
}

#[test]
fn what_cannot_be_read_ahead_is_an_error_of_nobody() {
    let disk = Disk::of_pages(64);
    let mapping = PageCache::open(readable(&disk)).unwrap();
    disk.bad_reads.lock().unwrap().insert(9, libc::EIO);
    for index in (0..64).filter(|index| *index != 9) {
        assert_eq!(mapping.read(index).unwrap()[..], page_of(index), "page {index}");
    }
    let reads = disk.reads.lock().unwrap().len();
    assert!(reads < 40, "{reads} calls: pages are read ahead nevertheless");
    assert!(mapping.get(9).is_none(), "nobody finds what could not be read");
    let error = OsError(libc::EIO);
    assert_eq!(mapping.read(9).map(drop), Err(Error::Read { index: 9, error }));
    mapping.prefetch(9..10);
    assert!(mapping.get(9).is_none());
    disk.bad_reads.lock().unwrap().clear();
    assert_eq!(mapping.read(9).unwrap()[..], page_of(9));
}
