//! Quarry's page cache, under a limit of the process's stack. Nothing else here allocates from it.

use super::PageCache;
use crate::page::{FILE_PAGES, Key, PAGE_BYTES, Page, Reading};
use anyhow::{Result, ensure};
use quarry::{Effort, MappingOptions, Quarry, RawMapping, RawPage};

/// A mapping for each file.
pub struct QuarryCache(Vec<RawMapping>);

impl QuarryCache {
    /// One for `capacity` of `pages` pages. The limit has room for the pages, and for the nodes of
    /// the index and what else is counted in bytes: the others' tables are beside their capacity.
    ///
    /// # Errors
    /// Where there is no memory, or no limit.
    pub fn new(capacity: u32, pages: u32) -> Result<Self> {
        let create = |_| RawMapping::create(&MappingOptions::default());
        let files = (0..pages.div_ceil(FILE_PAGES)).map(create).collect::<Result<_, _>>()?;
        ensure!(Quarry::set_limit(capacity as usize * PAGE_BYTES), "no limit can be set");
        Ok(Self(files))
    }
}

/// The bytes of a page that the caller pins.
#[inline(always)]
fn bytes(page: &RawPage) -> &Page {
    // SAFETY: a page of the cache has 4,096 bytes at an address that is a multiple of that, and
    // stays there while it is pinned; every content of it is a page of words.
    unsafe { page.address().cast().as_ref() }
}

impl PageCache for QuarryCache {
    #[inline(always)]
    fn get(&self, key: Key, reading: Reading) -> Option<u64> {
        let page = self.0[key.file as usize].get(key.index)?;
        let seen = bytes(&page).read(key, reading);
        // SAFETY: the pin is this function's, and the page is not used after it.
        unsafe { page.unpin() };
        Some(seen)
    }

    fn insert(&self, key: Key, fill: impl FnOnce(&Page)) {
        let slot = self.0[key.file as usize].get_or_alloc(key.index, Effort::Every);
        let Ok(slot) = slot else { return };
        if slot.is_new {
            fill(bytes(&slot.page));
            // SAFETY: this function made the page, and has written all its bytes.
            unsafe { slot.page.fill_done() };
        }
        // SAFETY: the pin is this function's, and the page is not used after it.
        unsafe { slot.page.unpin() };
    }
}
