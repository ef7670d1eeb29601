//! What a replayed kernel path allocates from, and the memory it gets.

use std::ptr::NonNull;

/// A piece of memory with one owner. Whoever allocated it says how to free it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Buffer {
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a buffer is plain memory with one owner; any CPU may free it.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Takes charge of memory.
    ///
    /// # Safety
    /// `bytes` bytes from `address` on are writable, and nobody else uses them until this buffer is
    /// taken apart by [`into_address`](Self::into_address).
    pub(crate) unsafe fn new(address: NonNull<u8>, bytes: usize) -> Self {
        Self { address, bytes }
    }

    /// Where it is; the buffer ends.
    pub(crate) fn into_address(self) -> NonNull<u8> {
        self.address
    }

    /// Copies `source` to its start.
    ///
    /// # Panics
    /// Where it is too small.
    pub(crate) fn write(&mut self, source: &[u8]) {
        assert!(source.len() <= self.bytes, "{} bytes into {}", source.len(), self.bytes);
        // SAFETY: the memory is writable for that many bytes and ours alone, so it does not
        // overlap `source`.
        unsafe { self.address.as_ptr().copy_from_nonoverlapping(source.as_ptr(), source.len()) };
    }

    /// Copies its start to `target`; every byte of it must have been written.
    ///
    /// # Panics
    /// Where it is too small.
    pub(crate) fn read(&self, target: &mut [u8]) {
        assert!(target.len() <= self.bytes, "{} bytes from {}", target.len(), self.bytes);
        // SAFETY: as in `write`; fresh memory of the operating system reads as zero, so there is no
        // uninitialised byte even where nobody wrote.
        unsafe {
            target.as_mut_ptr().copy_from_nonoverlapping(self.address.as_ptr(), target.len())
        };
    }
}

/// A kernel's memory: object caches and pages. Calls come from any number of threads; each runs on
/// a CPU of its own as far as the implementation is concerned.
pub(crate) trait KernelMemory: Sync {
    /// Names a cache of objects.
    type Cache: Copy + Send + Sync;

    /// Makes a cache for objects of `bytes` bytes.
    fn create_cache(&self, name: &str, bytes: usize) -> Self::Cache;

    /// An object, or `None` where there is no memory.
    fn alloc(&self, cache: Self::Cache) -> Option<Buffer>;

    /// Gives back an object of this cache.
    fn free(&self, cache: Self::Cache, object: Buffer);

    /// A block of 2^`order` pages, or `None` where there is no memory.
    fn alloc_pages(&self, order: u8) -> Option<Buffer>;

    /// Gives back a block of this order.
    fn free_pages(&self, order: u8, pages: Buffer);

    /// What has been counted so far.
    fn counters(&self) -> Counters;
}

/// What a stack has counted. All values only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Times the zone's lock was taken.
    pub(crate) zone_lock: u64,
    /// Times it was found held.
    pub(crate) zone_contended: u64,
    /// Critical sections of the zone that handed blocks out.
    pub(crate) zone_allocs: u64,
    /// Critical sections of the zone that took blocks back.
    pub(crate) zone_frees: u64,
    /// Times a lock of the slab allocator was taken.
    pub(crate) slab_lock: u64,
    /// Slabs that were made.
    pub(crate) slabs: u64,
}

impl Counters {
    /// What was counted since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            zone_lock: self.zone_lock - earlier.zone_lock,
            zone_contended: self.zone_contended - earlier.zone_contended,
            zone_allocs: self.zone_allocs - earlier.zone_allocs,
            zone_frees: self.zone_frees - earlier.zone_frees,
            slab_lock: self.slab_lock - earlier.slab_lock,
            slabs: self.slabs - earlier.slabs,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::alloc::{Layout, alloc, dealloc};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// Every call goes to the "zone", as if nothing cached anything.
    #[derive(Default)]
    pub(crate) struct Uncached {
        allocs: AtomicU64,
        frees: AtomicU64,
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

        /// Blocks that were allocated and not freed.
        pub(crate) fn live(&self) -> u64 {
            self.allocs.load(Relaxed) - self.frees.load(Relaxed)
        }
    }

    impl KernelMemory for Uncached {
        type Cache = usize;

        fn create_cache(&self, _name: &str, bytes: usize) -> usize {
            bytes
        }

        fn alloc(&self, bytes: usize) -> Option<Buffer> {
            self.take(bytes)
        }

        fn free(&self, bytes: usize, object: Buffer) {
            self.give(bytes, object);
        }

        fn alloc_pages(&self, order: u8) -> Option<Buffer> {
            self.take(4096 << order)
        }

        fn free_pages(&self, order: u8, pages: Buffer) {
            self.give(4096 << order, pages);
        }

        fn counters(&self) -> Counters {
            let (allocs, frees) = (self.allocs.load(Relaxed), self.frees.load(Relaxed));
            Counters {
                zone_lock: allocs + frees,
                zone_allocs: allocs,
                zone_frees: frees,
                ..Counters::default()
            }
        }
    }

    #[test]
    fn buffers_keep_what_is_written() {
        let memory = Uncached::default();
        let mut buffer = memory.alloc(8).unwrap();
        buffer.write(b"12345678");
        let mut read = [0; 4];
        buffer.read(&mut read);
        assert_eq!(&read, b"1234");
        memory.free(8, buffer);
        assert_eq!(memory.live(), 0);
    }

    #[test]
    #[should_panic(expected = "9 bytes into 8")]
    fn nothing_is_written_past_the_end() {
        let memory = Uncached::default();
        memory.alloc(8).unwrap().write(b"123456789");
    }
}
