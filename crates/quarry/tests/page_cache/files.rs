//! Real files: their ends, their sizes, and transfers past the page cache of the kernel.

use crate::store::{PAGE, page_of};
use quarry::{FileBacking, OsError, PageCache, PageError};
use std::ffi::CString;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::PathBuf;

/// A file of a test, gone with this.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("quarry-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn path(&self) -> CString {
        CString::new(self.0.to_str().unwrap()).unwrap()
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
    let mapping = PageCache::open(FileBacking::open(&scratch.path()).unwrap()).unwrap();
    let mut read: Vec<u8> = Vec::new();
    for index in 0..101 {
        read.extend(&mapping.read(index).unwrap()[..]);
    }
    assert_eq!(read[..bytes.len()], *bytes);
    assert!(read[bytes.len()..].iter().all(|byte| *byte == 0));
    let behind = mapping.read(101).err();
    assert_eq!(behind, Some(PageError::OutOfRange { index: 101, size: bytes.len() as u64 }));
}

#[test]
fn a_file_is_written_up_to_its_end() {
    let size = 3 * PAGE + 500;
    let scratch = Scratch::new("end", &pages(4)[..size]);
    let mapping = PageCache::open(FileBacking::open_writable(&scratch.path()).unwrap()).unwrap();
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
    let mapping = PageCache::open(FileBacking::open_writable(&scratch.path()).unwrap()).unwrap();
    drop(mapping.create(3).unwrap().fill_dirty(|bytes| bytes.copy_from_slice(&page_of(3))));
    mapping.flush(..).unwrap();
    assert_eq!(mapping.read(2).unwrap().latch_shared()[..], [0; PAGE], "a hole");
    let bytes = scratch.bytes();
    assert_eq!((bytes.len(), &bytes[3 * PAGE..]), (4 * PAGE, &page_of(3)[..]));
}

#[test]
fn a_file_that_became_shorter_ends_earlier() {
    let scratch = Scratch::new("shorter", &pages(10));
    let mapping = PageCache::open(FileBacking::open(&scratch.path()).unwrap()).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&scratch.0).unwrap();
    file.set_len(4 * PAGE as u64 + 10).unwrap();
    assert_eq!(mapping.read(4).unwrap()[..10], page_of(4)[..10]);
    let gone = mapping.read(8).err();
    assert_eq!(gone, Some(PageError::OutOfRange { index: 8, size: 4 * PAGE as u64 + 10 }));
}

#[test]
fn changed_pages_are_written_though_somebody_else_has_cut_the_file() {
    let scratch = Scratch::new("cut", &pages(10));
    let mapping = PageCache::open(FileBacking::open_writable(&scratch.path()).unwrap()).unwrap();
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
    let backing = match FileBacking::open_writable_direct(&scratch.path()) {
        Err(OsError(libc::EINVAL)) => return println!("skipped: no O_DIRECT here"),
        backing => backing.unwrap(),
    };
    let mapping = PageCache::open(backing).unwrap();
    for index in 0..64 {
        let mut page = mapping.read(index).unwrap().latch_exclusive();
        assert_eq!(page[..], page_of(index));
        page.copy_from_slice(&page_of(1000 + index));
    }
    mapping.sync().unwrap();
    drop(mapping);
    assert_eq!(scratch.bytes(), (1000..1064).flat_map(page_of).collect::<Vec<u8>>());
    let again = FileBacking::open_direct(&scratch.path()).unwrap();
    let again = PageCache::builder().page_order(4).open(again).unwrap();
    assert_eq!(again.read(3).unwrap()[..PAGE], page_of(1048));
}

#[test]
fn descriptors_are_owned_or_borrowed() {
    let scratch = Scratch::new("owned", &pages(2));
    let file = std::fs::File::open(&scratch.0).unwrap();
    // SAFETY: `file` is open until the end.
    let borrowed = unsafe { FileBacking::<quarry::ReadOnly>::from_borrowed(file.as_raw_fd()) };
    let mapping = PageCache::open(borrowed.unwrap()).unwrap();
    assert_eq!(mapping.read(1).unwrap()[..], page_of(1));
    drop(mapping);
    let copy = file.try_clone().unwrap().into_raw_fd();
    // SAFETY: the copy is nobody else's any more.
    let owned = unsafe { FileBacking::<quarry::ReadOnly>::from_owned(copy) }.unwrap();
    assert_eq!(owned.descriptor(), copy);
    drop(PageCache::open(owned).unwrap());
    // SAFETY: takes numbers only.
    assert_eq!(unsafe { libc::fcntl(copy, libc::F_GETFD) }, -1, "closed with its mapping");
    assert_eq!(file.metadata().unwrap().len(), 2 * PAGE as u64, "and this one is not");
}

/// The device that is always full stands for one that has become full.
#[test]
fn a_full_device_is_an_error_of_the_flush() {
    let full = FileBacking::open_writable(c"/dev/full").unwrap();
    let mapping = PageCache::open(full).unwrap();
    drop(mapping.create(0).unwrap().fill_dirty(|bytes| bytes.fill(1)));
    let refused = Err(PageError::Io(OsError(libc::ENOSPC)));
    assert_eq!((mapping.flush(..), mapping.sync()), (refused, refused));
    mapping.truncate(0).unwrap();
    assert!(FileBacking::open(c"/nowhere/at/all").is_err());
}
