//! The shared array of a node: objects that pass between its CPUs in batches, without the slabs.
//!
//! Equations: `level <= most <= capacity`; the storage's first `level` entries are objects. The
//! list lock of the node guards everything.

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use quarry_mm::frame::{Metadata, MetadataKind};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::percpu::Object;

/// The array; all zero bytes at first. It gets memory when the first object enters.
pub(super) struct SharedArray {
    storage: Option<NonNull<Object>>,
    capacity: u32,
    most: u32,
    level: u32,
    /// True if a CPU has taken objects from the array since the last reap.
    pub(super) is_touched: bool,
}

// SAFETY: only the array owns the storage, and only the array reaches it.
unsafe impl Send for SharedArray {}

impl SharedArray {
    pub(super) fn configure(&mut self, most: usize) {
        debug_assert_eq!(self.level, 0);
        (self.most, self.is_touched) = (most as u32, false);
    }

    pub(super) fn level(&self) -> usize {
        self.level as usize
    }

    pub(super) fn most(&self) -> usize {
        self.most as usize
    }

    /// Number of objects for which the array has room; 0 if there is no memory for its storage.
    pub(super) fn room(&mut self, metadata: &Metadata) -> usize {
        if self.capacity < self.most {
            let bytes = self.most() * size_of::<Object>();
            let Ok(storage) = metadata.alloc(bytes, 64, MetadataKind::CpuSlabs) else { return 0 };
            // The smaller storage of an earlier cache stays unused.
            (self.storage, self.capacity) = (Some(storage.cast()), self.most);
        }
        (self.most - self.level) as usize
    }

    /// The objects, the oldest first.
    pub(super) fn objects(&self) -> &[Object] {
        let Some(storage) = self.storage else { return &[] };
        // SAFETY: the first `level` entries are written.
        unsafe { core::slice::from_raw_parts(storage.as_ptr(), self.level()) }
    }

    /// Puts `objects` on top. The caller has checked the [`room`](Self::room).
    pub(super) fn push(&mut self, objects: &[Object]) {
        let Some(storage) = self.storage else { return debug_assert!(objects.is_empty()) };
        assert!(self.level() + objects.len() <= self.capacity as usize);
        // SAFETY: the storage has room for `capacity` objects, and no other code reaches it.
        unsafe {
            let top = storage.as_ptr().add(self.level());
            core::ptr::copy_nonoverlapping(objects.as_ptr(), top, objects.len());
        }
        self.level += objects.len() as u32;
    }

    /// Takes objects off the top, in their order, into the front of `out`; returns their number.
    pub(super) fn take(&mut self, out: &mut [MaybeUninit<Object>]) -> usize {
        let count = self.level().min(out.len());
        let rest = self.level() - count;
        for (place, object) in out.iter_mut().zip(&self.objects()[rest..]) {
            place.write(*object);
        }
        self.level = rest as u32;
        count
    }

    pub(super) fn forget_oldest(&mut self, count: usize) {
        let Some(storage) = self.storage else { return };
        assert!(count <= self.level());
        let rest = self.level() - count;
        // SAFETY: both ranges lie among the first `level` entries, which are written.
        unsafe { core::ptr::copy(storage.as_ptr().add(count), storage.as_ptr(), rest) };
        self.level = rest as u32;
    }

    pub(super) fn validate(&self) -> Result<(), Broken> {
        let check = Check::of("shared array");
        check.that(self.level <= self.most, "level <= most")?;
        check.that(self.level <= self.capacity, "level <= capacity")
    }
}
