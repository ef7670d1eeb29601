//! The number of objects in a sheaf, in Linux 6.18 and 7.0.

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

/// Number of objects in a sheaf of Linux 7.0, where every cache has sheaves: by the size of the
/// objects, and so many that a sheaf with its header of 32 bytes fills a cache of `kmalloc`. A
/// cache may ask for more (`calculate_sheaf_capacity`).
pub(in crate::slab) fn of_7_0(stride: usize, wanted: Option<u16>) -> usize {
    let by_size = match stride {
        4096.. => 4,
        1024.. => 12,
        256.. => 28,
        _ => 60,
    };
    match wanted {
        Some(0) => 0,
        wanted => by_size.min(MOST_BYTES / stride).max(wanted.map_or(0, usize::from)).min(MOST),
    }
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

    /// The kernel's 4, 12, 26 and 60, rounded up: 26 objects and a header have 240 of 256 bytes.
    #[test]
    fn sheaves_of_7_0_fill_a_cache_of_kmalloc() {
        let sizes = [16, 255, 256, 1023, 1024, 4095, 4096, 8192, 257 << 10];
        let capacities = sizes.map(|stride| of_7_0(stride, None));
        assert_eq!(capacities, [60, 60, 28, 28, 12, 12, 4, 4, 0]);
        let filled = [4, 12, 28, 60].map(|capacity| 32 + capacity * size_of::<usize>());
        assert_eq!(filled, [64, 128, 256, 512]);
        assert_eq!([Some(0), Some(4), Some(40)].map(|wanted| of_7_0(512, wanted)), [0, 28, 40]);
    }

    #[test]
    fn empty_slabs_follow_the_size() {
        assert_eq!([16, 1024, 4096, 32 << 10, 4 << 20].map(empty_slabs), [5, 5, 6, 7, 10]);
    }
}
