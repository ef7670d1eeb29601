//! The page cache of the process: makes file mappings, and counts what they hold.

use super::backing::Backing;
use super::file_mapping::Mapping;
use super::raw_mapping::MappingOptions;
use super::writers;
use crate::error::{Error, accept};
use crate::gate;
use crate::group::Group;
use crate::instance::{STACK, is_ready};
use quarry_cache::PageCaching;
use quarry_cache::page_cache::{Event, EventCounts, READAHEAD_BYTES};
use quarry_mm::frame::Order;
use quarry_sys::errno::KeepErrno;

/// Cached pages of files and databases, in the same memory as the heap, under one limit: the cache
/// may use memory that the heap does not need, and gives it back when the heap needs it. A process
/// has one page cache, so this type has no values.
#[derive(Clone, Copy, Debug)]
pub enum PageCache {}

impl PageCache {
    /// Makes a mapping of pages of 4 KiB.
    ///
    /// # Errors
    /// [`Error::Full`] if there is no memory for it, or [`Error::Disabled`].
    pub fn open<B: Backing>(backing: B) -> Result<Mapping<B>, Error> {
        Self::builder().open(backing)
    }

    /// Builds a mapping with options.
    ///
    /// ```
    /// # use quarry::{FileBacking, PageCache};
    /// let program = FileBacking::open("/proc/self/exe")?;
    /// let mapping = PageCache::builder().page_order(2).read_ahead(0).open(program)?;
    /// assert_eq!((mapping.read(0)?.len(), mapping.pages()), (16 << 10, 1));
    /// # Ok::<(), quarry::Error>(())
    /// ```
    #[must_use]
    pub fn builder() -> MappingBuilder {
        MappingBuilder { options: MappingOptions::default(), order: 0, read_ahead: READAHEAD_BYTES }
    }

    /// The contents of the cache, and counts of its events. O(slots).
    #[must_use]
    pub fn stats() -> PageCacheStats {
        let _errno = KeepErrno::new();
        let _inside = gate::enter();
        let cache = if is_ready() { PageCaching::opened(&STACK) } else { None };
        PageCacheStats { events: cache.map(|cache| cache.events()) }
    }

    /// Sets the percentages of memory that may be dirty. Above `background` (by default 10) the
    /// background thread writes; above `hard` (20) the threads that change pages write as well.
    ///
    /// # Errors
    /// [`Error::NotAccepted`] for a `hard` above 100, or a `background` above `hard`.
    pub fn set_dirty_ratios(background: u32, hard: u32) -> Result<(), Error> {
        accept("the hard ratio", hard as usize, 0..=100)?;
        accept("the background ratio", background as usize, 0..=hard as usize)?;
        writers::set_ratios(background, hard);
        Ok(())
    }
}

/// The options of a mapping.
#[derive(Clone, Copy, Debug)]
pub struct MappingBuilder {
    options: MappingOptions,
    order: u8,
    read_ahead: usize,
}

impl MappingBuilder {
    /// Pages of `4 KiB << order`, for order 0 to 4.
    #[must_use]
    pub fn page_order(self, order: u8) -> Self {
        Self { order, ..self }
    }

    /// Maximum number of bytes read ahead of a sequential reader, by default 128 KiB; 0: none.
    #[must_use]
    pub fn read_ahead(self, bytes: usize) -> Self {
        Self { read_ahead: bytes, ..self }
    }

    /// The group that pages are charged to.
    #[must_use]
    pub fn group(self, group: &Group) -> Self {
        Self { options: MappingOptions { group: group.id().0, ..self.options }, ..self }
    }

    /// Makes the mapping.
    ///
    /// # Errors
    /// [`Error::NoSuchOrder`], and the errors of [`PageCache::open`].
    pub fn open<B: Backing>(self, backing: B) -> Result<Mapping<B>, Error> {
        if self.order > 4 {
            return Err(Error::NoSuchOrder { order: self.order });
        }
        let options = MappingOptions { order: Order::new(self.order), ..self.options };
        Mapping::create_with(backing, &options, self.read_ahead)
    }
}

/// A snapshot of the page cache: its contents, and counts of its events.
#[derive(Clone, Copy, Debug)]
pub struct PageCacheStats {
    /// `None` if the page cache has not been used.
    events: Option<EventCounts>,
}

impl PageCacheStats {
    /// Number of pages in file mappings.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.events.map_or(0, |events| events.pages())
    }

    /// Number of pages whose bytes are newer than those of their backing.
    #[must_use]
    pub fn dirty(&self) -> u64 {
        self.events.map_or(0, |events| events.dirty())
    }

    /// Number of pages that are being written to their backing.
    #[must_use]
    pub fn writeback(&self) -> u64 {
        self.events.map_or(0, |events| events.writeback())
    }

    /// Counts of events, named as in `/proc/vmstat`, or in its style.
    pub fn events(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let events = self.events;
        Event::ALL.iter().map(move |(event, name)| (*name, events.map_or(0, |all| all[*event])))
    }
}
