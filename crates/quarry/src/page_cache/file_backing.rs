//! A file as the backing of a mapping: positioned reads and writes.

use super::backing::{Access, Backing, OsError, ReadOnly, ReadWrite};
use core::ffi::CStr;
use core::fmt;
use core::marker::PhantomData;
use quarry_sys::errno::KeepErrno;
use quarry_sys::file_descriptor::{FileDescriptor, OpenOptions, Transfer};
use quarry_sys::primitive::{AtomicU64, Ordering};

/// A file whose pages are cached.
///
/// ```no_run
/// use quarry::{FileBacking, PageCache};
///
/// let mapping = PageCache::open(FileBacking::open(c"index.db")?)?;
/// let first = mapping.read(0)?;
/// println!("it begins with {:?}", &first[..16]);
/// # Ok::<(), quarry::PageError>(())
/// ```
///
/// Quarry asks the system for the file's size when the file is opened, after a read that ends
/// early, and before it refuses a page that begins after the end. So it reads to the new end of a
/// file that another process has made longer. Cached pages keep their bytes: the page that
/// contained the old end has zeroes after it, so drop that page before you change it. A page that
/// contains the end of the file is written up to the end only; a page after the end extends the
/// file by the whole page. [`set_size`](FileBacking::set_size) moves the end.
///
/// `O_DIRECT` works: pages lie at multiples of their size in memory and in the file. The size of a
/// file that is written this way must be a multiple of the block size of its device.
pub struct FileBacking<A: Access = ReadOnly> {
    file: FileDescriptor,
    size: AtomicU64,
    access: PhantomData<A>,
}

impl FileBacking<ReadOnly> {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// The error of the system.
    pub fn open(path: &CStr) -> Result<Self, OsError> {
        Self::open_with(path, OpenOptions::default())
    }

    /// Opens a file for reading past the page cache of the kernel (`O_DIRECT`).
    ///
    /// # Errors
    /// The error of the system: `EINVAL` if the file system has no such reads.
    pub fn open_direct(path: &CStr) -> Result<Self, OsError> {
        Self::open_with(path, OpenOptions { direct: true, ..OpenOptions::default() })
    }
}

impl FileBacking<ReadWrite> {
    /// Opens a file for reading and writing; creates it if there is none.
    ///
    /// # Errors
    /// The error of the system.
    pub fn open_writable(path: &CStr) -> Result<Self, OsError> {
        Self::open_with(path, OpenOptions { write: true, create: true, direct: false })
    }

    /// Like [`open_writable`](Self::open_writable), past the page cache of the kernel (`O_DIRECT`).
    ///
    /// # Errors
    /// The error of the system: `EINVAL` if the file system has no such transfers.
    pub fn open_writable_direct(path: &CStr) -> Result<Self, OsError> {
        Self::open_with(path, OpenOptions { write: true, create: true, direct: true })
    }

    /// Moves the end of the file. Pages after the new end stay cached, so call the mapping's
    /// `truncate` first, which drops them.
    ///
    /// # Errors
    /// The error of the system.
    pub fn set_size(&self, bytes: u64) -> Result<(), OsError> {
        let _errno = KeepErrno::new();
        self.file.set_size(bytes)?;
        self.size.store(bytes, Ordering::Release);
        Ok(())
    }
}

impl<A: Access> FileBacking<A> {
    fn open_with(path: &CStr, options: OpenOptions) -> Result<Self, OsError> {
        let _errno = KeepErrno::new();
        Self::over(FileDescriptor::open(path, options)?)
    }

    fn over(file: FileDescriptor) -> Result<Self, OsError> {
        let _errno = KeepErrno::new();
        let size = AtomicU64::new(file.size()?);
        Ok(Self { file, size, access: PhantomData })
    }

    /// Takes over a descriptor, and closes it when this is dropped.
    ///
    /// # Errors
    /// If it is not the descriptor of a file; then it is closed.
    ///
    /// # Safety
    /// The descriptor is open, and no other code closes it.
    pub unsafe fn from_owned(descriptor: i32) -> Result<Self, OsError> {
        // SAFETY: the caller's promise is passed on.
        Self::over(unsafe { FileDescriptor::owned(descriptor) })
    }

    /// Uses a descriptor that its owner closes.
    ///
    /// # Errors
    /// If it is not the descriptor of a file.
    ///
    /// # Safety
    /// The descriptor stays open as long as this lives.
    pub unsafe fn from_borrowed(descriptor: i32) -> Result<Self, OsError> {
        // SAFETY: the caller's promise is passed on.
        Self::over(unsafe { FileDescriptor::borrowed(descriptor) })
    }

    /// The number of its descriptor.
    #[must_use]
    pub fn descriptor(&self) -> i32 {
        self.file.number()
    }

    /// Asks the system for the size; asks again if another task changed the known size meanwhile.
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

    /// The result of a read. A read that ends early may have met a new end of the file.
    fn found(&self, moved: Transfer, asked: usize) -> Result<usize, OsError> {
        match moved {
            Transfer { bytes: 0, error: Some(error) } => Err(error),
            Transfer { bytes, error: None } if bytes < asked => {
                self.ask_size()?;
                Ok(bytes)
            }
            Transfer { bytes, .. } => Ok(bytes),
        }
    }
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
                let moved = self.file.write_at(front, offset);
                match moved.error {
                    Some(_) => moved,
                    None => {
                        let cut = self.file.write_at(&[&last[..within]], begin);
                        // Bytes after the end belong to no file: they count as written.
                        let rest = if cut.error.is_none() { last.len() } else { cut.bytes };
                        Transfer { bytes: moved.bytes + rest, error: cut.error }
                    }
                }
            }
        };
        let reached = offset + moved.bytes as u64;
        if within.is_none() && reached > size {
            self.size.fetch_max(reached, Ordering::AcqRel);
        }
        match moved {
            Transfer { bytes: 0, error: Some(error) } => Err(error),
            Transfer { bytes, .. } => Ok(bytes),
        }
    }

    fn sync(&self) -> Result<(), OsError> {
        let _errno = KeepErrno::new();
        self.file.sync()
    }
}

impl<A: Access> fmt::Debug for FileBacking<A> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = out.debug_struct("FileBacking");
        fields.field("descriptor", &self.descriptor()).field("size", &self.size()).finish()
    }
}
