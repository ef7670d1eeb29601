//! The record beside each cached page: the two addresses by which SQLite names it, and the bytes
//! that SQLite keeps with a page.

use crate::abi::PcachePage;
use crate::insist::insist;
use quarry::{CacheOptions, CacheParams, RawCache, RawPage};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::Mutex;

/// A record; SQLite's extra bytes follow it. Only the thread that uses the held page accesses the
/// record, and the page cache frees the record with the page.
#[repr(C)]
pub(crate) struct Record {
    /// The page as SQLite sees it; SQLite identifies the page by this field's address.
    pub(crate) known: PcachePage,
    pub(crate) page: RawPage,
    /// The number of the page in the database.
    pub(crate) key: u32,
    /// The page's index in the file mapping: its key, unless the page is displaced.
    pub(crate) index: u32,
    /// True if SQLite has pinned the page.
    pub(crate) is_held: bool,
    /// True if the file mapping had no memory to move the page to its key.
    pub(crate) is_displaced: bool,
    /// The next record on the list of displaced pages.
    pub(crate) next: *mut Record,
}

/// Bytes before SQLite's extra bytes.
const HEAD: usize = size_of::<Record>();
const _: () = assert!(HEAD.is_multiple_of(8), "SQLite's bytes are at a multiple of 8");

/// Sizes are multiples of this, so that builds of SQLite with similar sizes share a slab cache.
const STEP: usize = 16;
/// Maximum number of bytes that SQLite may request beside a page; it promises less than 250.
const MOST_EXTRA: usize = 1024;
const SIZES: usize = (HEAD + MOST_EXTRA) / STEP + 1;

/// The slab caches of records, by size. They are made once and stay.
static CACHES: Mutex<[Option<RawCache>; SIZES]> = Mutex::new([None; SIZES]);

/// Makes records with a fixed number of SQLite's extra bytes.
#[derive(Clone, Copy)]
pub(crate) struct Records {
    pub(crate) cache: RawCache,
    extra: usize,
}

impl Records {
    /// A maker of records with `extra` bytes; `None` if memory is short or `extra` is too large.
    pub(crate) fn with(extra: usize) -> Option<Self> {
        if extra > MOST_EXTRA {
            return None;
        }
        let place = (HEAD + extra).div_ceil(STEP);
        let mut caches = CACHES.lock().ok()?;
        if caches[place].is_none() {
            let params = CacheParams { size: place * STEP, align: STEP };
            let cache = RawCache::create("sqlite_page", &params, &CacheOptions::default());
            caches[place] = cache.ok();
        }
        caches[place].map(|cache| Self { cache, extra })
    }

    /// Makes the record of a new page; `None` if there is no memory.
    pub(crate) fn make(self, page: RawPage, key: u32) -> Option<NonNull<Record>> {
        let memory = insist(|| self.cache.alloc())?;
        let record = memory.cast::<Record>();
        // SAFETY: the object has room for a record and the extra bytes, and is ours.
        unsafe {
            let extra = memory.add(HEAD);
            // Zeroes show SQLite that the page is new; SQLite's own cache clears all bytes as well.
            extra.write_bytes(0, self.extra);
            record.write(Record {
                known: PcachePage {
                    buffer: page.address().as_ptr().cast(),
                    extra: extra.as_ptr().cast::<c_void>(),
                },
                page,
                key,
                index: key,
                is_held: true,
                is_displaced: false,
                next: null_mut(),
            });
        }
        Some(record)
    }
}
