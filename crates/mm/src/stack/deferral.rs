//! Decides when the next direct reclaim is worth its time (the kernel defers compaction that
//! failed).
//!
//! A reclaim takes back everything that is held. Another one right after it would find only memory
//! that was freed since, or charged since and is not in use. So after a reclaim that has not helped
//! its request, the next requests that find nothing are refused without one, for 10 ms at most,
//! unless
//!
//! * fewer frames are in use than the reclaim left, or a freed mapping is cached;
//! * frames have been charged since that would be enough for the request;
//! * a cache has freed more objects than it has handed out since. (If some of its objects took the
//!   places of others, and left a slab empty, that shows 10 ms late.)
//!
//! So a program at its limit that goes on with small pairs of `malloc` and `free`, and fails at
//! something larger each time, makes one reclaim in 10 ms, and one that frees what it has is served
//! at once.

use super::durations::Durations;
use crate::slab::MAX_CACHES;
use quarry_sys::primitive::{AtomicU32, AtomicU64};

/// The findings of the last unsuccessful reclaim. Racing writers are harmless: either result will
/// do.
pub(super) struct Deferral {
    /// The time from which on the next one may come in any case; 0 where it may come now.
    pub(super) until_ns: AtomicU64,
    /// Frames in use after it.
    pub(super) used: AtomicU32,
    pub(super) caches: [CacheCounts; MAX_CACHES],
    pub(super) reclaims: AtomicU64,
    /// Durations of the stages of direct reclaims.
    pub(super) took: Durations,
}

/// The reclaim's findings of a cache.
pub(super) struct CacheCounts {
    pub(super) activity: AtomicU64,
    /// Objects handed out and not freed.
    pub(super) live: AtomicU64,
}

impl Deferral {
    pub(super) const fn new() -> Self {
        Self {
            until_ns: AtomicU64::new(0),
            used: AtomicU32::new(0),
            caches: [const { CacheCounts { activity: AtomicU64::new(0), live: AtomicU64::new(0) } };
                MAX_CACHES],
            reclaims: AtomicU64::new(0),
            took: Durations::new(),
        }
    }
}
