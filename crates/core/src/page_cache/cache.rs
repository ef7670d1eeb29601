//! The page cache of a stack, and the handle that its users have.

use super::counters::{Counters, EventCounts};
use super::descriptors::FreePages;
use super::host::CacheHost;
use super::mapping::{MappingId, MappingOptions};
use super::options::PageCacheOptions;
use super::outcome::{
    Effort, Full, Invalidate, Invalidated, ReadError, RekeyError, ScanRequest, Scanned, Slot,
};
use super::waits::Waits;
use crate::frame::{MAX_NODES, NodeId};
use crate::lru::{DescriptorTable, PageNo, State};
use crate::slab::{CacheId, Late};
use core::ops::Range;
use core::ptr::NonNull;
use quarry_sys::broken::Broken;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::primitive::{AtomicU32, Ordering::Relaxed};

/// The page cache of a stack: nothing but zero bytes before its first use.
pub struct PageCache {
    tables: Late<Tables>,
    /// Held while the tables are made.
    build: CountedLock<()>,
    /// The number of the slab cache of index nodes; 0 where there is none yet.
    nodes: AtomicU32,
}

/// What a page cache is made of.
pub(super) struct Tables {
    pub(super) options: PageCacheOptions,
    pub(super) pages: DescriptorTable,
    pub(super) free: FreePages,
    pub(super) waits: Waits,
    pub(super) counters: Counters,
}

impl Default for PageCache {
    fn default() -> Self {
        Self::new()
    }
}

impl PageCache {
    /// A page cache that has not been used yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { tables: Late::new(), build: CountedLock::new(()), nodes: AtomicU32::new(0) }
    }

    /// The handle for a host; makes the tables at the first call, and the slab cache of index
    /// nodes by `make_nodes`.
    ///
    /// # Errors
    /// Where the system refuses memory for them.
    pub fn open<'a, H: CacheHost>(
        &'a self,
        host: &'a H,
        options: &PageCacheOptions,
        make_nodes: impl FnOnce() -> OsResult<CacheId>,
    ) -> OsResult<PageCacheRef<'a, H>> {
        if let Some(cache) = self.opened(host) {
            return Ok(cache);
        }
        let _held = self.build.lock();
        if self.nodes().is_none() {
            self.nodes.store(make_nodes()?.index() as u32, Relaxed);
        }
        let tables = self.tables.build(|| Tables::build(host, options))?;
        Ok(PageCacheRef { host, tables })
    }

    /// The handle for a host, if the cache has been used.
    #[inline]
    pub fn opened<'a, H: CacheHost>(&'a self, host: &'a H) -> Option<PageCacheRef<'a, H>> {
        self.tables.get().map(|tables| PageCacheRef { host, tables })
    }

    /// The slab cache of index nodes.
    pub fn nodes(&self) -> Option<CacheId> {
        match self.nodes.load(Relaxed) {
            0 => None,
            number => Some(CacheId::new(number as usize)),
        }
    }

    /// Visits the lock of its first use; [`PageCacheRef::visit_locks`] has the others.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("page_cache->build", &self.build);
    }
}

impl Tables {
    fn build<H: CacheHost>(host: &H, options: &PageCacheOptions) -> OsResult<Self> {
        let os = host.pages().arena().os();
        let capacity = host.pages().arena().frames() as usize;
        Ok(Self {
            options: *options,
            pages: DescriptorTable::reserve(os, capacity)?,
            free: FreePages::build(os, host.slots(), capacity)?,
            waits: Waits::build(os)?,
            counters: Counters::build(os, host.slots())?,
        })
    }
}

/// A page cache and the stack that it is part of.
pub struct PageCacheRef<'a, H: CacheHost> {
    pub(super) host: &'a H,
    pub(super) tables: &'a Tables,
}

impl<H: CacheHost> Clone for PageCacheRef<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: CacheHost> Copy for PageCacheRef<'_, H> {}

// Mappings.
impl<H: CacheHost> PageCacheRef<'_, H> {
    /// Creates a mapping without pages. O(1).
    ///
    /// # Errors
    /// Where there is no memory for it.
    pub fn create_mapping(self, _options: &MappingOptions) -> OsResult<MappingId> {
        Err(quarry_sys::errno::OsError(libc::ENOMEM))
    }

    /// Truncates a mapping to nothing, as [`truncate`](Self::truncate) does, and lets go of it.
    /// Pages that are pinned are freed when their last pin goes. Returns false where there is no
    /// such mapping.
    pub fn destroy_mapping(self, _mapping: MappingId) -> bool {
        false
    }

    /// The word of the mapping's owner; `None` where there is no such mapping. O(1).
    pub fn owner(self, _mapping: MappingId) -> Option<u64> {
        None
    }

    /// Pages of a mapping (SQLite's `xPagecount`). O(1).
    pub fn pages_of(self, _mapping: MappingId) -> u64 {
        0
    }
}

// Look-up and fill.
impl<H: CacheHost> PageCacheRef<'_, H> {
    /// Pins the page at `index` if it is there and up to date. O(depth of the index); never waits
    /// for a fill, and never allocates.
    #[inline]
    pub fn get(self, _mapping: MappingId, _index: u64) -> Option<PageNo> {
        None
    }

    /// Pins the page at `index`, or makes a new one there. Waits for a fill that is under way.
    ///
    /// # Errors
    /// Where no page can be had.
    pub fn get_or_alloc(
        self,
        _mapping: MappingId,
        _index: u64,
        _effort: Effort,
    ) -> Result<Slot, Full> {
        Err(Full)
    }

    /// Pins the page at `index`, filled by `fill` if it is new: one task fills, others wait.
    ///
    /// # Errors
    /// Where no page can be had, or the fill has failed, with its code.
    pub fn read(
        self,
        _mapping: MappingId,
        _index: u64,
        _fill: &mut dyn FnMut(NonNull<u8>, usize) -> Result<(), i32>,
    ) -> Result<PageNo, ReadError> {
        Err(ReadError::Full)
    }

    /// Ends the fill of a new page: it is up to date, and those who wait go on. The caller keeps
    /// its pin.
    pub fn fill_done(self, _page: PageNo) {}

    /// Ends the fill of a new page, which failed: it leaves the index, those who wait get the code,
    /// and the caller's pin ends.
    pub fn fill_failed(self, _page: PageNo, _code: i32) {}

    /// Adds a pin to a page that the caller has pinned.
    #[inline]
    pub fn pin_again(self, page: PageNo) {
        self.tables.pages.at(page).state.pin_again();
    }

    /// Gives a pin up; frees the page where that was the last one and no mapping has it.
    #[inline]
    pub fn unpin(self, page: PageNo) {
        let _ = self.tables.pages.at(page).state.unpin();
    }

    /// The bytes of a page, which the caller pins.
    #[inline]
    pub fn address(self, page: PageNo) -> NonNull<u8> {
        self.host.pages().arena().address(self.tables.pages.at(page).pfn())
    }

    /// Number of bytes of a page.
    #[inline]
    pub fn bytes(self, page: PageNo) -> usize {
        self.tables.pages.at(page).order().bytes()
    }

    /// The page whose memory begins at `address`, which the caller pins.
    pub fn page_at(self, _address: *const u8) -> Option<PageNo> {
        None
    }

    /// Mapping number and index of a page; 0 as a mapping where it has none.
    #[inline]
    pub fn key(self, page: PageNo) -> (u32, u64) {
        let page = self.tables.pages.at(page);
        (page.mapping.load(Relaxed), page.index.load(Relaxed))
    }

    /// Pins, latch and flags of a page.
    #[inline]
    pub fn state(self, page: PageNo) -> State {
        self.tables.pages.at(page).state.load()
    }

    /// The private word of a page: 0 in a new one.
    #[inline]
    pub fn private(self, page: PageNo) -> u64 {
        self.tables.pages.at(page).private.load(Relaxed)
    }

    /// Changes the private word of a page that the caller pins. Where the mapping names a cache for
    /// such words, it is 0 or the address of an object of it, which is freed with the page.
    #[inline]
    pub fn set_private(self, page: PageNo, word: u64) {
        self.tables.pages.at(page).private.store(word, Relaxed);
    }
}

// Holding: one pin however often, for owners that do not count.
impl<H: CacheHost> PageCacheRef<'_, H> {
    /// Holds the page at `index`: one pin, however often its owner asks for it. Without an effort
    /// only a page that is there; else a new one, which is marked as up to date at once, is not
    /// latched, and whose private word is 0. One task at a time holds pages of a mapping.
    ///
    /// # Errors
    /// Where no page can be had.
    pub fn hold(
        self,
        _mapping: MappingId,
        _index: u64,
        _effort: Option<Effort>,
    ) -> Result<Option<Slot>, Full> {
        Ok(None)
    }

    /// Ends the holding of a page; with `discard` it leaves the mapping as well.
    pub fn unhold(self, _page: PageNo, _discard: bool) {}
}

// Latches.
impl<H: CacheHost> PageCacheRef<'_, H> {
    /// Takes the latch of a page for reading, if nobody writes. The caller pins the page.
    pub fn try_latch_shared(self, page: PageNo) -> bool {
        self.tables.pages.at(page).state.try_latch_shared()
    }

    /// Takes the latch of a page for reading; waits while somebody writes.
    pub fn latch_shared(self, _page: PageNo) {}

    /// Gives the latch up after reading.
    pub fn unlatch_shared(self, _page: PageNo) {}

    /// Takes the latch of a page for writing, if nobody has it. The caller pins the page.
    pub fn try_latch_exclusive(self, page: PageNo) -> bool {
        self.tables.pages.at(page).state.try_latch_exclusive()
    }

    /// Takes the latch of a page for writing; waits while anybody has it.
    pub fn latch_exclusive(self, _page: PageNo) {}

    /// Gives the latch up after writing, and counts a version.
    pub fn unlatch_exclusive(self, _page: PageNo) {}

    /// The version of a page that nobody writes at the moment: for optimistic reads by a caller
    /// that pins it. The version wraps after 65,536 writes.
    pub fn version(self, _page: PageNo) -> Option<u16> {
        None
    }

    /// Returns whether nobody has written the page since it had this version.
    pub fn is_version(self, page: PageNo, version: u16) -> bool {
        self.version(page) == Some(version)
    }
}

// Dirty pages and writeback.
impl<H: CacheHost> PageCacheRef<'_, H> {
    /// Marks a page as newer than its backing. The caller pins it. Returns whether it was clean.
    pub fn mark_dirty(self, _page: PageNo) -> bool {
        false
    }

    /// Pins up to `out.len()` dirty pages of a mapping from `from` on, in order; returns how many.
    pub fn dirty_pages(self, _mapping: MappingId, _from: u64, _out: &mut [PageNo]) -> usize {
        0
    }

    /// The same of pages that are being written.
    pub fn pages_in_writeback(self, _mapping: MappingId, _from: u64, _out: &mut [PageNo]) -> usize {
        0
    }

    /// Begins to write a dirty page: it counts as clean, and as being written. Returns false where
    /// it is clean, gone, or being written already. The caller pins and latches it, and ends with
    /// [`end_writeback`](Self::end_writeback); it may give the latch up before.
    pub fn begin_writeback(self, _page: PageNo) -> bool {
        false
    }

    /// Ends the writing of a page; where it `failed` the page is dirty again and has `ERROR`.
    pub fn end_writeback(self, _page: PageNo, _failed: bool) {}

    /// Waits until a page that the caller pins is not being written.
    pub fn wait_writeback(self, _page: PageNo) {}
}

// Pages that leave.
impl<H: CacheHost> PageCacheRef<'_, H> {
    /// Drops all pages from index `from` on, dirty ones too, and ends their holding; waits for
    /// latches and for writeback. Pages that are pinned leave the mapping, and are freed when their
    /// last pin goes. Returns the pages dropped. By the cache's
    /// [`TruncationPolicy`](super::TruncationPolicy).
    pub fn truncate(self, _mapping: MappingId, _from: u64) -> u64 {
        0
    }

    /// Drops pages of a range that nobody uses.
    pub fn invalidate(
        self,
        _mapping: MappingId,
        _range: Range<u64>,
        _which: Invalidate,
    ) -> Invalidated {
        Invalidated::default()
    }

    /// Gives a page that the caller pins another index, and discards the page that was there.
    ///
    /// # Errors
    /// Where the page keeps its index.
    pub fn rekey(self, _page: PageNo, _new: u64) -> Result<(), RekeyError> {
        Err(RekeyError::Gone)
    }

    /// Drops the page at an index whatever it holds; one that is pinned is freed when its last pin
    /// goes. Returns whether there was one. Waits for its latch and for writeback.
    pub fn discard(self, _mapping: MappingId, _index: u64) -> bool {
        false
    }
}

// Memory that goes back.
impl<H: CacheHost> PageCacheRef<'_, H> {
    /// Looks at the inactive list of a node from its tail, evicts pages that are clean, unused and
    /// unreferenced, activates referenced ones, and keeps the lists balanced. Takes locks of
    /// mappings only where they are free.
    pub fn reclaim(self, _node: NodeId, _request: &ScanRequest) -> Scanned {
        Scanned::default()
    }

    /// A reclaim for a request that has found nothing: at most 32 pages and 200 us over all nodes,
    /// clean pages only. Does nothing for a task that is in one already. Returns the pages freed.
    pub fn direct_reclaim(self) -> usize {
        0
    }

    /// Puts pages that wait in add batches on their lists, gives index nodes and descriptors back
    /// that nobody uses. Returns the bytes of descriptors.
    pub fn trim(self) -> usize {
        self.tables.free.trim(&self.tables.pages, self.host.metadata())
    }

    /// How often what happened to pages. O(slots).
    pub fn events(self) -> EventCounts {
        self.tables.counters.sums()
    }

    /// Pages on the lists of a node: (active, inactive). O(1).
    pub fn list_sizes(self, node: NodeId) -> (u64, u64) {
        debug_assert!(usize::from(node.0) < MAX_NODES);
        (0, 0)
    }

    /// The choices that the cache was made with.
    pub fn options(self) -> PageCacheOptions {
        self.tables.options
    }

    /// Visits the locks.
    pub fn visit_locks(self, visit: &mut Visit<'_>) {
        self.tables.free.visit_locks(visit);
    }

    /// Checks the equations; no other task uses the cache. O(pages).
    ///
    /// # Errors
    /// The first equation that does not hold.
    pub fn validate(self) -> Result<(), Broken> {
        self.tables.free.validate(&self.tables.pages, 0)
    }
}
