//! Counts of memory that went back because the system was short of it.

use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// Counts what went back to the system because it was short of memory.
#[derive(Debug)]
pub struct Relief {
    times: AtomicU64,
    bytes: AtomicU64,
}

impl Relief {
    pub(super) const fn new() -> Self {
        Self { times: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// Counts one time at which so many bytes went back.
    pub fn note(&self, bytes: usize) {
        self.times.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn counts(&self) -> (u64, u64) {
        (self.times.load(Relaxed), self.bytes.load(Relaxed))
    }
}
