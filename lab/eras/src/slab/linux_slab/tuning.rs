//! The sizes of a cache's arrays, and how long the arrays keep objects: the formulas of
//! `enable_cpucache`, `alloc_kmemlist`, `alloc_alien_cache` and `cache_reap` (`mm/slab.c`, Linux
//! 2.6.36).

use quarry_mm::frame::FRAME_BYTES;

pub(super) const MOST_LIMIT: usize = 120;
const MOST_SHARED: usize = SHARED_FACTOR * MOST_LIMIT.div_ceil(2);
/// Objects in an alien array, if the cache's arrays hold more than one object. Fewer for the model
/// checker, whose caches have few objects.
pub(super) const ALIEN_LIMIT: usize = if cfg!(quarry_model) { 2 } else { 12 };
/// Batches that a shared array holds.
const SHARED_FACTOR: usize = 8;
/// Maximum number of objects of a refill if the CPU has not used its array since the last reap
/// (`BATCHREFILL_LIMIT`).
const UNTOUCHED_BATCH: usize = 16;
/// Nanoseconds between two reaps of a CPU (`REAPTIMEOUT_CPUC`, 2 s).
pub(super) const REAP_CPU_NS: u64 = 2_000_000_000;
/// Nanoseconds between two reaps of a node's lists (`REAPTIMEOUT_LIST3`, 4 s).
pub(super) const REAP_LISTS_NS: u64 = 4_000_000_000;
/// A reap takes one part in this many of an unused array, or of the free slabs that a node may
/// keep.
const REAPED_PART: usize = 5;

/// The sizes of the arrays of one cache.
///
/// `batch = (limit + 1) / 2`, so `1 <= batch <= limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tuning {
    pub(super) limit: usize,
    /// Number of objects that move between a CPU and its node at a time.
    pub(super) batch: usize,
    /// Room of a node's shared array, in objects; 0 if there is no such array.
    pub(super) shared: usize,
    pub(super) alien: usize,
}

impl Tuning {
    /// The most objects `stride` bytes apart that an array may hold, if slots have room. O(1).
    pub(super) fn wanted_limit(stride: usize) -> usize {
        match stride {
            _ if cfg!(quarry_model) => 4,
            131_073.. => 1,
            4097.. => 8,
            1025.. => 24,
            257.. => 54,
            _ => MOST_LIMIT,
        }
    }

    /// The sizes for objects `stride` bytes apart, on a machine of `cpus` CPUs whose slots have
    /// room for `most` objects. O(1).
    pub(super) fn of(stride: usize, cpus: u32, most: usize) -> Self {
        let limit = Self::wanted_limit(stride).min(most);
        let batch = limit.div_ceil(2);
        let is_shared = stride <= FRAME_BYTES && cpus > 1;
        Self {
            limit,
            batch,
            shared: if is_shared { SHARED_FACTOR * batch } else { 0 },
            alien: if limit > 1 { ALIEN_LIMIT } else { 1 },
        }
    }

    /// Number of objects of one refill of a CPU's array.
    pub(super) fn refill(&self, is_touched: bool) -> usize {
        if is_touched { self.batch } else { self.batch.min(UNTOUCHED_BATCH) }
    }

    /// The maximum number of free objects with which a node of `cpus` CPUs still keeps a slab that
    /// becomes free. A slab has `objects` objects.
    pub(super) fn free_limit(&self, cpus: u32, objects: u32) -> u64 {
        (1 + u64::from(cpus)) * self.batch as u64 + u64::from(objects)
    }
}

/// Number of objects that a reap takes from an unused array: it holds `level` of at most `limit`.
pub(super) fn reaped_objects(limit: usize, level: usize) -> usize {
    let part = limit.div_ceil(REAPED_PART);
    if part > level { level.div_ceil(2) } else { part }
}

/// Number of free slabs that a reap takes from a node that has not needed them since the last reap.
pub(super) fn reaped_slabs(free_limit: u64, objects: u32) -> u64 {
    free_limit.div_ceil(REAPED_PART as u64 * u64::from(objects))
}

const _: () = assert!(MOST_SHARED <= u16::MAX as usize && ALIEN_LIMIT <= MOST_LIMIT);

#[cfg(all(test, not(quarry_model)))]
mod tests {
    use super::*;

    /// `slabinfo` of Linux 2.6.36: by size, the limit, batch and room of the shared array.
    #[test]
    fn arrays_are_as_long_as_the_kernels() {
        for (stride, expected) in [
            (16, [120, 60, 480]),
            (256, [120, 60, 480]),
            (257, [54, 27, 216]),
            (1024, [54, 27, 216]),
            (1025, [24, 12, 96]),
            (4096, [24, 12, 96]),
            (4097, [8, 4, 0]),
            (131_072, [8, 4, 0]),
            (131_073, [1, 1, 0]),
        ] {
            let Tuning { limit, batch, shared, alien } = Tuning::of(stride, 16, usize::MAX);
            assert_eq!([limit, batch, shared], expected, "{stride} bytes");
            assert_eq!(alien, if limit > 1 { 12 } else { 1 }, "{stride} bytes");
            assert_eq!(Tuning::of(stride, 1, usize::MAX).shared, 0, "one CPU shares with nobody");
            let Tuning { limit, batch, .. } = Tuning::of(stride, 16, 8);
            assert_eq!((limit, batch), (expected[0].min(8), limit.div_ceil(2)), "of short arrays");
        }
    }

    #[test]
    fn what_is_kept_and_what_is_reaped() {
        let small = Tuning::of(256, 16, usize::MAX);
        assert_eq!((small.refill(true), small.refill(false)), (60, 16));
        let large = Tuning::of(8192, 16, usize::MAX);
        assert_eq!((large.refill(true), large.refill(false)), (4, 4));
        assert_eq!(small.free_limit(8, 15), 9 * 60 + 15);
        assert_eq!(
            [0, 1, 3, 23, 24, 120].map(|level| reaped_objects(120, level)),
            [0, 1, 2, 12, 24, 24]
        );
        assert_eq!(reaped_slabs(555, 15), 8);
    }
}
