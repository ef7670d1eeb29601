//! The numbers of cached pages, and their descriptors of 64 bytes.
//!
//! Descriptors are type-stable: the memory of a descriptor stays a descriptor, or reads as zero, as
//! long as the table lives. So a reader may look at a descriptor whose page was freed: it finds a
//! zero word, or the key of another page.

use super::state::{State, StateWord};
use Ordering::{Acquire, Relaxed, Release};
use quarry_mm::frame::{
    GrowingArray, Links, NodeId, Order, Pfn, Window, fresh_zero, members, page_bytes,
};
use quarry_sys::os::{Os, OsResult};
use quarry_sys::primitive::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// The number of a cached page: its descriptor's place in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNo(pub u32);

members!(PageNo);

fresh_zero! {
    /// The descriptor of a cached page.
    #[repr(C, align(64))]
    pub struct Descriptor {
        /// Pins, latch and flags.
        pub state: StateWord,
        /// The key's second half: the page's number within its file mapping.
        pub index: AtomicU64,
        /// The key's first half: the number of the page's file mapping, or 0.
        pub mapping: AtomicU32,
        /// The first frame of the page's memory.
        pub pfn: AtomicU32,
        /// A word for the page's owner (the extra bytes of a database's page).
        pub private: AtomicU64,
        next: AtomicU32,
        previous: AtomicU32,
        /// The slab cache that the object in `private` belongs to; 0 if `private` is no object.
        pub private_cache: AtomicU32,
        /// The error code of the page's fill.
        pub error: AtomicU32,
        /// The tag of the page's batch (`batched`).
        pub tag: AtomicU32,
        /// The page's role in its batch (`batched`).
        pub sentinel: AtomicU8,
        /// The NUMA node of the page's memory.
        pub node: AtomicU8,
        /// The order of the page's memory.
        pub order: AtomicU8,
        /// 1 while the file mapping's owner holds the page (`held.rs`). Only this owner writes it.
        held: AtomicU8,
        /// The group that the page is charged to.
        pub group: AtomicU16,
        /// The task that has latched the page for writing, if it recorded itself; else 0.
        pub writer: AtomicU32,
    }
}

const _: () = assert!(size_of::<Descriptor>() == 64);

impl Descriptor {
    /// The first frame of the page's memory.
    #[inline(always)]
    #[must_use]
    pub fn pfn(&self) -> Pfn {
        Pfn(self.pfn.load(Relaxed))
    }

    /// The NUMA node of the page's memory.
    #[inline]
    #[must_use]
    pub fn node(&self) -> NodeId {
        NodeId(self.node.load(Relaxed))
    }

    /// Returns whether the page is held. An acquire load, so later loads of the key are no older.
    #[inline(always)]
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.load(Acquire) != 0
    }

    /// Records whether the owner of the file mapping holds the page.
    #[inline(always)]
    pub fn set_held(&self, is_held: bool) {
        self.held.store(is_held.into(), Release);
    }

    /// Takes the page out of its index by [`StateWord::take_out`], and ends the page's holding.
    ///
    /// # Errors
    /// The current state, if a flag of `refused` is set or the page is not live.
    #[inline]
    pub fn take_out(&self, refused: u64, pins: u64) -> Result<State, State> {
        let is_held = self.is_held();
        let before = self.state.take_out(refused, pins, is_held)?;
        if is_held {
            self.set_held(false);
        }
        Ok(before)
    }

    /// Frees a descriptor that the caller owns: clears all its fields, the state last.
    pub fn clear(&self) {
        self.index.store(0, Relaxed);
        self.private.store(0, Relaxed);
        self.words().into_iter().for_each(|word| word.store(0, Relaxed));
        self.bytes().into_iter().for_each(|byte| byte.store(0, Relaxed));
        self.group.store(0, Relaxed);
        self.state.begin(State::default());
    }

    /// Returns whether the whole descriptor is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.state.load() == State::default()
            && self.index.load(Relaxed) == 0
            && self.private.load(Relaxed) == 0
            && self.group.load(Relaxed) == 0
            && self.bytes().into_iter().all(|byte| byte.load(Relaxed) == 0)
            && self.words().into_iter().all(|word| word.load(Relaxed) == 0)
    }

    #[inline(always)]
    fn words(&self) -> [&AtomicU32; 8] {
        let Self { mapping, pfn, next, previous, tag, private_cache, error, writer, .. } = self;
        [mapping, pfn, next, previous, tag, private_cache, error, writer]
    }

    #[inline(always)]
    fn bytes(&self) -> [&AtomicU8; 4] {
        [&self.sentinel, &self.node, &self.order, &self.held]
    }

    /// The order of the page's memory.
    #[inline]
    #[must_use]
    pub fn order(&self) -> Order {
        Order::new(self.order.load(Relaxed))
    }
}

/// All descriptors of a page cache, in their own address range. Invariant: descriptors `0..len` are
/// readable; a free one has `state = 0`.
pub struct DescriptorTable {
    array: GrowingArray<Descriptor>,
    _window: Window,
}

impl DescriptorTable {
    /// A table for up to `capacity` pages. Maps nothing.
    ///
    /// # Errors
    /// If no addresses are available.
    pub fn reserve(os: &'static dyn Os, capacity: usize) -> OsResult<Self> {
        let bytes = GrowingArray::<Descriptor>::span(os, capacity);
        let window = Window::choose(os, bytes, page_bytes(os))?;
        Ok(Self { array: GrowingArray::new(os, window.at(0), capacity), _window: window })
    }

    /// Tells a simulated machine that page `n` is frame `n`, as in a kernel. The machine then puts
    /// a page's descriptor into the cache line of the frame's entries.
    pub fn announce_as_of_frames(&self) {
        self.array.announce_as_of_frames();
    }

    /// The descriptor of a page.
    ///
    /// # Panics
    /// If `page` is beyond the last descriptor.
    #[inline(always)]
    #[must_use]
    pub fn at(&self, page: PageNo) -> &Descriptor {
        self.array.at(page.0 as usize)
    }

    /// Number of descriptors that are mapped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.array.len()
    }

    /// The smallest amount of descriptors' memory that can be given back, in bytes.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.array.page_bytes()
    }

    /// Gives memory of free descriptors back; they then read as zero. False if the OS refuses.
    #[expect(unsafe_code, reason = "memory goes back that others may be looking at")]
    pub fn purge(&self, first: PageNo, count: usize) -> bool {
        debug_assert!((0..count).all(|at| self.array.at(first.0 as usize + at).is_zero()));
        // SAFETY: descriptors are structs of atomics. These are free, so they read as zero before
        // and after the purge; the caller keeps them free during it, so no task writes them.
        unsafe { self.array.purge(first.0 as usize, count) }
    }

    /// Maps descriptors `0..len`. Only one thread may call this at a time.
    ///
    /// # Errors
    /// The error of the OS; nothing has changed then.
    pub fn grow(&self, len: usize) -> OsResult<()> {
        self.array.grow(len)
    }
}

impl Links for DescriptorTable {
    type Member = PageNo;

    #[inline]
    fn next_word(&self, member: PageNo) -> &AtomicU32 {
        &self.at(member).next
    }

    #[inline]
    fn previous_word(&self, member: PageNo) -> &AtomicU32 {
        &self.at(member).previous
    }
}
