//! The interface by which a replayed kernel path allocates, and the memory that it gets.

use quarry_cache::lru::LruCounters;
use quarry_cache::page_cache::{Event, EventCounts};
use quarry_sys::lock::LockStats;
use quarry_sys::locks::AnyLock;
use quarry_sys::primitive::Access;
use quarry_sys::primitive::touch::touch_bytes;
use std::ptr::NonNull;

/// A piece of memory with one owner. The call that allocated it determines which call frees it.
#[derive(Debug, PartialEq, Eq)]
pub struct Buffer {
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a buffer is plain memory with one owner; any CPU may free it.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Takes ownership of memory.
    ///
    /// # Safety
    /// `bytes` bytes from `address` on are writable, and nothing else uses them until this buffer
    /// is taken apart by [`into_address`](Self::into_address).
    pub unsafe fn new(address: NonNull<u8>, bytes: usize) -> Self {
        Self { address, bytes }
    }

    /// Address of the memory.
    pub fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Ends the buffer and returns the address of its memory.
    pub fn into_address(self) -> NonNull<u8> {
        self.address
    }

    /// Returns the address of `offset`, where a range of `bytes` bytes begins.
    ///
    /// # Panics
    /// If the range is not inside the memory.
    fn range(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(offset + bytes <= self.bytes, "{bytes} bytes at {offset} of {}", self.bytes);
        // SAFETY: the offset lies inside of the memory or at its end.
        unsafe { self.address.as_ptr().add(offset) }
    }

    /// Copies `source` to `offset`.
    ///
    /// # Panics
    /// If the buffer is too small.
    pub fn write(&mut self, offset: usize, source: &[u8]) {
        let target = self.range(offset, source.len());
        touch_bytes(target, source.len(), Access::Write);
        // SAFETY: the memory is writable for that many bytes and ours alone, so it does not
        // overlap `source`.
        unsafe { target.copy_from_nonoverlapping(source.as_ptr(), source.len()) };
    }

    /// Fills the first `bytes` bytes with zeros.
    ///
    /// # Panics
    /// If the buffer is too small.
    pub fn clear(&mut self, bytes: usize) {
        touch_bytes(self.range(0, bytes), bytes, Access::Write);
        // SAFETY: the memory is writable for that many bytes and ours alone.
        unsafe { self.range(0, bytes).write_bytes(0, bytes) };
    }

    /// Reads the first `bytes` bytes, as a kernel reads a structure before freeing it. Only a
    /// simulated machine notices the access.
    #[inline]
    pub(crate) fn inspect(&self, bytes: usize) {
        touch_bytes(self.range(0, bytes), bytes, Access::Read);
    }

    /// Copies the bytes from `offset` on to `target`. Every one of them must have been written.
    ///
    /// # Panics
    /// If the buffer is too small.
    pub fn read(&self, offset: usize, target: &mut [u8]) {
        let source = self.range(offset, target.len());
        touch_bytes(source, target.len(), Access::Read);
        // SAFETY: as in `write`; fresh memory of the operating system reads as zero, so no byte is
        // uninitialised even if nothing was written.
        unsafe { target.as_mut_ptr().copy_from_nonoverlapping(source, target.len()) };
    }
}

/// A kind of page block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Number of pages, as a power of two: 2^`order`.
    pub order: u8,
    /// True for movable pages (a program's memory), false for unmovable ones (the kernel's own).
    pub movable: bool,
}

/// A kernel's memory: object caches and pages. Any number of threads may call it. The
/// implementation may assume that each thread is the only one on its CPU.
pub trait KernelMemory: Sync {
    /// Names a cache of objects.
    type Cache: Copy + Send + Sync;

    /// Bytes of the largest request that `kmalloc` serves from a cache.
    fn largest_kmalloc(&self) -> usize;

    /// Makes a cache for objects of `bytes` bytes, or returns the existing cache of this name.
    fn create_cache(&self, name: &str, bytes: usize) -> Self::Cache;

    /// An object, or `None` if there is no memory.
    fn alloc(&self, cache: Self::Cache) -> Option<Buffer>;

    /// Gives back an object of this cache.
    fn free(&self, cache: Self::Cache, object: Buffer);

    /// Gives back several objects of this cache at once, and empties the list.
    fn free_bulk(&self, cache: Self::Cache, objects: &mut Vec<Buffer>);

    /// A block of pages, or `None` if there is no memory.
    fn alloc_pages(&self, pages: Pages) -> Option<Buffer>;

    /// Gives back a block of this kind.
    fn free_pages(&self, pages: Pages, block: Buffer);

    /// Gives back a list of blocks of this kind, and empties it.
    fn free_list(&self, pages: Pages, list: &mut Vec<Buffer>);

    /// Takes `count` pages for one range of addresses, and hands each of them to `give`, in order.
    /// Returns false if there is no memory.
    fn alloc_range(&self, count: u32, pages: Pages, give: &mut dyn FnMut(Buffer)) -> bool {
        (0..count).all(|_| self.alloc_pages(pages).map(&mut *give).is_some())
    }

    /// Gives back the pages of a range, and empties the list.
    fn free_range(&self, pages: Pages, range: &mut Vec<Buffer>) {
        range.drain(..).for_each(|page| self.free_pages(pages, page));
    }

    /// Puts a page of a program on the LRU lists, if the memory has any.
    fn add_to_lru(&self, _page: &Buffer) {}

    /// Drops the last use of a program's page. It is freed at once, or when the add batch that
    /// still refers to it is drained.
    fn drop_page(&self, pages: Pages, page: Buffer) {
        self.free_pages(pages, page);
    }

    /// Unmaps pages of programs: takes those that are on LRU lists off them, frees all as one list,
    /// and empties `list`.
    fn release(&self, pages: Pages, list: &mut Vec<Buffer>) {
        self.free_list(pages, list);
    }

    /// Returns the counts so far.
    fn counters(&self) -> Counters;

    /// Returns the counts of each cache, every cache once.
    fn caches(&self) -> Vec<CacheCounts>;

    /// Returns how much memory pcp lists and descriptors hold now.
    fn footprint(&self) -> Footprint;

    /// Takes back everything that caches keep, and checks that no memory is missing. All objects
    /// must have been freed, and no thread may be at work.
    fn check_at_end(&self) -> Result<(), String>;
}

/// The counts of a cache, as `slabinfo -AD` prints them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Its name.
    pub name: String,
    /// Objects in use or parked.
    pub objects: u64,
    /// Allocations.
    pub allocs: u64,
    /// Frees.
    pub frees: u64,
    /// Allocations by the fast path.
    pub fast_allocs: u64,
    /// Frees by the fast path.
    pub fast_frees: u64,
}

/// Memory that the allocator itself holds, besides the pieces of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of the pages on all pcp lists.
    pub list_bytes: u64,
    /// Frames that the zones manage.
    pub frames: u64,
    /// Descriptor bytes per frame that the policy states for itself.
    pub policy_bytes_per_frame: u64,
    /// Descriptor bytes that the slab policy really has.
    pub slab_metadata: u64,
}

impl Footprint {
    /// Every figure with its name.
    pub fn named(&self) -> [(&'static str, u64); 4] {
        [
            ("list_bytes", self.list_bytes),
            ("frames", self.frames),
            ("policy_bytes_per_frame", self.policy_bytes_per_frame),
            ("slab_metadata", self.slab_metadata),
        ]
    }
}

macro_rules! counters {
    ($($(#[$about:meta])* $name:ident,)+) => {
        /// The counts of a stack. All values only grow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$about])* pub $name: u64,)+
        }

        impl Counters {
            /// Returns the counts since `earlier`.
            pub fn since(self, earlier: Self) -> Self {
                Self { $($name: self.$name - earlier.$name),+ }
            }

            /// Returns the sum of each counter in `self` and in `other`.
            pub fn plus(self, other: Self) -> Self {
                Self { $($name: self.$name + other.$name),+ }
            }

            /// Every counter with its name.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),+]
            }
        }
    };
}

counters! {
    /// Number of times that a task took the lock of a zone.
    zone_lock,
    /// Times a task found such a lock held.
    zone_contended,
    /// Nanoseconds for which tasks waited for the locks of zones.
    zone_wait_ns,
    /// Number of measurements of how long a task held the lock of a zone.
    zone_hold_samples,
    /// The sum of these measured hold times, in nanoseconds.
    zone_hold_ns,
    /// Critical sections of the zone that handed blocks out.
    zone_allocs,
    /// Critical sections of the zone that took blocks back.
    zone_frees,
    /// Blocks that the zone handed out, to pcp lists or directly to callers.
    zone_taken,
    /// Blocks that the zone took back; it merges each with its free buddies.
    zone_put,
    /// Blocks that pcp lists gave back to the zone.
    lists_drained,
    /// Blocks that callers received, from pcp lists or directly from the zone.
    handed_out,
    /// Blocks that callers freed.
    taken_back,
    /// Critical sections that freed pages, under the lock of a pcp list or of the zone.
    page_sections,
    /// Times a lock of the slab allocator was taken. Such a lock guards the slabs of a node or CPU,
    /// one slab, a barn, or objects that CPUs hand to each other (alien arrays, remote lists).
    slab_lock,
    /// Times a task found such a lock held.
    slab_contended,
    /// Nanoseconds that were spent waiting for these locks.
    slab_wait_ns,
    /// Times the lock of a list of slabs was taken: of a node, or of a group of CPUs.
    list_lock,
    /// Times the lock of a barn was taken.
    barn_lock,
    /// Times the lock bit of a slab was taken, if the policy has such bits.
    lock_bits,
    /// Slabs that were made.
    slabs,
    /// Allocations of objects by the fast path.
    fast_allocs,
    /// Other allocations of objects.
    slow_allocs,
    /// Frees of objects by the fast path.
    fast_frees,
    /// Other frees of objects.
    slow_frees,
    /// Blocks that pcp lists handed out or took back.
    listed,
    /// Times the LRU lock of a node was taken.
    lru_lock,
    /// Times a task found such a lock held.
    lru_contended,
    /// Nanoseconds that were spent waiting for these locks.
    lru_wait_ns,
    /// Times the lock of a batch on an LRU list was taken, if the policy has such locks.
    batch_lock,
    /// Times a task found such a lock held.
    batch_contended,
    /// Nanoseconds that were spent waiting for these locks.
    batch_wait_ns,
    /// Times add batches were drained because of a truncation.
    drains,
    /// Pages that were put on the LRU lists.
    lru_added,
    /// Pages among these that nothing but their add batch referred to.
    lru_dead,
    /// Pages that left the LRU lists.
    lru_removed,
    /// Pages among these that were sentinels, if the policy has any.
    sentinels,
    /// Number of times that a truncation or an invalidation locked a file mapping.
    index_lock,
    /// Lists of pages that the page cache gave to the page allocator.
    page_list_frees,
    /// Pages that truncation dropped.
    pages_truncated,
    /// Pages that scans took from the tails of inactive lists.
    scanned,
    /// Pages that reclaim evicted.
    evicted,
    /// Pages that were read again after reclaim had evicted them.
    refaults,
}

impl Counters {
    /// Adds the counts of a lock if it is a lock of LRU lists. Locks of add batches are left out,
    /// because only their own CPU takes them.
    pub(crate) fn add_lru_lock(&mut self, name: &str, lock: &dyn AnyLock) {
        let Some(stats) = lock.stats() else { return };
        let counts = match name {
            "node->lru_lock" => {
                [&mut self.lru_lock, &mut self.lru_contended, &mut self.lru_wait_ns]
            }
            "node->lru_batch" => {
                [&mut self.batch_lock, &mut self.batch_contended, &mut self.batch_wait_ns]
            }
            _ => return,
        };
        let seen = [stats.acquisitions, stats.contentions, stats.wait_ns];
        counts.into_iter().zip(seen).for_each(|(count, seen)| *count += seen);
    }

    pub(crate) fn add_slab_lock(&mut self, lock: LockStats) {
        self.slab_lock += lock.acquisitions;
        self.slab_contended += lock.contentions;
        self.slab_wait_ns += lock.wait_ns;
    }

    pub(crate) fn add_lru(&mut self, lists: LruCounters) {
        self.lru_added += lists.added;
        self.lru_dead += lists.dead_added;
        self.lru_removed += lists.removed;
        self.sentinels += lists.sentinels;
    }

    pub(crate) fn add_events(&mut self, events: EventCounts) {
        self.index_lock += events[Event::IndexHolds];
        self.pages_truncated += events[Event::Truncated];
        self.drains += events[Event::Drains];
        self.scanned += events[Event::ScannedDirect] + events[Event::ScannedBackground];
        self.evicted += events[Event::StolenDirect] + events[Event::StolenBackground];
        self.refaults += events[Event::Refaulted];
        self.page_list_frees += events[Event::FreeSections];
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::alloc::{Layout, alloc, dealloc};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// A memory that caches nothing: it counts every call as one to the zone.
    #[derive(Default)]
    pub(crate) struct Uncached {
        allocs: AtomicU64,
        frees: AtomicU64,
        sections: AtomicU64,
    }

    impl Uncached {
        fn take(&self, bytes: usize) -> Option<Buffer> {
            self.allocs.fetch_add(1, Relaxed);
            // SAFETY: the layout has a size above 0.
            let address = unsafe { alloc(Layout::from_size_align(bytes, 16).unwrap()) };
            // SAFETY: fresh memory of this size, or null.
            Some(unsafe { Buffer::new(NonNull::new(address)?, bytes) })
        }

        fn give(&self, bytes: usize, buffer: Buffer) {
            self.frees.fetch_add(1, Relaxed);
            assert_eq!(buffer.bytes, bytes, "freed as what it was allocated");
            let layout = Layout::from_size_align(bytes, 16).unwrap();
            // SAFETY: the memory came from `take` with this layout.
            unsafe { dealloc(buffer.into_address().as_ptr(), layout) };
        }
    }

    impl KernelMemory for Uncached {
        type Cache = usize;

        fn largest_kmalloc(&self) -> usize {
            4096
        }

        fn create_cache(&self, _name: &str, bytes: usize) -> usize {
            bytes
        }

        fn alloc(&self, bytes: usize) -> Option<Buffer> {
            self.take(bytes)
        }

        fn free(&self, bytes: usize, object: Buffer) {
            self.give(bytes, object);
        }

        fn free_bulk(&self, bytes: usize, objects: &mut Vec<Buffer>) {
            self.sections.fetch_add(1, Relaxed);
            objects.drain(..).for_each(|object| self.give(bytes, object));
        }

        fn alloc_pages(&self, pages: Pages) -> Option<Buffer> {
            self.take(4096 << pages.order)
        }

        fn free_pages(&self, pages: Pages, block: Buffer) {
            self.give(4096 << pages.order, block);
        }

        fn free_list(&self, pages: Pages, list: &mut Vec<Buffer>) {
            self.sections.fetch_add(1, Relaxed);
            list.drain(..).for_each(|block| self.free_pages(pages, block));
        }

        fn counters(&self) -> Counters {
            let (allocs, frees) = (self.allocs.load(Relaxed), self.frees.load(Relaxed));
            Counters {
                zone_lock: allocs + frees,
                zone_allocs: allocs,
                zone_frees: frees,
                page_sections: self.sections.load(Relaxed),
                ..Counters::default()
            }
        }

        fn caches(&self) -> Vec<CacheCounts> {
            Vec::new()
        }

        fn footprint(&self) -> Footprint {
            Footprint::default()
        }

        fn check_at_end(&self) -> Result<(), String> {
            match self.allocs.load(Relaxed) - self.frees.load(Relaxed) {
                0 => Ok(()),
                live => Err(format!("{live} blocks were not freed")),
            }
        }
    }

    #[test]
    fn buffers_keep_what_is_written() {
        let memory = Uncached::default();
        let mut buffer = memory.alloc(12).unwrap();
        buffer.clear(12);
        buffer.write(2, b"12345678");
        let mut read = [9; 6];
        buffer.read(0, &mut read);
        assert_eq!(&read, b"\0\x001234");
        assert_eq!(memory.check_at_end(), Err("1 blocks were not freed".to_owned()));
        memory.free(12, buffer);
        assert_eq!(memory.check_at_end(), Ok(()));
    }

    #[test]
    #[should_panic(expected = "5 bytes at 4 of 8")]
    fn nothing_is_written_past_the_end() {
        let memory = Uncached::default();
        memory.alloc(8).unwrap().write(4, b"12345");
    }

    #[test]
    fn counters_have_names_and_differences() {
        let at = |zone_lock| Counters { zone_lock, slabs: 1, ..Counters::default() };
        let since = at(7).since(at(3));
        assert_eq!((since.zone_lock, since.slabs), (4, 0));
        assert_eq!(since.plus(at(1)).named()[0], ("zone_lock", 5));
    }
}
