//! State that decides when the next direct reclaim is worth its time.
//!
//! A reclaim right after another one finds only memory that was freed since, or that was charged
//! since and is not in use. So for at most 10 ms after a reclaim that did not help its request,
//! Quarry refuses further requests that find no memory, without another reclaim, unless
//!
//! * fewer frames are in use than after that reclaim, or a stash holds a freed mapping or block;
//! * that reclaim left enough frames for this request, and other requests have taken some since;
//! * a cache has freed more objects than it has handed out since. (If a slab became empty while the
//!   number of objects in use stayed the same, Quarry finds that slab up to 10 ms later.)
//!
//! So a program at its limit whose larger requests fail, with `malloc` and `free` of small objects
//! in between, causes one reclaim in 10 ms. A program that frees memory is served at once.

use crate::slab::{Cache, MAX_CACHES};
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Buckets of each doubling.
const STEPS: u32 = 4;
/// The shortest duration that is distinguished is 2 to the power of this, in nanoseconds.
const FIRST: u32 = 7;
const BUCKETS: usize = 80;

/// The findings of the last unsuccessful reclaim. Writers may race: either result will do.
pub(super) struct Deferral {
    /// From this time on, a request may reclaim again in any case; 0: at once.
    pub(super) until_ns: AtomicU64,
    pub(super) used: AtomicU32,
    caches: [CacheCounts; MAX_CACHES],
    pub(super) reclaims: AtomicU64,
    /// Durations of the stages of direct reclaims.
    pub(super) took: Durations,
}

pub(super) struct CacheCounts {
    pub(super) activity: AtomicU64,
    pub(super) live: AtomicU64,
    /// Allocations until the last reap (see `reap.rs`).
    pub(super) allocs: AtomicU64,
    /// Frees until the last walk through sparse slabs that a reap asked for; `u64::MAX`: it is due.
    pub(super) walked: AtomicU64,
}

impl CacheCounts {
    const fn new() -> Self {
        let [activity, live, allocs, walked] = [const { AtomicU64::new(0) }; 4];
        Self { activity, live, allocs, walked }
    }
}

impl Deferral {
    pub(super) const fn new() -> Self {
        Self {
            until_ns: AtomicU64::new(0),
            used: AtomicU32::new(0),
            caches: [const { CacheCounts::new() }; MAX_CACHES],
            reclaims: AtomicU64::new(0),
            took: Durations::new(),
        }
    }

    #[inline(never)]
    pub(super) fn of(&self, cache: &Cache) -> &CacheCounts {
        &self.caches[cache.id().index()]
    }
}

/// A histogram of durations from 128 ns to 134 ms, with 4 buckets for each doubling.
pub(super) struct Durations {
    buckets: [AtomicU32; BUCKETS],
}

impl Durations {
    pub(super) const fn new() -> Self {
        Self { buckets: [const { AtomicU32::new(0) }; BUCKETS] }
    }

    pub(super) fn note(&self, ns: u64) {
        self.buckets[bucket_of(ns)].fetch_add(1, Relaxed);
    }

    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| u64::from(bucket.load(Relaxed))).sum()
    }

    /// An upper bound for the quickest `part` of each thousand durations: the end of a bucket.
    pub(super) fn within(&self, part: u64) -> u64 {
        let wanted = (self.count() * part).div_ceil(1000);
        let mut seen = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen += u64::from(bucket.load(Relaxed));
            if wanted > 0 && seen >= wanted {
                return end_of(index);
            }
        }
        0
    }
}

fn bucket_of(ns: u64) -> usize {
    let ns = ns.max(1 << FIRST);
    let exponent = ns.ilog2();
    let step = (ns >> (exponent - 2)) as u32 & (STEPS - 1);
    (((exponent - FIRST) * STEPS + step) as usize).min(BUCKETS - 1)
}

fn end_of(bucket: usize) -> u64 {
    let (exponent, step) = (bucket as u32 / STEPS + FIRST, bucket as u64 % u64::from(STEPS));
    ((u64::from(STEPS) + step + 1) << (exponent - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other() {
        for bucket in 0..BUCKETS - 1 {
            assert_eq!(bucket_of(end_of(bucket)), bucket);
            assert_eq!(bucket_of(end_of(bucket) + 1), bucket + 1);
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn parts_of_a_thousand_are_found() {
        let durations = Durations::new();
        assert_eq!(durations.within(999), 0);
        for _ in 0..998 {
            durations.note(1000);
        }
        durations.note(50_000);
        durations.note(1_000_000);
        let near = |found: u64, ns: u64| (ns..ns + ns / 4).contains(&found);
        assert!(near(durations.within(500), 1000) && near(durations.within(998), 1000));
        assert!(near(durations.within(999), 50_000));
        assert!(near(durations.within(1000), 1_000_000));
        assert_eq!(durations.count(), 1000);
    }
}
