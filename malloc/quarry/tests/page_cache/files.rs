//! Real files: their ends, their sizes, and transfers with `O_DIRECT`.

use crate::store::{PAGE, page_of};
use quarry::{Error, FileBacking, OsError, PageCache, ReadOnly, ReadWrite};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file of a test, deleted when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("quarry-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn pages(count: u64) -> Vec<u8> {
    (0..count).flat_map(page_of).collect()
}

#[test]
fn a_file_is_read_to_its_last_byte() {
    let bytes = &pages(101)[..100 * PAGE + 77];
    let scratch = Scratch::new("read", bytes);
    let mapping = PageCache::open(FileBacking::open(&scratch.0).unwrap()).unwrap();
    let mut read: Vec<u8> = Vec::new();
    for index in 0..101 {
        read.extend(&mapping.read(index).unwrap()[..]);
    }
    assert_eq!(read[..bytes.len()], *bytes);
    assert!(read[bytes.len()..].iter().all(|byte| *byte == 0));
    let behind = mapping.read(101).err();
    assert_eq!(behind, Some(Error::OutOfRange { index: 101, size: bytes.len() as u64 }));
}

#[test]
fn a_file_is_written_up_to_its_end() {
    let size = 3 * PAGE + 500;
    let scratch = Scratch::new("end", &pages(4)[..size]);
    let mapping = PageCache::open(FileBacking::open_writable(&scratch.0).unwrap()).unwrap();
    for index in 2..4 {
        mapping.read(index).unwrap().latch_exclusive().fill(index as u8);
    }
    mapping.sync().unwrap();
    let mut expected = pages(2);
    expected.extend([2; PAGE]);
    expected.extend([3; 500]);
    assert_eq!(scratch.bytes(), expected, "no longer than it was");
    mapping.backing().set_size(4 * PAGE as u64).unwrap();
    mapping.read(3).unwrap().latch_exclusive()[PAGE - 1] = 9;
    mapping.flush(..).unwrap();
    assert_eq!(scratch.bytes()[4 * PAGE - 1], 9);
}

#[test]
fn a_page_behind_the_end_makes_the_file_longer() {
    let scratch = Scratch::new("longer", &pages(1));
    let mapping = PageCache::open(FileBacking::open_writable(&scratch.0).unwrap()).unwrap();
    drop(mapping.create(3).unwrap().fill_dirty(|bytes| bytes.copy_from_slice(&page_of(3))));
    mapping.flush(..).unwrap();
    assert_eq!(mapping.read(2).unwrap().latch_shared()[..], [0; PAGE], "a hole");
    let bytes = scratch.bytes();
    assert_eq!((bytes.len(), &bytes[3 * PAGE..]), (4 * PAGE, &page_of(3)[..]));
}

#[test]
fn a_file_that_became_shorter_ends_earlier() {
    let scratch = Scratch::new("shorter", &pages(10));
    let mapping = PageCache::open(FileBacking::open(&scratch.0).unwrap()).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&scratch.0).unwrap();
    file.set_len(4 * PAGE as u64 + 10).unwrap();
    assert_eq!(mapping.read(4).unwrap()[..10], page_of(4)[..10]);
    let gone = mapping.read(8).err();
    assert_eq!(gone, Some(Error::OutOfRange { index: 8, size: 4 * PAGE as u64 + 10 }));
}

#[test]
fn a_file_that_somebody_else_has_made_longer_is_read_to_its_new_end() {
    let scratch = Scratch::new("grown", &pages(3)[..2 * PAGE + 10]);
    let mapping = PageCache::open(FileBacking::open(&scratch.0).unwrap()).unwrap();
    let behind = |index, size| Err(Error::OutOfRange { index, size });
    let early = mapping.read(9).map(drop);
    assert_eq!(early, behind(9, 2 * PAGE as u64 + 10));
    std::fs::write(&scratch.0, pages(12)).unwrap();
    for index in [9, 11, 3] {
        assert_eq!(mapping.read(index).unwrap()[..], page_of(index), "page {index}");
    }
    assert_eq!(mapping.read(12).map(drop), behind(12, 12 * PAGE as u64));
    std::fs::write(&scratch.0, pages(50)).unwrap();
    mapping.prefetch(20..24);
    assert!((20..24).all(|index| mapping.get(index).is_some()), "a hint sees it as well");
}

#[test]
fn changed_pages_are_written_though_somebody_else_has_cut_the_file() {
    let scratch = Scratch::new("cut", &pages(10));
    let mapping = PageCache::open(FileBacking::open_writable(&scratch.0).unwrap()).unwrap();
    for index in [1, 6] {
        mapping.read(index).unwrap().latch_exclusive().fill(7);
    }
    let file = std::fs::OpenOptions::new().write(true).open(&scratch.0).unwrap();
    file.set_len(2 * PAGE as u64 + 10).unwrap();
    mapping.sync().unwrap();
    let bytes = scratch.bytes();
    assert!(bytes[PAGE..2 * PAGE].iter().chain(&bytes[6 * PAGE..7 * PAGE]).all(|byte| *byte == 7));
    assert!(bytes[3 * PAGE..6 * PAGE].iter().all(|byte| *byte == 0), "what was cut off is a hole");
    assert_eq!(mapping.read(6).unwrap().latch_shared()[9], 7);
}

#[test]
fn files_are_read_and_written_past_the_kernels_cache() {
    let scratch = Scratch::new("direct", &pages(64));
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_DIRECT);
    let file = match options.clone().write(true).open(&scratch.0) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return println!("skipped: no O_DIRECT here");
        }
        file => file.unwrap(),
    };
    let mapping = PageCache::open(FileBacking::<ReadWrite>::from(file)).unwrap();
    for index in 0..64 {
        let mut page = mapping.read(index).unwrap().latch_exclusive();
        assert_eq!(page[..], page_of(index));
        page.copy_from_slice(&page_of(1000 + index));
    }
    mapping.sync().unwrap();
    drop(mapping);
    assert_eq!(scratch.bytes(), (1000..1064).flat_map(page_of).collect::<Vec<u8>>());
    let again = FileBacking::<ReadOnly>::from(options.open(&scratch.0).unwrap());
    let again = PageCache::builder().page_order(4).open(again).unwrap();
    assert_eq!(again.read(3).unwrap()[..PAGE], page_of(1048));
}

#[test]
fn descriptors_are_owned_or_borrowed() {
    let scratch = Scratch::new("owned", &pages(2));
    let file: &'static File = Box::leak(Box::new(File::open(&scratch.0).unwrap()));
    let borrowed: BorrowedFd<'static> = file.as_fd();
    let mapping = PageCache::open(FileBacking::<ReadOnly>::from(borrowed)).unwrap();
    assert_eq!(mapping.read(1).unwrap()[..], page_of(1));
    assert_eq!(mapping.backing().as_raw_fd(), file.as_raw_fd());
    drop(mapping);
    let copy = OwnedFd::from(file.try_clone().unwrap());
    let number = copy.as_raw_fd();
    let owned = FileBacking::<ReadOnly>::from(copy);
    assert_eq!(owned.as_fd().as_raw_fd(), number);
    drop(PageCache::open(owned).unwrap());
    // SAFETY: takes numbers only.
    assert_eq!(unsafe { libc::fcntl(number, libc::F_GETFD) }, -1, "closed with its mapping");
    assert_eq!(file.metadata().unwrap().len(), 2 * PAGE as u64, "and this one is not");
}

#[test]
fn a_file_of_the_standard_library_is_read_and_written() {
    let scratch = Scratch::new("std", &pages(1));
    let file = File::options().read(true).write(true).open(&scratch.0).unwrap();
    let mapping = PageCache::open(FileBacking::<ReadWrite>::from(file)).unwrap();
    mapping.read(0).unwrap().latch_exclusive()[0] = 77;
    mapping.sync().unwrap();
    assert_eq!(scratch.bytes()[0], 77);
}

/// `/dev/full` stands for a device that has become full.
#[test]
fn a_full_device_is_an_error_of_the_flush() {
    let full = FileBacking::open_writable("/dev/full").unwrap();
    let mapping = PageCache::open(full).unwrap();
    drop(mapping.create(0).unwrap().fill_dirty(|bytes| bytes.fill(1)));
    let refused = Err(Error::Write(OsError(libc::ENOSPC)));
    assert_eq!((mapping.flush(..), mapping.sync()), (refused.clone(), refused));
    mapping.truncate(0).unwrap();
    let nowhere = FileBacking::open("/nowhere/at/all").unwrap_err();
    let path = Path::new("/nowhere/at/all").into();
    assert_eq!(nowhere, Error::Open { path, error: OsError(libc::ENOENT) });
    assert_eq!(io::Error::from(nowhere).kind(), io::ErrorKind::NotFound);
    let never = FileBacking::open("a\0b").unwrap_err();
    assert_eq!(io::Error::from(never).kind(), io::ErrorKind::InvalidInput);
}

/// A program prints an error, or `main` returns it: then Rust prints its form for debugging.
#[test]
fn an_error_says_what_was_asked_and_why_it_failed() {
    let nowhere = FileBacking::open("/nope").unwrap_err();
    let written = FileBacking::open_writable("/nope/file").unwrap_err();
    let folder = PageCache::open(FileBacking::open("/").unwrap()).unwrap();
    let unread = folder.read(0).map(drop).unwrap_err();
    let reasons = [
        (nowhere, "/nope", "No such file or directory"),
        (written, "/nope/file", "No such file or directory"),
        (unread, "0", "Is a directory"),
        (Error::Write(OsError(libc::ENOSPC)), "rit", "No space left on device"),
        (Error::System(OsError(libc::EDQUOT)), "ystem", "Disk quota exceeded"),
        (Error::TooMany { what: "groups", most: 255 }, "groups", "255"),
        (Error::BadLayout { size: 48, align: 3 }, "48", "3"),
    ];
    for (error, asked, reason) in reasons {
        let (text, form) = (error.to_string(), format!("{error:?}"));
        assert!(text.contains(asked) && text.contains(reason), "{text}");
        assert!(form.contains(asked) && form.contains(reason), "{form}");
        let standard = format!("{:?}", io::Error::from(error));
        assert!(standard.contains(reason) || reason.len() < 6, "{standard}");
    }
}

#[test]
fn errors_keep_their_cause() {
    for errno in [0, libc::EPERM, libc::EACCES, libc::ESTALE, libc::EHWPOISON, 9999] {
        let standard = io::Error::from_raw_os_error(errno);
        assert_eq!(OsError(errno).to_string(), standard.to_string());
        assert_eq!(Error::from(standard), Error::System(OsError(errno)));
    }
    for (kind, errno) in [
        (io::ErrorKind::PermissionDenied, libc::EACCES),
        (io::ErrorKind::Interrupted, libc::EINTR),
        (io::ErrorKind::TimedOut, libc::ETIMEDOUT),
        (io::ErrorKind::UnexpectedEof, libc::EIO),
        (io::ErrorKind::InvalidData, libc::EIO),
    ] {
        assert_eq!(OsError::from(io::Error::new(kind, "of a backing")), OsError(errno));
    }
    for (error, kind) in [
        (Error::Forked, io::ErrorKind::Unsupported),
        (Error::AlreadyOn, io::ErrorKind::AlreadyExists),
        (Error::NoProfile, io::ErrorKind::NotFound),
    ] {
        let standard = io::Error::from(error.clone());
        assert_eq!((standard.kind(), Error::from(standard)), (kind, error.clone()));
    }
}
