//! Memory for Quarry's own descriptors, handed out once and counted by kind. Its addresses are
//! never given back. The page cache has its own memory for descriptors, which is only counted here.

use core::ptr::NonNull;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::primitive::{AtomicUsize, Ordering};

/// The purpose of a piece of metadata; statistics print each kind separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MetadataKind {
    /// Sheaves of the barns.
    Sheaves,
    /// Descriptors of slabs that do not fit into the frame table.
    SlabHeaders,
    /// State of slab policies per cache and CPU (beside the slots), and per cache and node.
    CpuSlabs,
    /// Descriptors of cached pages.
    CachedPages,
    /// All other metadata.
    Other,
}

impl MetadataKind {
    /// All kinds.
    pub const ALL: [Self; METADATA_KINDS] =
        [Self::Sheaves, Self::SlabHeaders, Self::CpuSlabs, Self::CachedPages, Self::Other];
}

/// Number of kinds.
pub const METADATA_KINDS: usize = 5;

/// Bytes of address space in a chunk; few, so that the parts a small program uses lie together.
const CHUNK_BYTES: usize = 512 << 10;

struct Chunk {
    next: usize,
    end: usize,
}

/// A bump allocator over chunks of address space, which the OS fills as pages are touched.
pub struct Metadata {
    os: &'static dyn Os,
    chunk: CountedLock<Chunk>,
    bytes: [AtomicUsize; METADATA_KINDS],
}

impl Metadata {
    /// An allocator that has no chunk yet.
    #[must_use]
    pub fn new(os: &'static dyn Os) -> Self {
        Self {
            os,
            chunk: CountedLock::new(Chunk { next: 0, end: 0 }),
            bytes: [const { AtomicUsize::new(0) }; METADATA_KINDS],
        }
    }

    /// Hands out `bytes` of zeroed memory, aligned to `align` (a power of two up to a page), or
    /// fails with the OS's error. O(1).
    pub fn alloc(&self, bytes: usize, align: usize, kind: MetadataKind) -> OsResult<NonNull<u8>> {
        let mut chunk = self.chunk.lock();
        let mut start = chunk.next.next_multiple_of(align);
        if chunk.next == 0 || start + bytes > chunk.end {
            let page = self.os.page_size();
            let span = bytes.next_multiple_of(page).max(CHUNK_BYTES);
            let base = self.os.reserve(span)?;
            start = base.as_ptr() as usize;
            chunk.end = start + span;
        }
        chunk.next = start + bytes;
        self.bytes[kind as usize].fetch_add(bytes, Ordering::Relaxed);
        Ok(NonNull::new(start as *mut u8).expect("the OS reserves no memory at 0"))
    }

    /// Gives the whole pages between `start` and `end`, which lie in one piece that was handed out,
    /// back to the system. The pages read as zero afterwards.
    pub(crate) fn purge(&self, start: usize, end: usize) {
        let page = self.os.page_size();
        let (first, last) = (start.next_multiple_of(page), end / page * page);
        if let Some(address) = NonNull::new(first as *mut u8).filter(|_| first < last) {
            // Memory that the system refuses to take back stays as it is.
            let _ = self.os.purge_metadata(address, last - first);
        }
    }

    /// Counts `bytes` of descriptors whose memory did not come from [`alloc`](Self::alloc).
    pub fn count(&self, kind: MetadataKind, bytes: usize) {
        self.bytes[kind as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes `bytes`, whose memory went back to the system, off what [`count`](Self::count) added.
    pub fn uncount(&self, kind: MetadataKind, bytes: usize) {
        self.bytes[kind as usize].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Visits the lock of the chunk.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("metadata->chunk", &self.chunk);
    }

    /// Bytes handed out or counted for `kind`.
    #[must_use]
    pub fn bytes(&self, kind: MetadataKind) -> usize {
        self.bytes[kind as usize].load(Ordering::Relaxed)
    }
}
