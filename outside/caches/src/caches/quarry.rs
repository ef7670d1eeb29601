//! Quarry's page cache, under the process's limit. No other code here allocates from Quarry.

use super::PageCache;
use crate::page::{FILE_PAGES, Key, PAGE_BYTES, Page, Reading};
use anyhow::Result;
use quarry::{Backing, Mapping, OsError, PageRef, PageSlot, Quarry, ReadOnly};

/// A backing that is never read, because the measurement itself writes the bytes of all pages.
struct Made;

impl Backing for Made {
    type Access = ReadOnly;

    fn size(&self) -> u64 {
        u64::from(FILE_PAGES) * PAGE_BYTES as u64
    }

    fn read(&self, _: u64, _: &mut [u8]) -> Result<usize, OsError> {
        Err(OsError(libc::EIO))
    }
}

/// A file mapping for each file.
pub struct QuarryCache(Vec<Mapping<Made>>);

impl QuarryCache {
    /// Makes a cache for `capacity` of `pages` pages. The nodes of its index count against the
    /// capacity; the tables of the other caches do not count against theirs.
    ///
    /// # Errors
    /// If there is no memory, or no limit can be set.
    pub fn new(capacity: u32, pages: u32) -> Result<Self> {
        let create = |_| quarry::PageCache::open(Made);
        let files = (0..pages.div_ceil(FILE_PAGES)).map(create).collect::<Result<_, _>>()?;
        Quarry::set_limit(capacity as usize * PAGE_BYTES)?;
        Ok(Self(files))
    }
}

#[inline(always)]
fn bytes<'a>(page: &'a PageRef<'_>) -> &'a Page {
    // SAFETY: a cached page has 4,096 bytes at a multiple of 4,096, and stays there while it is
    // pinned. Any content is a valid page of words.
    unsafe { &*page.as_ptr().cast() }
}

impl PageCache for QuarryCache {
    #[inline(always)]
    fn get(&self, key: Key, reading: Reading) -> Option<u64> {
        let page = self.0[key.file as usize].get(key.index)?;
        Some(bytes(&page).read(key, reading))
    }

    fn insert(&self, key: Key, fill: impl FnOnce(&Page)) -> bool {
        match self.0[key.file as usize].get_or_alloc(key.index) {
            Err(_) => false,
            Ok(PageSlot::Found(_)) => true,
            Ok(PageSlot::New(mut page)) => {
                // SAFETY: as above; only this function has the page until it is filled.
                fill(unsafe { &*page.bytes_mut().as_ptr().cast() });
                // SAFETY: the fill has written all bytes.
                drop(unsafe { page.assume_filled() });
                true
            }
        }
    }
}
