//! The barn of a cache: full sheaves between the CPUs and the slabs (Linux 6.18, `node_barn`).
//!
//! The kernel's CPUs own sheaves and exchange pointers to them. Here a CPU's objects lie at a fixed
//! place in its slot, which saves the fast path one dependent load; an exchange copies a sheaf's
//! worth of pointers (64 words, about 10 ns) under the barn's lock instead of one pointer.
//!
//! Invariant: `full <= max_full`; sheaf `i < full` holds exactly `capacity` objects.

use crate::frame::{Metadata, MetadataKind};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use quarry_sys::lock::{CountedLock, LockStats};
use quarry_sys::percpu::Object;

struct Sheaves {
    full: usize,
    max_full: usize,
    capacity: usize,
    /// `max_full * capacity` pointers, from the first put on.
    storage: Option<NonNull<MaybeUninit<Object>>>,
}

// SAFETY: the storage belongs to the barn alone and is reached only under its lock.
unsafe impl Send for Sheaves {}

/// A stack of full sheaves under one counted lock.
pub struct Barn {
    sheaves: CountedLock<Sheaves>,
}

impl Barn {
    /// A barn that holds nothing until [`configure`](Self::configure).
    #[must_use]
    pub const fn new() -> Self {
        Self {
            sheaves: CountedLock::new(Sheaves { full: 0, max_full: 0, capacity: 0, storage: None }),
        }
    }

    /// Sets objects per sheaf and sheaves kept. Before the first put.
    pub fn configure(&self, capacity: usize, max_full: usize) {
        let mut sheaves = self.sheaves.lock();
        debug_assert!(sheaves.storage.is_none());
        sheaves.capacity = capacity;
        sheaves.max_full = max_full;
    }

    /// Takes a full sheaf into the front of `out`; returns its objects, 0 where there is none.
    /// O(capacity) under the lock.
    pub fn take(&self, out: &mut [MaybeUninit<Object>]) -> usize {
        let mut sheaves = self.sheaves.lock();
        if sheaves.full == 0 || out.len() < sheaves.capacity {
            return 0;
        }
        sheaves.full -= 1;
        let capacity = sheaves.capacity;
        let storage = sheaves.storage.expect("a barn with full sheaves has storage");
        // SAFETY: sheaf `full` was below the old `full`, so its `capacity` entries are written and
        // lie in the storage; `out` has room and is not part of it.
        unsafe {
            let sheaf = storage.add(sheaves.full * capacity);
            core::ptr::copy_nonoverlapping(sheaf.as_ptr(), out.as_mut_ptr(), capacity);
        }
        capacity
    }

    /// Puts `objects` in as a full sheaf. False where they are not exactly one sheaf's worth, the
    /// barn is full, or there is no memory for it: the caller keeps them. O(capacity).
    pub fn put(&self, metadata: &Metadata, objects: &[Object]) -> bool {
        let mut sheaves = self.sheaves.lock();
        if sheaves.full == sheaves.max_full || objects.len() != sheaves.capacity {
            return false;
        }
        let storage = match sheaves.storage {
            Some(storage) => storage,
            None => {
                let bytes = sheaves.max_full * sheaves.capacity * size_of::<Object>();
                let Ok(storage) = metadata.alloc(bytes, 64, MetadataKind::Sheaves) else {
                    return false;
                };
                *sheaves.storage.insert(storage.cast())
            }
        };
        // SAFETY: `full < max_full`, so the sheaf lies in the storage; `objects` does not.
        unsafe {
            let sheaf = storage.add(sheaves.full * sheaves.capacity);
            core::ptr::copy_nonoverlapping(
                objects.as_ptr(),
                sheaf.as_ptr().cast::<Object>(),
                objects.len(),
            );
        }
        sheaves.full += 1;
        true
    }

    /// Objects in the barn now.
    pub fn objects(&self) -> u64 {
        let sheaves = self.sheaves.lock();
        (sheaves.full * sheaves.capacity) as u64
    }

    /// Counters of the barn's lock.
    pub fn lock_stats(&self) -> LockStats {
        self.sheaves.stats()
    }

    /// Takes the lock before `fork`.
    pub fn lock_for_fork(&self) {
        self.sheaves.lock_for_fork();
    }

    /// Releases it on either side of `fork`.
    ///
    /// # Safety
    /// The calling thread took it by [`lock_for_fork`](Self::lock_for_fork).
    pub unsafe fn unlock_after_fork(&self) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.sheaves.unlock_after_fork() };
    }
}

impl Default for Barn {
    fn default() -> Self {
        Self::new()
    }
}
