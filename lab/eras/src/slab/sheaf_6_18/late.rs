//! A slice that is allocated when it is first needed, and kept.

use core::ptr;
use quarry_mm::frame::{FreshZero, Metadata, MetadataKind};
use quarry_sys::os::OsResult;
use quarry_sys::primitive::{AtomicPtr, AtomicU32, Ordering};

/// A slice in metadata, empty until it is built.
pub(super) struct LateSlice<T> {
    start: AtomicPtr<T>,
    /// Set last; 0 until the slice is built.
    len: AtomicU32,
}

impl<T: FreshZero + Sync> LateSlice<T> {
    pub(super) const fn new() -> Self {
        Self { start: AtomicPtr::new(ptr::null_mut()), len: AtomicU32::new(0) }
    }

    /// Allocates `len` entries at the first call. The table of caches ensures one call at a time.
    pub(super) fn build(&self, metadata: &Metadata, len: usize) -> OsResult<()> {
        if self.len.load(Ordering::Relaxed) == 0 {
            let bytes = len * size_of::<T>();
            let start = metadata.alloc(bytes, align_of::<T>(), MetadataKind::CpuSlabs)?;
            self.start.store(start.as_ptr().cast(), Ordering::Relaxed);
            self.len.store(len as u32, Ordering::Release);
        }
        Ok(())
    }

    #[inline]
    pub(super) fn all(&self) -> &[T] {
        let len = self.len.load(Ordering::Acquire) as usize;
        if len == 0 {
            return &[];
        }
        // SAFETY: `len` is set after `start`, to the number of entries that the memory has room
        // for. The memory is zeroed, aligned to a `T` and never given back; zero bytes are a valid
        // `T`.
        unsafe { core::slice::from_raw_parts(self.start.load(Ordering::Relaxed), len) }
    }
}
