//! Mappings: the cached pages of one file or database, with their backing.

use super::backing::{Access, Backing, ReadWrite};
use super::mapping_core::MappingCore;
use super::page::{NewPage, PageRef, PageSlot, note_mark};
use super::raw_mapping::{Effort, Invalidate, Invalidated, MappingOptions, RawMapping, RawPage};
use super::writeback::Mode;
use super::writers::{self, Writer, WriterCalls};
use super::{fill, writeback};
use crate::background;
use crate::error::Error;
use crate::process;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Bound, Range, RangeBounds};
use core::ptr::NonNull;
use quarry_cache::page_cache::ErrorCursor;
use quarry_sys::locks::Visit;
use quarry_sys::report::warn;

#[repr(C)]
struct Inner<B> {
    /// The first field, whose first field is the writer: a pointer to the writer points to `Inner`.
    core: MappingCore,
    backing: B,
}

impl<B: Backing> Inner<B> {
    const CALLS: WriterCalls =
        WriterCalls { write: Self::write_some, visit_locks: Self::visit_locks };

    /// # Safety
    /// The writer belongs to an `Inner<B>`.
    unsafe fn at<'a>(writer: NonNull<Writer>) -> &'a Self {
        // SAFETY: the writer is the first field of the first field (`repr(C)` in both).
        unsafe { writer.cast::<Self>().as_ref() }
    }

    /// # Safety
    /// The writer belongs to an `Inner<B>`.
    unsafe fn write_some(writer: NonNull<Writer>, most: usize) -> usize {
        // SAFETY: the caller's promise is passed on.
        let Self { core, backing } = unsafe { Self::at(writer) };
        if core.is_forked() || core.is_quiet() {
            return 0;
        }
        writeback::write_range(core, backing, 0..u64::MAX, most, Mode::Background).pages
    }

    /// # Safety
    /// The writer belongs to an `Inner<B>`.
    unsafe fn visit_locks(writer: NonNull<Writer>, visit: &mut Visit<'_>) {
        // SAFETY: the caller's promise is passed on.
        unsafe { Self::at(writer) }.core.visit_locks(visit);
    }
}

/// The cached pages of one file or database (the kernel's `address_space`).
///
/// ```
/// use quarry::{FileBacking, PageCache};
///
/// # let path = std::env::temp_dir().join(format!("quarry-doc-mapping-{}", std::process::id()));
/// let mapping = PageCache::open(FileBacking::open_writable(&path)?)?;
/// let page = mapping.create(0)?.fill_dirty(|bytes| bytes[..5].copy_from_slice(b"hello"));
/// drop(page);
/// mapping.sync()?;
///
/// let mut page = mapping.read(0)?.latch_exclusive();
/// page[..5].make_ascii_uppercase();
/// drop(page);
/// assert_eq!(&mapping.read(0)?.latch_shared()[..5], b"HELLO");
/// # drop(mapping);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Pages are numbered from 0, and have `4 KiB << order`. Dropping a mapping writes its dirty pages,
/// and prints a line if this fails; to learn the reason, call [`flush`](Self::flush) before.
///
/// **Fork.** A mapping belongs to the process that made it. In the child of a fork,
/// [`get`](Self::get) finds cached pages, with their bytes at the moment of the fork. Calls that
/// may wait or use the backing return [`Error::Forked`]; dropping the mapping writes nothing.
/// The child may make its own mappings.
pub struct Mapping<B: Backing> {
    inner: NonNull<Inner<B>>,
    raw: RawMapping,
    owns: PhantomData<Inner<B>>,
}

// SAFETY: a mapping belongs to no thread: it synchronises itself, and a backing is Send and Sync.
unsafe impl<B: Backing> Send for Mapping<B> {}
// SAFETY: a mapping belongs to no thread: it synchronises itself, and a backing is Send and Sync.
unsafe impl<B: Backing> Sync for Mapping<B> {}

impl<B: Backing> Mapping<B> {
    pub(crate) fn create_with(
        backing: B,
        options: &MappingOptions,
        most_ahead_bytes: usize,
    ) -> Result<Self, Error> {
        let raw = RawMapping::create(options)?;
        let most_ahead = (most_ahead_bytes / options.order.bytes()) as u32;
        let core = MappingCore::new(raw, options, most_ahead, &Inner::<B>::CALLS);
        let Some(inner) = process::boxed(Inner { core, backing }) else {
            raw.destroy();
            return Err(Error::Full);
        };
        // SAFETY: the writer stays there until its removal.
        unsafe { writers::add(inner.as_ref().core.writer()) };
        // The background thread writes dirty pages, and keeps memory free for fills.
        background::start_for_callbacks();
        Ok(Self { inner, raw, owns: PhantomData })
    }

    #[inline]
    fn inner(&self) -> &Inner<B> {
        // SAFETY: the inner part lives until this is dropped.
        unsafe { self.inner.as_ref() }
    }

    #[inline]
    fn core(&self) -> &MappingCore {
        &self.inner().core
    }

    /// The backing of the pages.
    #[must_use]
    pub fn backing(&self) -> &B {
        &self.inner().backing
    }

    /// The number that the untyped interface uses for the mapping.
    #[must_use]
    pub fn raw(&self) -> RawMapping {
        self.raw
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.core().page_bytes
    }

    /// Number of pages that are cached. O(1).
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.raw.pages()
    }

    /// Sets the maximum number of bytes read ahead of a reader (128 KiB by default); 0: none.
    pub fn set_read_ahead(&self, bytes: usize) {
        self.core().set_most_ahead((bytes / self.page_bytes()) as u32);
    }

    /// Finds a page that is cached. Never waits, uses no backing and no lock. O(depth of index).
    #[inline(always)]
    #[must_use]
    pub fn get(&self, index: u64) -> Option<PageRef<'_, B::Access>> {
        self.core().check_pins().ok()?;
        self.raw.get(index).map(|page| PageRef::of(page, self.core()))
    }

    /// Finds a page, or reads it: one task reads, and other tasks that ask for the page wait. Also
    /// reads pages ahead of a sequential reader.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Read`], [`Error::OutOfRange`], or [`Error::Forked`].
    #[inline]
    pub fn read(&self, index: u64) -> Result<PageRef<'_, B::Access>, Error> {
        self.core().check_pins()?;
        match self.raw.get(index) {
            Some(page) => {
                if page.is_marked_for_readahead() {
                    self.read_after_marker(index, page);
                }
                Ok(PageRef::of(page, self.core()))
            }
            None => self.read_missed(index),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_missed(&self, index: u64) -> Result<PageRef<'_, B::Access>, Error> {
        let Inner { core, backing } = self.inner();
        let page = fill::read_missed(core, backing, index)?;
        if page.is_marked_for_readahead() {
            self.read_after_marker(index, page);
        }
        Ok(PageRef::of(page, core))
    }

    #[cold]
    #[inline(never)]
    fn read_after_marker(&self, index: u64, page: RawPage) {
        if page.take_readahead_mark() {
            fill::read_after_marker(self.core(), self.backing(), index);
        }
    }

    /// Finds a page, or makes one, whose bytes the caller fills; waits while another task fills it.
    ///
    /// # Errors
    /// [`Error::Full`], the error of a fill that it has waited for, [`Error::OutOfRange`]
    /// if the page would end after 2^63 bytes, or [`Error::Forked`].
    pub fn get_or_alloc(&self, index: u64) -> Result<PageSlot<'_, B::Access>, Error> {
        self.slot(index, Effort::Every)
    }

    /// Like [`get_or_alloc`](Self::get_or_alloc), but without reclaim.
    ///
    /// # Errors
    /// Same as [`get_or_alloc`](Self::get_or_alloc).
    pub fn try_get_or_alloc(&self, index: u64) -> Result<PageSlot<'_, B::Access>, Error> {
        self.slot(index, Effort::Easy)
    }

    /// Refuses indexes at which no file can have bytes.
    fn check_index(&self, index: u64) -> Result<(), Error> {
        if index < self.core().most_pages() {
            return Ok(());
        }
        Err(Error::OutOfRange { index, size: self.backing().size() })
    }

    fn slot(&self, index: u64, effort: Effort) -> Result<PageSlot<'_, B::Access>, Error> {
        let core = self.core();
        core.check_process()?;
        self.check_index(index)?;
        core.check_pins()?;
        core.balance();
        let slot = core.get_or_alloc(index, effort)?;
        Ok(match slot.is_new {
            true => PageSlot::New(NewPage::of(slot.page, core)),
            false => PageSlot::Found(PageRef::of(slot.page, core)),
        })
    }

    /// Makes a new page at `index`, which must not be cached.
    ///
    /// # Errors
    /// [`Error::Busy`] if the page is cached; otherwise the same as
    /// [`get_or_alloc`](Self::get_or_alloc).
    pub fn create(&self, index: u64) -> Result<NewPage<'_, B::Access>, Error> {
        match self.get_or_alloc(index)? {
            PageSlot::New(page) => Ok(page),
            PageSlot::Found(_) => Err(Error::Busy { index }),
        }
    }

    /// Reads those pages of a range that are not cached, many in one call of the backing. This is a
    /// hint: pages are left out if memory is short or the backing refuses.
    pub fn prefetch(&self, range: impl RangeBounds<u64>) {
        let Inner { core, backing } = self.inner();
        if !core.is_forked() {
            fill::prefetch(core, backing, of_bounds(range));
        }
    }

    /// Drops all pages from index `from` on, dirty ones too; returns their number. Waits for pages
    /// that are latched or being written: a thread that has latched one of the pages itself would
    /// wait for ever. Pinned pages keep their bytes, but no task finds them any more.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn truncate(&self, from: u64) -> Result<u64, Error> {
        self.core().check_process()?;
        Ok(self.raw.truncate(from))
    }

    /// Drops those pages of a range, of kind `which`, that no task uses; never waits.
    pub fn invalidate(&self, range: impl RangeBounds<u64>, which: Invalidate) -> Invalidated {
        self.raw.invalidate(of_bounds(range), which)
    }

    /// Drops a page, dirty or not, once no task latches or writes it; false if it is not cached.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn discard(&self, index: u64) -> Result<bool, Error> {
        self.core().check_process()?;
        Ok(self.raw.discard(index))
    }
}

impl<B: Backing<Access = ReadWrite>> Mapping<B> {
    /// Gives a cached page another index, marks it dirty, and drops the page that had this index.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if no page is cached at `old`, or no page can be at `new`;
    /// [`Error::Busy`] if another task uses the page at `new`; [`Error::Full`], [`Error::Forked`].
    pub fn rekey(&self, old: u64, new: u64) -> Result<(), Error> {
        let core = self.core();
        core.check_process()?;
        self.check_index(new)?;
        let size = self.backing().size();
        let page = self.get(old).ok_or(Error::OutOfRange { index: old, size })?;
        // SAFETY: `page` pins it.
        unsafe { page.raw().rekey(new) }?;
        core.mark_dirty(page.raw());
        Ok(())
    }

    /// Marks a page as newer than its backing, with the mark of
    /// [`mark_dirty_at`](crate::PageWrite::mark_dirty_at), for callers that have page numbers. If
    /// too many pages are dirty, this writes some of them that no task has latched.
    ///
    /// # Safety
    /// The page belongs to this mapping, and the caller pins it.
    pub unsafe fn mark_dirty(&self, page: RawPage, mark: u64) {
        note_mark(page, mark);
        self.core().mark_dirty(page);
        self.core().balance();
    }

    /// Writes the dirty pages of a range to the backing, neighbours together, and waits until all
    /// are written. Waits for latches: the caller must have no latch of the mapping.
    ///
    /// # Errors
    /// An error of the backing since the last flush of the mapping, whichever task wrote. Each
    /// error is reported once, and the pages that it concerns are still dirty. [`Error::Withheld`]
    /// if the backing did not allow some writes; [`Error::Forked`].
    pub fn flush(&self, range: impl RangeBounds<u64>) -> Result<(), Error> {
        let Inner { core, backing } = self.inner();
        writeback::flush(core, backing, of_bounds(range), None)
    }

    /// Flushes all pages, and waits until they survive a loss of power ([`Backing::sync`]).
    ///
    /// # Errors
    /// Same as [`flush`](Self::flush), or the error of the backing's sync, which other flushers get
    /// as well. After a failed sync, writes since the last successful sync may be lost although
    /// their pages are clean, and another sync does not repeat them: change these pages again.
    pub fn sync(&self) -> Result<(), Error> {
        let Inner { core, backing } = self.inner();
        writeback::sync(core, backing, None)
    }

    /// Waits until no page of a range is being written.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn wait_writeback(&self, range: impl RangeBounds<u64>) -> Result<(), Error> {
        self.core().check_process()?;
        writeback::wait_writeback(self.core(), of_bounds(range));
        Ok(())
    }

    /// A flusher: it gets each error once, whether or not other flushers got it.
    #[must_use]
    pub fn flusher(&self) -> Flusher<'_, B> {
        Flusher { mapping: self, cursor: self.core().error_cursor() }
    }
}

/// A flusher of a mapping, which remembers up to which error it has reported.
///
/// ```
/// # use quarry::{FileBacking, Flusher, PageCache};
/// # use std::io;
/// let mapping = PageCache::open(FileBacking::open_writable("/dev/full")?)?;
/// let mut flusher: Flusher<'_, _> = mapping.flusher();
/// drop(mapping.create(0)?.fill_dirty(|bytes| bytes.fill(1)));
/// let refused = io::Error::from(flusher.flush(..).unwrap_err());
/// assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
/// mapping.truncate(0)?;
/// flusher.flush(..)?; // the error was reported, and no page is dirty
/// # Ok::<(), io::Error>(())
/// ```
pub struct Flusher<'a, B: Backing> {
    mapping: &'a Mapping<B>,
    cursor: ErrorCursor,
}

impl<B: Backing<Access = ReadWrite>> Flusher<'_, B> {
    /// Like [`Mapping::flush`]; returns errors since the last flush of this flusher.
    ///
    /// # Errors
    /// Same as [`Mapping::flush`].
    pub fn flush(&mut self, range: impl RangeBounds<u64>) -> Result<(), Error> {
        let Inner { core, backing } = self.mapping.inner();
        writeback::flush(core, backing, of_bounds(range), Some(&mut self.cursor))
    }

    /// Like [`Mapping::sync`]; returns errors since the last flush or sync of this flusher.
    ///
    /// # Errors
    /// Same as [`Mapping::sync`].
    pub fn sync(&mut self) -> Result<(), Error> {
        let Inner { core, backing } = self.mapping.inner();
        writeback::sync(core, backing, Some(&mut self.cursor))
    }
}

impl<B: Backing> Drop for Mapping<B> {
    fn drop(&mut self) {
        // SAFETY: the writer was added when the mapping was made.
        unsafe { writers::remove(self.core().writer()) };
        let _last = Remains(self);
        if <B::Access as Access>::WRITES && !self.core().is_forked() {
            self.write_or_report();
        }
    }
}

/// Frees a mapping whose writer was removed, even if the backing panics in the last write.
struct Remains<'a, B: Backing>(&'a Mapping<B>);

impl<B: Backing> Drop for Remains<'_, B> {
    fn drop(&mut self) {
        let Mapping { inner, raw, .. } = *self.0;
        if self.0.core().is_forked() {
            // The parent writes the dirty pages; the child lacks the threads that hold the latches.
            raw.invalidate(0..u64::MAX, Invalidate::All);
        } else {
            raw.destroy();
        }
        // SAFETY: the mapping is being dropped, and its writer was removed: no other code uses it.
        unsafe {
            inner.drop_in_place();
            process::free(inner.cast());
        }
    }
}

impl<B: Backing> Mapping<B> {
    fn write_or_report(&self) {
        let Inner { core, backing } = self.inner();
        let flushed = writeback::flush(core, backing, 0..u64::MAX, None);
        // The error may be of an earlier write that has succeeded since.
        if let Err(error) = flushed
            && writeback::is_any_dirty(core)
        {
            warn(format_args!("a mapping is dropped, and its dirty pages are lost: {error}"));
        }
    }
}

impl<B: Backing> fmt::Debug for Mapping<B> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = out.debug_struct("Mapping");
        fields.field("page_bytes", &self.page_bytes()).field("pages", &self.pages());
        fields.finish_non_exhaustive()
    }
}

fn of_bounds(range: impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end.max(start)
}
