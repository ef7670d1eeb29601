//! The number of objects in a sheaf.

use quarry_mm::frame::FRAME_BYTES;

/// Bytes of the largest objects of `kmalloc`'s caches: two pages (`KMALLOC_MAX_CACHE_SIZE`, Linux
/// 6.18).
pub(super) const LARGEST_KMALLOC: usize = 2 * FRAME_BYTES;

/// Objects of a sheaf. In Linux 6.18 only the caches of maple nodes and of `vm_area_struct` have
/// sheaves, and this is their `sheaf_capacity`.
const DEFAULT: usize = 32;
/// Maximum number of objects of a sheaf, and the room of a function's local buffers.
pub(super) const MOST: usize = 64;
/// Maximum number of bytes of the objects of a sheaf: 32 of the largest objects that the kernel's
/// `kmalloc` serves from a cache. Sheaves of larger objects have fewer objects; a cache of objects
/// above this size has no sheaves.
const MOST_BYTES: usize = DEFAULT * LARGEST_KMALLOC;

/// Number of objects in a sheaf. The cache's objects are `stride` bytes apart, and it asks for
/// `wanted` objects. Returns 0 for a cache without sheaves.
pub(super) fn of(stride: usize, wanted: Option<u16>) -> usize {
    wanted.map_or(DEFAULT.min(MOST_BYTES / stride), usize::from).min(MOST)
}

/// Number of empty slabs that a cache keeps (`min_partial`, Linux 3.2 to 6.18).
pub(super) fn empty_slabs(stride: usize) -> u32 {
    (stride.ilog2() / 2).clamp(5, 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sheaves_of_large_objects_are_smaller() {
        let sizes = [16, 4096, 8192, 16 << 10, 32 << 10, 256 << 10, 257 << 10];
        let capacities = sizes.map(|stride| of(stride, None));
        assert_eq!(capacities, [32, 32, 32, 16, 8, 1, 0]);
    }

    #[test]
    fn a_cache_may_ask_for_less_or_more() {
        assert_eq!(
            [Some(0), Some(12), Some(60), Some(1000)].map(|some| of(64, some)),
            [0, 12, 60, 64]
        );
        assert_eq!(of(1 << 20, Some(4)), 4);
    }

    #[test]
    fn empty_slabs_follow_the_size() {
        assert_eq!([16, 1024, 4096, 32 << 10, 4 << 20].map(empty_slabs), [5, 5, 6, 7, 10]);
    }
}
