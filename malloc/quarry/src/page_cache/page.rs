//! Pinned pages, and latches for reading and writing them.

use super::backing::{Access, ReadOnly, ReadWrite};
use super::mapping_core::MappingCore;
use super::raw_mapping::{RawPage, cache, waiting};
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// A pin of a cached page: until all pins of a page are dropped, the page stays in place, and
/// reclaim does not evict it. Cloning adds a pin.
///
/// With a [`ReadOnly`] backing, a pin gives access to the bytes:
///
/// ```
/// # use quarry::{FileBacking, PageCache, PageRef};
/// let mapping = PageCache::open(FileBacking::open("/proc/self/exe")?)?;
/// let page: PageRef<'_> = mapping.read(0)?;
/// assert_eq!((page.len(), &page[1..4], page.index()), (4096, &b"ELF"[..], 0));
/// # Ok::<(), quarry::Error>(())
/// ```
///
/// With a [`ReadWrite`] backing, latches guard the bytes: [`latch_shared`](Self::latch_shared) and
/// [`latch_exclusive`](Self::latch_exclusive).
///
/// Keep pins for a short time: pinned pages must fit into memory.
pub struct PageRef<'a, A: Access = ReadOnly> {
    page: RawPage,
    bytes: NonNull<u8>,
    core: &'a MappingCore,
    access: PhantomData<fn() -> A>,
}

// SAFETY: a pin belongs to no thread; it gives shared references to bytes that are not written, or
// latches that order readers and writers.
unsafe impl<A: Access> Send for PageRef<'_, A> {}
// SAFETY: a shared pin gives shared references only to bytes that are not written.
unsafe impl<A: Access> Sync for PageRef<'_, A> {}

impl<'a, A: Access> PageRef<'a, A> {
    #[inline]
    pub(crate) fn of(page: RawPage, core: &'a MappingCore) -> Self {
        core.note_pin();
        Self { page, bytes: page.address(), core, access: PhantomData }
    }

    /// The index of the page in its mapping. O(1).
    #[must_use]
    pub fn index(&self) -> u64 {
        self.page.index()
    }

    /// The number of the page; this object keeps its pin.
    #[inline]
    #[must_use]
    pub fn raw(&self) -> RawPage {
        self.page
    }

    /// Gives the pin to the caller, who ends it by unpinning the [`RawPage`].
    #[must_use]
    pub fn into_raw(self) -> RawPage {
        self.core.note_unpin();
        ManuallyDrop::new(self).page
    }

    /// The first byte. The caller may read or write there under a latch. Without a latch it may
    /// read if no task writes the page.
    #[inline]
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.bytes.as_ptr()
    }

    #[inline]
    fn len_of(&self) -> usize {
        self.core.page_bytes
    }
}

impl Deref for PageRef<'_, ReadOnly> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the page is pinned and filled, and pages of such a mapping are not written.
        unsafe { core::slice::from_raw_parts(self.bytes.as_ptr(), self.len_of()) }
    }
}

impl<A: Access> Clone for PageRef<'_, A> {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: this object has a pin.
        unsafe { self.page.pin_again() };
        self.core.note_pin();
        Self { ..*self }
    }
}

impl<A: Access> Drop for PageRef<'_, A> {
    #[inline]
    fn drop(&mut self) {
        self.core.note_unpin();
        // SAFETY: the pin belongs to this object, and ends with it.
        unsafe { self.page.unpin() };
    }
}

impl<A: Access> fmt::Debug for PageRef<'_, A> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "page {} at {:p}", self.index(), self.bytes)
    }
}

impl<'a> PageRef<'a, ReadWrite> {
    /// Waits until no task writes the page, and keeps writers away. A thread that itself has the
    /// page latched for writing would wait for ever.
    #[inline]
    #[must_use]
    pub fn latch_shared(self) -> PageRead<'a> {
        if !cache().try_latch_shared(self.page.0) {
            waiting(|cache| cache.latch_shared(self.page.0));
        }
        PageRead { pin: self }
    }

    /// Like [`latch_shared`](Self::latch_shared), but does not wait.
    ///
    /// # Errors
    /// The pin, if another task writes the page.
    #[inline]
    pub fn try_latch_shared(self) -> Result<PageRead<'a>, Self> {
        if cache().try_latch_shared(self.page.0) { Ok(PageRead { pin: self }) } else { Err(self) }
    }

    /// Waits until no task reads or writes the page, and keeps other tasks away. A thread that
    /// itself has the page latched would wait for ever. If more than 20 % of the memory is dirty
    /// (`vm.dirty_ratio`), one of 32 calls first writes some. A fork's child loses what it writes.
    #[inline]
    #[must_use]
    pub fn latch_exclusive(self) -> PageWrite<'a> {
        self.core.balance();
        if !cache().try_latch_exclusive(self.page.0) {
            waiting(|cache| cache.latch_exclusive(self.page.0));
        }
        PageWrite { pin: self, is_changed: false }
    }

    /// Like [`latch_exclusive`](Self::latch_exclusive), but does not wait.
    ///
    /// # Errors
    /// The pin, if another task reads or writes the page.
    #[inline]
    pub fn try_latch_exclusive(self) -> Result<PageWrite<'a>, Self> {
        match cache().try_latch_exclusive(self.page.0) {
            true => Ok(PageWrite { pin: self, is_changed: false }),
            false => Err(self),
        }
    }

    /// The version of the page, which every writer raises; `None` while a task writes. Versions
    /// wrap around after 65,536 writes.
    #[inline]
    #[must_use]
    pub fn version(&self) -> Option<u16> {
        cache().version(self.page.0)
    }

    /// Returns whether no task has written the page since it had this version.
    #[inline]
    #[must_use]
    pub fn is_version(&self, version: u16) -> bool {
        cache().is_version(self.page.0, version)
    }

    /// Copies bytes from offset `at` on, without a latch (optimistic reading). Returns whether they
    /// are of one version; if not (a task was writing), the contents of `into` are undefined.
    ///
    /// # Panics
    /// If the page ends before the last byte.
    #[inline]
    #[must_use]
    pub fn copy_optimistic(&self, at: usize, into: &mut [u8]) -> bool {
        assert!(at <= self.len_of() && into.len() <= self.len_of() - at, "bytes of the page");
        let Some(version) = self.version() else { return false };
        let from = self.bytes.as_ptr().wrapping_add(at);
        for (offset, byte) in into.iter_mut().enumerate() {
            // SAFETY: the byte lies in the page, which is pinned. Another task may write it at the
            // same time: so the read is volatile, and `is_version` then rejects the bytes.
            *byte = unsafe { from.add(offset).read_volatile() };
        }
        self.is_version(version)
    }
}

/// Defines what pages that are latched for reading and for writing have in common.
macro_rules! latched {
    ($name:ident) => {
        impl<'a> $name<'a> {
            /// Releases the latch, and keeps the pin.
            #[must_use]
            pub fn unlatch(self) -> PageRef<'a, ReadWrite> {
                self.pin.clone()
            }

            /// The index of the page in its mapping. O(1).
            #[must_use]
            pub fn index(&self) -> u64 {
                self.pin.index()
            }
        }

        impl Deref for $name<'_> {
            type Target = [u8];

            #[inline]
            fn deref(&self) -> &[u8] {
                let pin = &self.pin;
                // SAFETY: the page is pinned, filled, and latched.
                unsafe { core::slice::from_raw_parts(pin.bytes.as_ptr(), pin.len_of()) }
            }
        }
    };
}

/// A page that is latched for reading. It dereferences to its bytes.
#[derive(Debug)]
pub struct PageRead<'a> {
    pin: PageRef<'a, ReadWrite>,
}

latched!(PageRead);

impl Drop for PageRead<'_> {
    #[inline]
    fn drop(&mut self) {
        cache().unlatch_shared(self.pin.page.0);
    }
}

/// A page that is latched for writing. It dereferences to its bytes; after a mutable dereference,
/// releasing the latch makes the page dirty.
#[derive(Debug)]
pub struct PageWrite<'a> {
    pin: PageRef<'a, ReadWrite>,
    is_changed: bool,
}

impl PageWrite<'_> {
    /// Marks the page as newer than its backing, as a write to its bytes does.
    pub fn mark_dirty(&mut self) {
        self.is_changed = true;
    }

    /// Like [`mark_dirty`](Self::mark_dirty), with a mark: the sequence number of the change in a
    /// log. [`Backing::may_write`](crate::Backing::may_write) gets the page's highest mark before
    /// the page is written.
    pub fn mark_dirty_at(&mut self, mark: u64) {
        self.is_changed = true;
        note_mark(self.pin.page, mark);
    }
}

latched!(PageWrite);

impl DerefMut for PageWrite<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.is_changed = true;
        let pin = &self.pin;
        // SAFETY: the page is pinned, filled, and latched for writing; the borrow is unique.
        unsafe { core::slice::from_raw_parts_mut(pin.bytes.as_ptr(), pin.len_of()) }
    }
}

impl Drop for PageWrite<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_changed {
            self.pin.core.mark_dirty(self.pin.page);
        }
        waiting(|cache| cache.unlatch_exclusive(self.pin.page.0));
    }
}

/// Raises the mark of a page. The caller pins the page, and its mapping has a backing.
pub(crate) fn note_mark(page: RawPage, mark: u64) {
    if mark > page.private() {
        // SAFETY: the page is pinned, and mappings with a backing keep no objects there.
        unsafe { page.set_private(mark) };
    }
}

/// The page at an index.
#[derive(Debug)]
pub enum PageSlot<'a, A: Access = ReadWrite> {
    /// The page was cached.
    Found(PageRef<'a, A>),
    /// The page is new.
    New(NewPage<'a, A>),
}

/// A new page, which only this object can use. Its bytes are undefined, and tasks that request the
/// page wait. Dropping this removes the page from the mapping.
///
/// ```
/// # use quarry::{FileBacking, NewPage, PageCache};
/// let mapping = PageCache::open(FileBacking::open_writable("/dev/null")?)?;
/// let new: NewPage<'_, _> = mapping.create(7)?;
/// let page = new.fill_dirty(|zeroes| zeroes[0] = 1);
/// assert_eq!(page.latch_shared()[..2], [1, 0]);
/// drop(mapping.create(8)?);
/// assert!(mapping.get(8).is_none(), "a page that was not filled");
/// # Ok::<(), quarry::Error>(())
/// ```
pub struct NewPage<'a, A: Access = ReadWrite> {
    page: RawPage,
    core: &'a MappingCore,
    access: PhantomData<fn() -> A>,
}

// SAFETY: only its owner uses the page, which belongs to no thread.
unsafe impl<A: Access> Send for NewPage<'_, A> {}
// SAFETY: a shared reference gives no access to the page.
unsafe impl<A: Access> Sync for NewPage<'_, A> {}

impl<'a, A: Access> NewPage<'a, A> {
    /// Takes ownership of the pin and the latch of a new page.
    pub(crate) fn of(page: RawPage, core: &'a MappingCore) -> Self {
        Self { page, core, access: PhantomData }
    }

    /// The index of the page in its mapping. O(1).
    #[must_use]
    pub fn index(&self) -> u64 {
        self.page.index()
    }

    /// The bytes, whose contents are undefined.
    pub fn bytes_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        let start = self.page.address().cast().as_ptr();
        // SAFETY: the page has this many bytes, and only we use it.
        unsafe { core::slice::from_raw_parts_mut(start, self.core.page_bytes) }
    }

    /// Publishes the page as clean: its bytes are those of the backing.
    ///
    /// # Safety
    /// The caller has written all bytes.
    #[must_use]
    pub unsafe fn assume_filled(self) -> PageRef<'a, A> {
        let this = ManuallyDrop::new(self);
        // SAFETY: the page is ours, and filled (the caller's promise).
        unsafe { this.page.fill_done() };
        PageRef::of(this.page, this.core)
    }

    /// Sets all bytes to 0, lets `make` change them, and publishes the page as clean.
    #[must_use]
    pub fn fill(mut self, make: impl FnOnce(&mut [u8])) -> PageRef<'a, A> {
        make(self.zeroed());
        // SAFETY: all bytes were written.
        unsafe { self.assume_filled() }
    }

    fn zeroed(&mut self) -> &mut [u8] {
        let (start, bytes) = (self.page.address().as_ptr(), self.core.page_bytes);
        // SAFETY: the page has this many bytes, and is ours; they are initialised first.
        unsafe {
            start.write_bytes(0, bytes);
            core::slice::from_raw_parts_mut(start, bytes)
        }
    }
}

impl<'a> NewPage<'a, ReadWrite> {
    /// Like [`fill`](Self::fill), with bytes that the backing lacks: the page becomes dirty.
    #[must_use]
    pub fn fill_dirty(mut self, make: impl FnOnce(&mut [u8])) -> PageRef<'a, ReadWrite> {
        make(self.zeroed());
        self.core.mark_dirty(self.page);
        // SAFETY: all bytes were written.
        unsafe { self.assume_filled() }
    }
}

impl<A: Access> Drop for NewPage<'_, A> {
    fn drop(&mut self) {
        // SAFETY: the page is ours, and no task has used it.
        unsafe { self.page.fill_failed(libc::ECANCELED) };
    }
}

impl<A: Access> fmt::Debug for NewPage<'_, A> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "new page {}", self.index())
    }
}
