//! A file through Quarry's page cache, as redb's storage.

use anyhow::{Context, Result};
use quarry::{Backing, FileBacking, Mapping, PageCache, PageSlot, ReadWrite};
use redb::StorageBackend;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;

/// Bytes of a cache page. A page of redb has the same size, or a power of two times that.
const PAGE: usize = 4096;

/// redb's storage. Its writes stay in the cache until [`sync_data`](Self::sync_data), or until the
/// background thread writes them.
///
/// Takes no file lock. redb's own file backend takes one, so that no second process opens the file.
pub struct CachedFile {
    pages: Mapping<FileBacking<ReadWrite>>,
}

impl CachedFile {
    /// Opens a file, or makes one.
    ///
    /// # Errors
    /// The error of the system.
    pub fn open(file: &Path) -> Result<Self> {
        let backing = FileBacking::open_writable(file);
        let backing = backing.with_context(|| format!("cannot open {}", file.display()))?;
        Ok(Self { pages: PageCache::open(backing)? })
    }

    fn size(&self) -> u64 {
        self.pages.backing().size()
    }
}

/// Splits `len` bytes at `offset` by pages: (page, range within the page, range within the bytes).
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % PAGE as u64) as usize;
        let count = (PAGE - within).min(len - done);
        let part = (at / PAGE as u64, within..within + count, done..done + count);
        done += count;
        (count > 0).then_some(part)
    })
}

impl StorageBackend for CachedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.size())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset + out.len() as u64 > self.size() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (index, of_page, of_out) in parts(offset, out.len()) {
            let page = self.pages.read(index)?.latch_shared();
            out[of_out].copy_from_slice(&page[of_page]);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        for (index, of_page, of_data) in parts(offset, data.len()) {
            let data = &data[of_data];
            // A page that is overwritten as a whole need not be read first.
            let found = match data.len() {
                PAGE => match self.pages.get_or_alloc(index)? {
                    PageSlot::New(page) => {
                        drop(page.fill_dirty(|bytes| bytes.copy_from_slice(data)));
                        continue;
                    }
                    PageSlot::Found(page) => page,
                },
                _ => self.pages.read(index)?,
            };
            found.latch_exclusive()[of_page].copy_from_slice(data);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len < self.size() {
            let page = PAGE as u64;
            self.pages.truncate(len.div_ceil(page))?;
            // The bytes after the new end, in the page with the end, must read as zero.
            let rest = (len % page) as usize;
            if rest > 0 {
                let last = self.pages.read(len / page)?;
                last.latch_exclusive()[rest..].fill(0);
            }
        }
        self.pages.backing().set_size(len).map_err(io::Error::from)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(self.pages.sync()?)
    }
}

impl fmt::Debug for CachedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {} pages of them cached", self.size(), self.pages.pages())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join(name);
        (folder, place)
    }

    #[test]
    fn parts_are_all_bytes_page_by_page() {
        let all: Vec<_> = parts(4000, 5000).collect();
        assert_eq!(all, [(0, 4000..4096, 0..96), (1, 0..4096, 96..4192), (2, 0..808, 4192..5000)]);
        assert_eq!(parts(8192, 0).count(), 0);
    }

    #[test]
    fn what_is_written_is_read_and_lies_in_the_file_after_a_sync() {
        let (_folder, place) = file("bytes");
        let storage = CachedFile::open(&place).unwrap();
        storage.set_len(20_000).unwrap();
        let data: Vec<u8> = (0..9000_u32).map(|it| (it % 251) as u8).collect();
        storage.write(3000, &data).unwrap();
        let mut back = vec![1; 9100];
        storage.read(2950, &mut back).unwrap();
        assert!(back[..50] == [0; 50] && back[50..9050] == data && back[9050..] == [0; 50]);
        storage.sync_data().unwrap();
        let bytes = std::fs::read(&place).unwrap();
        assert!(bytes.len() == 20_000 && bytes[3000..12_000] == data);
    }

    #[test]
    fn what_lies_behind_the_end_is_gone_and_cannot_be_read() {
        let (_folder, place) = file("short");
        let storage = CachedFile::open(&place).unwrap();
        storage.set_len(3 * 4096).unwrap();
        storage.write(0, &[7; 3 * 4096]).unwrap();
        storage.set_len(5000).unwrap();
        storage.set_len(3 * 4096).unwrap();
        let mut back = vec![1; 3 * 4096];
        storage.read(0, &mut back).unwrap();
        assert!(back[..5000].iter().all(|it| *it == 7) && back[5000..].iter().all(|it| *it == 0));
        let error = storage.read(3 * 4096 - 10, &mut [0; 11]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
