//! Cached pages by their numbers: the untyped interface to the page cache of the process.

use crate::error::{Error, OsError};
use crate::gate;
use crate::instance::{ProcessConfig, STACK};
use crate::process;
use core::ops::Range;
use core::ptr::NonNull;
use quarry_cache::PageCaching;
use quarry_cache::lru::PageNo;
use quarry_cache::lru::State;
use quarry_cache::page_cache::index::INDEX_LIMIT;
pub use quarry_cache::page_cache::{Effort, Invalidate, Invalidated, MappingOptions};
use quarry_cache::page_cache::{Full, MappingId, PageCacheRef, ReadError, RekeyError, Slot};
use quarry_mm::stack::Stack;
use quarry_sys::errno::KeepErrno;
use quarry_sys::primitive::task;

pub(crate) type ProcessCache = PageCacheRef<'static, Stack<ProcessConfig>>;

/// The page cache. It exists, because the caller has a mapping.
#[inline(always)]
pub(crate) fn cache() -> ProcessCache {
    PageCaching::opened(&STACK).expect("whoever has a mapping has used the page cache")
}

/// Runs `work`, which may take locks of the page cache, on the page cache.
#[inline]
pub(crate) fn inside<T>(work: impl FnOnce(ProcessCache) -> T) -> T {
    let _errno = KeepErrno::new();
    let _inside = gate::enter();
    work(cache())
}

/// Runs `work`, which waits for other tasks and takes no lock of the page cache.
#[inline]
pub(crate) fn waiting<T>(work: impl FnOnce(ProcessCache) -> T) -> T {
    let _errno = KeepErrno::new();
    work(cache())
}

/// A file mapping, with pages by their numbers ([`RawPage`]). It is a number and may be copied; the
/// mapping lives until [`destroy`](Self::destroy). [`Mapping`](crate::Mapping) is
/// the safe and typed interface, with a backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawMapping {
    id: MappingId,
}

impl RawMapping {
    /// Creates a mapping without pages.
    ///
    /// # Errors
    /// [`Error::NoSuchOrder`], [`Error::Disabled`], or [`Error::Full`] without memory for it.
    pub fn create(options: &MappingOptions) -> Result<Self, Error> {
        let order = options.order.get();
        if order > 4 {
            return Err(Error::NoSuchOrder { order });
        }
        process::serving()?;
        let made = process::on_instance(0, || {
            PageCaching::open(&STACK).and_then(|cache| cache.create_mapping(options))
        });
        match made {
            Some(Ok(id)) => Ok(Self { id }),
            Some(Err(OsError(_))) | None => Err(Error::Full),
        }
    }

    /// Drops all pages, like [`truncate`](Self::truncate), and the mapping. Pinned pages are freed
    /// with their last pin. Returns false if there is no such mapping.
    pub fn destroy(self) -> bool {
        process::giving_back(|| cache().destroy_mapping(self.id))
    }

    /// Number of the mapping's pages. O(1).
    #[must_use]
    pub fn pages(self) -> u64 {
        inside(|cache| cache.pages_of(self.id))
    }

    /// Pins the page at `index`, if it is cached and up to date. O(depth of the index); takes no
    /// lock, never waits, and never allocates.
    #[inline(always)]
    #[must_use]
    pub fn get(self, index: u64) -> Option<RawPage> {
        cache().get(self.id, index).map(RawPage)
    }

    /// Pins the page at `index`, or makes a new page there, whose bytes are undefined. The caller
    /// has the exclusive latch of a new page, and ends its fill by [`RawPage::fill_done`] or
    /// [`fill_failed`](RawPage::fill_failed). Waits while another task fills the page.
    ///
    /// # Errors
    /// [`Error::Full`], or [`Error::OutOfRange`] from index 2^52 on.
    pub fn get_or_alloc(self, index: u64, effort: Effort) -> Result<RawSlot, Error> {
        let done = process::on_instance(0, || cache().get_or_alloc(self.id, index, effort));
        let done = done.unwrap_or(Err(ReadError::Full));
        done.map(RawSlot::of).map_err(|error| failure(error, index))
    }

    /// Pins the page at `index`, if it is cached; waits while another task fills it.
    pub(crate) fn get_waiting(self, index: u64) -> Result<Option<RawPage>, Error> {
        let found = inside(|cache| cache.get_waiting(self.id, index));
        found.map(|page| page.map(RawPage)).map_err(|error| failure(error, index))
    }

    /// Returns whether there is a page at `index`, up to date or not.
    pub(crate) fn is_cached(self, index: u64) -> bool {
        inside(|cache| cache.is_cached(self.id, index))
    }

    /// Pins dirty pages from index `from` on, in order, into `out`; returns their number.
    pub(crate) fn dirty_pages(self, from: u64, out: &mut [PageNo]) -> usize {
        inside(|cache| cache.dirty_pages(self.id, from, out))
    }

    /// Like [`dirty_pages`](Self::dirty_pages), for pages that are being written.
    pub(crate) fn pages_in_writeback(self, from: u64, out: &mut [PageNo]) -> usize {
        inside(|cache| cache.pages_in_writeback(self.id, from, out))
    }

    /// Holds the page at `index`: it has one pin, however often its owner requests it. Without an
    /// effort, returns only a cached page. With an effort, also makes a new page, which is at once
    /// up to date, not latched, and has the private word 0. Only one task at a time holds pages of
    /// a mapping. Then no other task may truncate the mapping, or discard or move its pages.
    ///
    /// # Errors
    /// Same as [`get_or_alloc`](Self::get_or_alloc).
    pub fn hold(self, index: u64, effort: Option<Effort>) -> Result<Option<RawSlot>, Error> {
        let held = process::on_instance(0, || cache().hold(self.id, index, effort));
        match held {
            Some(Ok(slot)) => Ok(slot.map(RawSlot::of)),
            Some(Err(Full)) | None => Err(refusal(index)),
        }
    }

    /// Like [`hold`](Self::hold), but takes no lock, and may miss a page. O(depth of the index).
    #[inline]
    #[must_use]
    pub fn hold_present(self, index: u64) -> Option<RawPage> {
        cache().hold_present(self.id, index).map(RawPage)
    }

    /// Drops all pages from index `from` on, dirty ones too, and ends their holding. Waits for
    /// latches and for writeback. Pinned pages leave the mapping, and are freed with their last
    /// pin. Returns the number of dropped pages.
    pub fn truncate(self, from: u64) -> u64 {
        process::giving_back(|| cache().truncate(self.id, from))
    }

    /// Drops those pages of a range, of kind `which`, that no task uses; never waits.
    pub fn invalidate(self, range: Range<u64>, which: Invalidate) -> Invalidated {
        process::giving_back(|| cache().invalidate(self.id, range, which))
    }

    /// Drops a page, dirty or not, once no task latches or writes it; false if it is not cached.
    pub fn discard(self, index: u64) -> bool {
        process::giving_back(|| cache().discard(self.id, index))
    }
}

/// The reason why there is no page at an index: the index is too high, or no memory is left.
#[cold]
fn refusal(index: u64) -> Error {
    if index >= INDEX_LIMIT {
        // Without a backing, only the largest possible index is an end.
        return Error::OutOfRange { index, size: u64::MAX };
    }
    Error::Full
}

fn failure(error: ReadError, index: u64) -> Error {
    match error {
        ReadError::Full => refusal(index),
        ReadError::Failed(errno) => Error::Read { index, error: OsError(errno) },
    }
}

/// A number for the running task: the address of its thread's control block, without low bits.
fn writer() -> u32 {
    (task::current() >> 6) as u32
}

/// A page that was found or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawSlot {
    /// The page.
    pub page: RawPage,
    /// The page is new.
    pub is_new: bool,
}

impl RawSlot {
    fn of(slot: Slot) -> Self {
        Self { page: RawPage(slot.page()), is_new: matches!(slot, Slot::New(_)) }
    }
}

/// A cached page. It is a number and may be copied; each user of a page has a pin of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawPage(pub(crate) PageNo);

impl RawPage {
    /// The page whose memory begins at `address`; `None` if no page does.
    #[must_use]
    pub fn at(address: *const u8) -> Option<Self> {
        PageCaching::opened(&STACK)?.page_at(address).map(Self)
    }

    /// The number of the page.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0.0
    }

    /// The page with this number, if it exists and has a pin that is not Quarry's own. O(1).
    #[must_use]
    pub fn pinned(number: usize) -> Option<Self> {
        let page = PageNo(u32::try_from(number).ok()?);
        PageCaching::opened(&STACK)?.is_pinned(page).then_some(Self(page))
    }

    /// Returns whether a task has latched the page, for writing if `is_exclusive`, else to read.
    #[must_use]
    pub fn is_latched(self, is_exclusive: bool) -> bool {
        let state = self.state();
        if is_exclusive { state.has(State::EXCLUSIVE) } else { state.shared() > 0 }
    }

    /// Returns whether the page is latched for writing, but not by [`latch`](Self::latch) on this
    /// thread.
    #[must_use]
    pub fn is_latched_by_other(self) -> bool {
        self.is_latched(true) && cache().writer(self.0) != writer()
    }

    /// Returns whether the page belongs, or belonged, to the mapping.
    #[must_use]
    pub fn is_of(self, mapping: RawMapping) -> bool {
        cache().key(self.0).0 == mapping.id.number
    }

    /// The first byte of the page; the bytes stay there while the page is pinned.
    #[inline]
    #[must_use]
    pub fn address(self) -> NonNull<u8> {
        cache().address(self.0)
    }

    /// Number of bytes of the page.
    #[inline]
    #[must_use]
    pub fn bytes(self) -> usize {
        cache().bytes(self.0)
    }

    /// The index of the page in its mapping.
    #[must_use]
    pub fn index(self) -> u64 {
        cache().key(self.0).1
    }

    /// Pins, latch and flags.
    #[inline]
    pub(crate) fn state(self) -> State {
        cache().state(self.0)
    }

    /// Returns whether the first use of this page starts the next read-ahead. O(1).
    #[inline]
    pub(crate) fn is_marked_for_readahead(self) -> bool {
        self.state().has(State::READAHEAD)
    }

    /// Marks a page as read ahead by the caller that fills it, and as the marker if `is_marker`.
    pub(crate) fn mark_read_ahead(self, is_marker: bool) {
        cache().mark_read_ahead(self.0, is_marker);
    }

    pub(crate) fn take_readahead_mark(self) -> bool {
        cache().take_readahead_mark(self.0)
    }

    /// The private word of the page; 0 in a new page.
    #[inline]
    #[must_use]
    pub fn private(self) -> u64 {
        cache().private(self.0)
    }

    /// Changes the private word. If the mapping has a cache for such words, the word must be 0 or
    /// the address of an object of that cache; the object is freed with the page.
    ///
    /// # Safety
    /// The caller pins the page, and owns the object.
    #[inline]
    pub unsafe fn set_private(self, word: u64) {
        // SAFETY: the caller's promise is passed on.
        unsafe { cache().set_private(self.0, word) };
    }

    /// Adds a pin.
    ///
    /// # Safety
    /// The caller pins the page.
    #[inline]
    pub unsafe fn pin_again(self) {
        cache().pin_again(self.0);
    }

    /// Gives up a pin; frees the page if this was the last pin and the page is in no mapping.
    ///
    /// # Safety
    /// The pin belongs to the caller, which does not use it any more.
    #[inline]
    pub unsafe fn unpin(self) {
        cache().unpin(self.0);
    }

    /// Latches the page: for writing if `is_exclusive`, else for reading. Returns whether this task
    /// has the latch; with `waits`, this is always true.
    ///
    /// # Safety
    /// The caller pins the page and, with `waits`, has not latched it.
    #[must_use]
    pub unsafe fn latch(self, is_exclusive: bool, waits: bool) -> bool {
        waiting(|cache| {
            let has_latch = match (is_exclusive, waits) {
                (true, false) => cache.try_latch_exclusive(self.0),
                (false, false) => cache.try_latch_shared(self.0),
                (true, true) => {
                    cache.latch_exclusive(self.0);
                    true
                }
                (false, true) => {
                    cache.latch_shared(self.0);
                    true
                }
            };
            if has_latch && is_exclusive {
                cache.set_writer(self.0, writer());
            }
            has_latch
        })
    }

    /// Releases the latch.
    ///
    /// # Safety
    /// The caller has latched the page, for writing if `is_exclusive`, else for reading.
    pub unsafe fn unlatch(self, is_exclusive: bool) {
        waiting(|cache| match is_exclusive {
            true => {
                cache.set_writer(self.0, 0);
                cache.unlatch_exclusive(self.0);
            }
            false => cache.unlatch_shared(self.0),
        });
    }

    /// Ends the fill of a new page: the page is up to date. The caller keeps its pin.
    ///
    /// # Safety
    /// The caller has made the page, and its bytes are initialised.
    pub unsafe fn fill_done(self) {
        inside(|cache| cache.fill_done(self.0));
    }

    /// Ends the fill of a new page that failed with `errno`: the page leaves its mapping, tasks
    /// that wait for it get the error, and the caller's pin ends.
    ///
    /// # Safety
    /// The caller has made the page, and does not use it any more.
    pub unsafe fn fill_failed(self, errno: i32) {
        process::giving_back(|| cache().fill_failed(self.0, errno));
    }

    /// Ends the holding of the page; with `discard`, also removes the page from the mapping.
    ///
    /// # Safety
    /// The caller holds the page, and does not use it any more. While it held the page, no other
    /// task has truncated the mapping, or discarded or moved a page of it.
    #[inline]
    pub unsafe fn unhold(self, discard: bool) {
        if discard {
            return self.discard_held();
        }
        if cache().unhold_last(self.0) {
            self.release();
        }
    }

    #[cold]
    #[inline(never)]
    fn discard_held(self) {
        process::giving_back(|| cache().unhold(self.0, true));
    }

    #[cold]
    #[inline(never)]
    fn release(self) {
        process::giving_back(|| cache().release_one(self.0));
    }

    /// Gives the page another index, and discards the page that had this index.
    ///
    /// # Errors
    /// [`Error::Busy`] if another task uses the page at `new`, [`Error::Full`], or
    /// [`Error::OutOfRange`] if the page is in no mapping any more.
    ///
    /// # Safety
    /// The caller pins the page.
    pub unsafe fn rekey(self, new: u64) -> Result<(), Error> {
        inside(|cache| cache.rekey(self.0, new)).map_err(|error| match error {
            RekeyError::Busy => Error::Busy { index: new },
            RekeyError::Full => Error::Full,
            RekeyError::Gone => Error::OutOfRange { index: self.index(), size: u64::MAX },
        })
    }
}
