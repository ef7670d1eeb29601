//! State that decides when the next direct reclaim is worth its time.
//!
//! A reclaim right after another one finds only memory that was freed since, or memory that was
//! charged since and is not in use. So for at most 10 ms after a reclaim that did not help its
//! request, Quarry refuses, without another reclaim, further requests that find no memory, unless
//!
//! * fewer frames are in use than after that reclaim, or a stash holds a freed mapping or block;
//! * that reclaim left enough frames for this request, and other requests have taken some since;
//! * a cache has freed more objects than it has handed out since. (If a slab became empty while the
//!   number of objects in use stayed the same, Quarry finds that slab up to 10 ms later.)
//!
//! So a program at its limit whose larger requests fail, with `malloc` and `free` of small objects
//! in between, causes one reclaim in 10 ms. A program that frees memory is served at once.

use super::durations::Durations;
use crate::slab::MAX_CACHES;
use quarry_sys::primitive::{AtomicU32, AtomicU64};

/// The findings of the last unsuccessful reclaim. Writers may race: either result will do.
pub(super) struct Deferral {
    /// From this time on, a request may reclaim again in any case; 0: at once.
    pub(super) until_ns: AtomicU64,
    pub(super) used: AtomicU32,
    pub(super) caches: [CacheCounts; MAX_CACHES],
    pub(super) reclaims: AtomicU64,
    /// Durations of the stages of direct reclaims.
    pub(super) took: Durations,
}

pub(super) struct CacheCounts {
    pub(super) activity: AtomicU64,
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
