//! A file as the backing of a mapping: positioned reads and writes.

use super::backing::{Access, Backing, ReadOnly, ReadWrite};
use crate::error::{Error, OsError};
use core::fmt;
use core::marker::PhantomData;
use quarry_sys::errno::KeepErrno;
use quarry_sys::file_descriptor::{FileDescriptor, Transfer};
use quarry_sys::primitive::{AtomicU64, Ordering};
#[cfg(feature = "std")]
use std::{
    fs::{File, OpenOptions},
    os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd},
    path::Path,
};

/// A file whose pages are cached.
///
/// ```
/// use quarry::{FileBacking, PageCache, ReadOnly, ReadWrite};
/// use std::fs::File;
///
/// # let path = std::env::temp_dir().join(format!("quarry-doc-file-{}", std::process::id()));
/// let writable: FileBacking<ReadWrite> = FileBacking::open_writable(&path)?;
/// writable.set_size(4096)?;
///
/// let mapping = PageCache::open(FileBacking::<ReadOnly>::from(File::open(&path)?))?;
/// assert_eq!(mapping.read(0)?[..], [0; 4096]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A file is named by its path, or is an open `File`, an `OwnedFd`, or a `BorrowedFd` that lives as
/// long as the process. A [`ReadWrite`] backing needs a descriptor for reading and
/// writing: otherwise its flushes return the error of the system.
///
/// Quarry asks the system for the file's size when the file is opened, after a read that ends
/// early, and before it refuses a page beyond the end. So it reads to the new end of a file that
/// another process has made longer. Cached pages keep their bytes: the page that contained the old
/// end still has zeroes after that end, so drop this page from the cache before you change it. A
/// page that contains the end of the file is written up to the end only; a page after the end
/// extends the file by the whole page. [`set_size`](FileBacking::set_size) moves the end.
///
/// `O_DIRECT` works: pages lie at multiples of their size in memory and in the file. The size of a
/// file that is written this way must be a multiple of the block size of its device.
pub struct FileBacking<A: Access = ReadOnly> {
    file: FileDescriptor,
    size: AtomicU64,
    access: PhantomData<A>,
}

#[cfg(feature = "std")]
impl FileBacking<ReadOnly> {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        open(File::options().read(true), path.as_ref())
    }
}

#[cfg(feature = "std")]
impl FileBacking<ReadWrite> {
    /// Opens a file for reading and writing; creates it if there is none.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn open_writable(path: impl AsRef<Path>) -> Result<Self, Error> {
        let mut options = File::options();
        open(options.read(true).write(true).create(true).truncate(false), path.as_ref())
    }
}

#[cfg(feature = "std")]
fn open<A: Access>(options: &OpenOptions, path: &Path) -> Result<FileBacking<A>, Error> {
    match options.open(path) {
        Ok(file) => Ok(file.into()),
        Err(error) => Err(Error::Open { path: path.into(), error: error.into() }),
    }
}

/// The type says whether pages are written: `FileBacking::<ReadOnly>::from(file)`.
#[cfg(feature = "std")]
impl<A: Access> From<File> for FileBacking<A> {
    fn from(file: File) -> Self {
        OwnedFd::from(file).into()
    }
}

/// The type says whether pages are written: `FileBacking::<ReadOnly>::from(descriptor)`.
#[cfg(feature = "std")]
impl<A: Access> From<OwnedFd> for FileBacking<A> {
    fn from(descriptor: OwnedFd) -> Self {
        // SAFETY: the descriptor is open, and its owner has given it up.
        Self::over(unsafe { FileDescriptor::owned(descriptor.into_raw_fd()) })
    }
}

/// Uses a file that stays open as long as the process does, because a backing may live as long.
#[cfg(feature = "std")]
impl<A: Access> From<BorrowedFd<'static>> for FileBacking<A> {
    fn from(descriptor: BorrowedFd<'static>) -> Self {
        // SAFETY: the descriptor stays open for ever.
        Self::over(unsafe { FileDescriptor::borrowed(descriptor.as_raw_fd()) })
    }
}

#[cfg(feature = "std")]
impl<A: Access> AsFd for FileBacking<A> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor stays open as long as this lives.
        unsafe { BorrowedFd::borrow_raw(self.file.number()) }
    }
}

#[cfg(feature = "std")]
impl<A: Access> AsRawFd for FileBacking<A> {
    fn as_raw_fd(&self) -> RawFd {
        self.file.number()
    }
}

impl FileBacking<ReadWrite> {
    /// Moves the end of the file. Pages after the new end stay cached, so call the mapping's
    /// `truncate` first, which drops them.
    ///
    /// # Errors
    /// The error of the system.
    pub fn set_size(&self, bytes: u64) -> Result<(), Error> {
        let _errno = KeepErrno::new();
        self.file.set_size(bytes)?;
        self.size.store(bytes, Ordering::Release);
        Ok(())
    }
}

impl<A: Access> FileBacking<A> {
    /// The size is 0 if the system does not report it: then the first read asks for it again.
    fn over(file: FileDescriptor) -> Self {
        let _errno = KeepErrno::new();
        let size = AtomicU64::new(file.size().unwrap_or(0));
        Self { file, size, access: PhantomData }
    }

    /// Uses a descriptor of C; if `is_owned`, dropping this closes it.
    ///
    /// # Errors
    /// If the number is no open descriptor.
    ///
    /// # Safety
    /// The descriptor stays open as long as this lives; if this owns it, no other code closes it.
    #[cfg(feature = "internals")]
    pub unsafe fn of_number(number: i32, is_owned: bool) -> Result<Self, Error> {
        // SAFETY: the caller's promise is passed on.
        let file = unsafe {
            if is_owned { FileDescriptor::owned(number) } else { FileDescriptor::borrowed(number) }
        };
        file.size()?;
        Ok(Self::over(file))
    }

    /// Asks the system for the size; asks again if another task changes the known size during this.
    fn ask_size(&self) -> Result<u64, OsError> {
        let mut known = self.size.load(Ordering::Acquire);
        loop {
            let size = self.file.size()?;
            match self.size.compare_exchange(known, size, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(size),
                Err(changed) => known = changed,
            }
        }
    }

    /// The result of a read. If it ended early, the file may have a new end, so this asks for it.
    fn found(&self, moved: Transfer, asked: usize) -> Result<usize, OsError> {
        if moved.error.is_none() && moved.bytes < asked {
            self.ask_size()?;
        }
        progress(moved)
    }
}

/// The number of bytes moved, or the error if there are none.
fn progress(moved: Transfer) -> Result<usize, OsError> {
    moved.error.filter(|_| moved.bytes == 0).map_or(Ok(moved.bytes), Err)
}

impl<A: Access> Backing for FileBacking<A> {
    type Access = A;

    fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    fn size_anew(&self) -> u64 {
        let _errno = KeepErrno::new();
        self.ask_size().unwrap_or_else(|_| self.size())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, OsError> {
        self.read_pages(offset, &mut [bytes])
    }

    fn read_pages(&self, offset: u64, pages: &mut [&mut [u8]]) -> Result<usize, OsError> {
        let _errno = KeepErrno::new();
        let asked = pages.iter().map(|page| page.len()).sum();
        self.found(self.file.read_at(pages, offset), asked)
    }

    fn write_pages(&self, offset: u64, pages: &[&[u8]]) -> Result<usize, OsError> {
        let _errno = KeepErrno::new();
        let size = self.size();
        let (last, front) = pages.split_last().ok_or(OsError(libc::EINVAL))?;
        let begin = offset + front.iter().map(|page| page.len() as u64).sum::<u64>();
        let end = begin + last.len() as u64;
        let within = (size > begin && size < end).then(|| (size - begin) as usize);
        let moved = match within {
            None => self.file.write_at(pages, offset),
            Some(within) => {
                let mut moved = self.file.write_at(front, offset);
                if moved.error.is_none() {
                    let cut = self.file.write_at(&[&last[..within]], begin);
                    // Bytes after the end of the file count as written.
                    moved.bytes += if cut.error.is_none() { last.len() } else { cut.bytes };
                    moved.error = cut.error;
                }
                moved
            }
        };
        let reached = offset + moved.bytes as u64;
        if within.is_none() && reached > size {
            self.size.fetch_max(reached, Ordering::AcqRel);
        }
        progress(moved)
    }

    fn sync(&self) -> Result<(), OsError> {
        let _errno = KeepErrno::new();
        self.file.sync()
    }
}

impl<A: Access> fmt::Debug for FileBacking<A> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = out.debug_struct("FileBacking");
        fields.field("descriptor", &self.file.number()).field("size", &self.size()).finish()
    }
}
