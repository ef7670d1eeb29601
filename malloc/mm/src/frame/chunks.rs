//! A list that grows by chunks of metadata. An entry keeps its address, so readers take no lock,
//! and two loads find it: each object of an own heap that comes or goes needs a record and a
//! descriptor.

use super::array::FreshZero;
use super::metadata::{Metadata, MetadataKind};
use quarry_sys::os::{OsError, OsResult};
use quarry_sys::primitive::{AtomicPtr, Ordering::Acquire, Ordering::Release};

/// Number of chunks that a list may have.
const CHUNKS: usize = 4096;

/// The list, with chunks of `2^BITS` entries. New entries are zero, and no entry is dropped.
pub(crate) struct Chunks<T, const BITS: u32>([AtomicPtr<T>; CHUNKS]);

impl<T: FreshZero + Sync, const BITS: u32> Chunks<T, BITS> {
    const MASK: u32 = (1 << BITS) - 1;

    /// A list without memory.
    pub(crate) const fn new() -> Self {
        Self([const { AtomicPtr::new(core::ptr::null_mut()) }; CHUNKS])
    }

    /// Entry `number`, if its chunk has memory. Any number is allowed. O(1).
    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let start = self.0.get((number >> BITS) as usize)?.load(Acquire);
        if start.is_null() {
            return None;
        }
        // SAFETY: a chunk that is not null has `2^BITS` entries, zero at first, which is a valid
        // `T`; its memory is never given back.
        Some(unsafe { &*start.add((number & Self::MASK) as usize) })
    }

    /// Entry `number`, whose chunk gets memory if it has none. Only one thread may call this at a
    /// time.
    pub(crate) fn make(&self, number: u32, metadata: &Metadata) -> OsResult<&T> {
        let chunk = self.0.get((number >> BITS) as usize).ok_or(OsError(libc::ENOMEM))?;
        if chunk.load(Acquire).is_null() {
            let bytes = size_of::<T>() << BITS;
            let fresh = metadata.alloc(bytes, align_of::<T>(), MetadataKind::Other)?;
            chunk.store(fresh.as_ptr().cast(), Release);
        }
        self.get(number).ok_or(OsError(libc::ENOMEM))
    }
}
