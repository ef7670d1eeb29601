//! The page cache of a stack, and the handle that its users have.

use super::counters::{Counters, Event, EventCounts};
use super::demand::Demands;
use super::descriptors::FreePages;
use super::host::{Basis, Host};
use super::index::{IndexCounts, IndexNodes};
use super::list_balance::ListBalance;
use super::mapping::{MappingId, MappingOptions, Mappings};
use super::outcome::PageCacheOptions;
use super::tail_blocks::TailBlocks;
use super::waits::Waits;
use super::workingset::{Buckets, Clock};
use crate::lru::{
    DescriptorTable, LruCounters, LruOptions, LruPolicy, LruSet, MOST_USER_PINS, PageNo, Sizes,
    Splice, State,
};
use core::ptr::NonNull;
use quarry_mm::frame::{Kind, NodeId, OsArray};
use quarry_mm::slab::{CacheId, Late};
use quarry_mm::stack::StackHost;
use quarry_mm::zone::{GroupId, Groups};
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{PerCpu, SlotIndex};
use quarry_sys::primitive::Ordering::Relaxed;
use quarry_sys::report::fatal;

/// The page cache of a stack: nothing but zero bytes before its first use.
pub struct PageCache<P: LruPolicy = Splice> {
    basis: Basis,
    tables: Late<Tables<P>>,
    /// Held while `open` builds the tables.
    build: CountedLock<()>,
}

impl<P: LruPolicy> Default for PageCache<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: LruPolicy> PageCache<P> {
    /// A page cache that has not been used yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { basis: Basis::new(), tables: Late::new(), build: CountedLock::new(()) }
    }

    /// Returns this cache's handle for `host`. The first call builds the tables, and creates the
    /// slab cache of index nodes by `make_nodes`.
    ///
    /// # Errors
    /// If the system refuses memory for them.
    pub fn open<'a, H: Host<Lru = P>>(
        &'a self,
        host: &'a H,
        options: &PageCacheOptions,
        lru: LruOptions<P>,
        make_nodes: impl FnOnce() -> OsResult<CacheId>,
    ) -> OsResult<PageCacheRef<'a, H>> {
        if let Some(cache) = self.opened(host) {
            return Ok(cache);
        }
        let _held = self.build.lock();
        if self.basis.nodes().is_none() {
            self.basis.set_nodes(make_nodes()?);
        }
        let tables = self.tables.build(|| Tables::build(host, options, lru))?;
        Ok(PageCacheRef { host, tables })
    }

    /// Returns this cache's handle for `host`; `None` until `open` has built the tables.
    #[inline]
    pub fn opened<'a, H: Host<Lru = P>>(&'a self, host: &'a H) -> Option<PageCacheRef<'a, H>> {
        self.tables.get().map(|tables| PageCacheRef { host, tables })
    }

    /// The part that exists before the first page.
    #[inline]
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// Visits the lock `build`; [`PageCacheRef::visit_locks`] visits the others.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("page_cache->build", &self.build);
    }
}

pub(super) struct Tables<P: LruPolicy> {
    pub(super) options: PageCacheOptions,
    pub(super) pages: DescriptorTable,
    pub(super) free: FreePages,
    pub(super) lru: LruSet<P>,
    pub(super) mappings: Mappings,
    /// Index nodes that wait for a grace period, and nodes that hold only shadow entries.
    pub(super) nodes: IndexNodes,
    pub(super) clocks: OsArray<Clock>,
    pub(super) balances: OsArray<ListBalance>,
    pub(super) demands: Demands,
    pub(super) buckets: Buckets,
    pub(super) waits: Waits,
    pub(super) counters: Counters,
    pub(super) tail_blocks: TailBlocks,
}

impl<P: LruPolicy> Tables<P> {
    fn build<H: Host<Lru = P>>(
        host: &H,
        options: &PageCacheOptions,
        lru: LruOptions<P>,
    ) -> OsResult<Self> {
        let os = host.stack().pages().arena().os();
        let capacity = host.stack().pages().arena().frames() as usize;
        let (slots, nodes) =
            (host.stack().percpu().area().slots(), host.stack().pages().zones().all().count());
        Ok(Self {
            options: *options,
            pages: DescriptorTable::reserve(os, capacity)?,
            free: FreePages::build(os, slots, capacity)?,
            lru: LruSet::build(os, lru, slots as usize, nodes)?,
            mappings: Mappings::build(os)?,
            nodes: IndexNodes::default(),
            clocks: OsArray::zeroed(os, nodes)?,
            balances: OsArray::zeroed(os, nodes)?,
            demands: Demands::default(),
            buckets: Buckets::for_pages(capacity as u64),
            waits: Waits::build(os)?,
            counters: Counters::build(os, slots)?,
            tail_blocks: TailBlocks::new(),
        })
    }
}

/// A page cache and its stack. Callers pin each page that they pass, unless noted.
pub struct PageCacheRef<'a, H: Host> {
    pub(super) host: &'a H,
    pub(super) tables: &'a Tables<H::Lru>,
}

impl<H: Host> Clone for PageCacheRef<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Host> Copy for PageCacheRef<'_, H> {}

impl<'a, H: Host> PageCacheRef<'a, H> {
    /// The slot of the running CPU: a hint.
    #[inline]
    pub(super) fn slot(self) -> SlotIndex {
        self.host.stack().percpu().current()
    }

    pub(super) fn groups(self) -> &'a Groups {
        self.host.stack().groups()
    }

    /// Creates a mapping without pages. O(1).
    ///
    /// # Errors
    /// If there is no memory for it, or no such group.
    pub fn create_mapping(self, options: &MappingOptions) -> OsResult<MappingId> {
        let group = GroupId(options.group);
        if !self.groups().join(group) {
            return Err(quarry_sys::errno::OsError(libc::EINVAL));
        }
        let created = self.tables.mappings.create(&self.tables.nodes, options);
        if created.is_err() {
            self.groups().leave(group);
        }
        created
    }

    /// The word of the mapping's owner; `None` if there is no such mapping. O(1).
    pub fn owner(self, mapping: MappingId) -> Option<u64> {
        self.tables.mappings.get(mapping).map(|mapping| mapping.owner())
    }

    /// Number of live mappings. O(1).
    pub fn mappings(self) -> u32 {
        self.tables.mappings.live()
    }

    /// Number of pages of a mapping (SQLite's `xPagecount`); 0 if there is no such mapping. O(1).
    pub fn pages_of(self, mapping: MappingId) -> u64 {
        self.tables.mappings.get(mapping).map_or(0, |mapping| mapping.pages.load(Relaxed))
    }
}

impl<H: Host> PageCacheRef<'_, H> {
    /// Adds a pin to a pinned page. Aborts at [`MOST_USER_PINS`]: then the program leaks pins.
    #[inline]
    pub fn pin_again(self, page: PageNo) {
        if self.tables.pages.at(page).state.pin_again().pins() >= MOST_USER_PINS {
            too_many_pins(page);
        }
    }

    /// The address of a page's bytes.
    #[inline]
    pub fn address(self, page: PageNo) -> NonNull<u8> {
        self.host.stack().pages().arena().address(self.tables.pages.at(page).pfn())
    }

    /// Number of bytes of a page.
    #[inline]
    pub fn bytes(self, page: PageNo) -> usize {
        self.tables.pages.at(page).order().bytes()
    }

    #[inline]
    pub(super) fn frames(self, page: PageNo) -> u64 {
        self.tables.pages.at(page).order().frames().into()
    }

    /// The page whose memory begins at `address`. O(1).
    pub fn page_at(self, address: *const u8) -> Option<PageNo> {
        let pages = self.host.stack().pages();
        let pfn = pages.arena().pfn(address)?;
        let is_start = pages.arena().address(pfn).as_ptr().cast_const() == address;
        let is_cached = is_start && pages.frames().kind(pfn) == Kind::CACHED;
        is_cached.then(|| PageNo(pages.frames().link(pfn)))
    }

    /// Mapping number and index of a page.
    #[inline]
    pub fn key(self, page: PageNo) -> (u32, u64) {
        let page = self.tables.pages.at(page);
        (page.mapping.load(Relaxed), page.index.load(Relaxed))
    }

    /// Returns whether this is the number of a page that users pin. O(1).
    #[inline]
    pub fn is_pinned(self, page: PageNo) -> bool {
        (page.0 as usize) < self.tables.pages.len() && self.state(page).is_pinned_by_users()
    }

    /// Records the task that latches a page for writing; 0 for none.
    #[inline]
    pub fn set_writer(self, page: PageNo, task: u32) {
        self.tables.pages.at(page).writer.store(task, Relaxed);
    }

    /// Returns the task that was recorded last.
    #[inline]
    pub fn writer(self, page: PageNo) -> u32 {
        self.tables.pages.at(page).writer.load(Relaxed)
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

    /// Changes the private word of a page.
    ///
    /// # Safety
    /// If the mapping names a cache for private words, the word is 0 or the address of an object of
    /// that cache that belongs to this page alone; the object is freed with the page.
    #[inline]
    pub unsafe fn set_private(self, page: PageNo, word: u64) {
        self.tables.pages.at(page).private.store(word, Relaxed);
    }
}

impl<H: Host> PageCacheRef<'_, H> {
    /// Returns the count of each event, in the unit that the event's description names. O(slots).
    pub fn events(self) -> EventCounts {
        self.tables.counters.sums()
    }

    /// Pages on the lists of a node, without those in add batches. O(1).
    pub fn list_sizes(self, node: NodeId) -> Sizes {
        self.tables.lru.sizes(node)
    }

    /// The counters of the lists.
    pub fn lru_counters(self) -> LruCounters {
        self.tables.lru.counters()
    }

    /// The sums of all indexes' counts; `visits` includes mappings that are gone. O(mappings).
    pub fn index_counts(self) -> IndexCounts {
        let mut all = IndexCounts::default();
        for (_, mapping) in self.tables.mappings.all() {
            all += mapping.index.lock(&self.tables.nodes).counts();
        }
        all
    }

    /// Frames of pages that users pin, or whose mapping is unevictable. O(descriptors).
    pub fn pinned_frames(self) -> u64 {
        let all = (0..self.tables.pages.len() as u32).map(PageNo);
        let is_pinned = |page: &PageNo| {
            let state = self.state(*page);
            state.has(State::UNEVICTABLE) || state.is_pinned_by_users()
        };
        all.filter(is_pinned).map(|page| self.frames(page)).sum()
    }

    /// Pages that are in an index or pinned, and their frames. O(descriptors).
    pub fn pages_in_use(self) -> (u64, u64) {
        let all = (0..self.tables.pages.len() as u32).map(PageNo);
        let used = all.filter(|page| self.state(*page) != State::default());
        used.fold((0, 0), |(pages, frames), page| (pages + 1, frames + self.frames(page)))
    }

    /// Visits each figure of `/proc/vmstat` and its name: first gauges, then all events. O(slots +
    /// descriptors).
    pub fn visit_vmstat(self, visit: &mut dyn FnMut(&'static str, u64)) {
        let (events, lru) = (self.events(), self.lru_counters());
        let nodes = self.host.stack().pages().zones().all().map(|zone| zone.node());
        let (mut sizes, mut shadow_nodes) = (Sizes::default(), 0);
        for node in nodes {
            let of_node = self.list_sizes(node);
            sizes.inactive += of_node.inactive;
            sizes.active += of_node.active;
            shadow_nodes += self.tables.nodes.shadow_nodes(node);
        }
        let grace = self.tables.nodes.grace.stats();
        let gauges = [
            ("nr_file_pages", events.pages()),
            ("nr_inactive_file", sizes.inactive),
            ("nr_active_file", sizes.active),
            ("nr_unevictable", events.unevictable()),
            ("nr_dirty", events.dirty()),
            ("nr_writeback", events.writeback()),
            ("nr_pinned", self.pinned_frames()),
            ("nr_mappings", self.mappings().into()),
            ("workingset_nodes", shadow_nodes),
            ("workingset_nodereclaim", self.tables.nodes.reclaimed()),
            ("index_nodes_waiting", grace.waiting),
            ("index_barriers", grace.barriers),
            ("lru_sections", lru.sections),
            ("lru_batch_sections", lru.batch_sections),
            ("lru_added", lru.added),
            ("lru_removed", lru.removed),
            ("lru_sentinels", lru.sentinels),
        ];
        let all = Event::ALL.iter().map(|(event, name)| (*name, events[*event]));
        gauges.into_iter().chain(all).for_each(|(name, value)| visit(name, value));
    }

    /// Visits the locks.
    pub fn visit_locks(self, visit: &mut Visit<'_>) {
        self.tables.mappings.visit_locks(visit);
        self.tables.nodes.visit_locks(visit);
        self.tables.lru.visit_locks(visit);
        self.tables.free.visit_locks(visit);
        self.tables.tail_blocks.visit_locks(visit);
    }
}

#[cold]
#[inline(never)]
fn too_many_pins(page: PageNo) -> ! {
    fatal(format_args!("cached page {} has {MOST_USER_PINS} pins, and gets no more", page.0))
}
