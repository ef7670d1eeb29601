//! The order of slabs, and the number of objects: `calculate_slab_order` and `cache_estimate` of
//! Linux 2.6.36.
//!
//! A slab of objects below 512 bytes begins with a descriptor and a number for each object; for
//! larger objects both lie elsewhere. The kernel's sizes are kept, because they decide how many
//! objects a slab has. But the descriptor's 48 bytes are unused here: what the kernel writes there
//! is in [`Records`](super::slab::Records), where a program cannot overwrite it.

use quarry_mm::frame::{MAX_ORDER, Order};
use quarry_mm::slab::{CacheParams, MIN_ALIGN, SlabLayout};

const DESCRIPTOR_BYTES: usize = 48;
/// Bytes of a `kmem_bufctl_t`, an object's number.
pub(super) const INDEX_BYTES: usize = 4;
/// Slabs of objects from this size on (an eighth of a page) have their descriptor elsewhere.
const OFF_SLAB: usize = 512;
/// The highest order unless an object needs a higher one (`slab_break_gfp_order`, of machines with
/// more than 32 MiB).
const BREAK_ORDER: Order = Order::new(1);
/// At most one part in this many of a slab may stay unused.
const WASTED_PART: usize = 8;

/// Returns whether slabs of objects `stride` bytes apart contain only objects.
pub(super) fn is_off_slab(stride: usize) -> bool {
    stride >= OFF_SLAB
}

fn header_bytes(objects: usize, align: usize) -> usize {
    (DESCRIPTOR_BYTES + objects * INDEX_BYTES).next_multiple_of(align)
}

fn estimate(bytes: usize, stride: usize, align: usize) -> usize {
    if is_off_slab(stride) {
        return bytes / stride;
    }
    let most = (bytes - DESCRIPTOR_BYTES) / (stride + INDEX_BYTES);
    let fits = |objects: &usize| header_bytes(*objects, align) + objects * stride <= bytes;
    (1..=most).rev().find(fits).unwrap_or(0)
}

pub(super) fn layout(params: &CacheParams) -> SlabLayout {
    let (stride, align) = (params.stride(), params.align.max(MIN_ALIGN));
    let (order, objects) = (0..=MAX_ORDER)
        .map(|order| (Order::new(order), estimate(Order::new(order).bytes(), stride, align)))
        .find(|(order, objects)| {
            let header = if is_off_slab(stride) { 0 } else { header_bytes(*objects, align) };
            let left = order.bytes().saturating_sub(header + objects * stride);
            *objects > 0 && (*order >= BREAK_ORDER || left * WASTED_PART <= order.bytes())
        })
        .unwrap_or((Order::MAX, 1));
    let header_bytes = match is_off_slab(stride) {
        true => 0,
        // If there is room, the header is as long as a header for `objects + 1` objects. So
        // `objects` objects fit after it, and no further one.
        false => header_bytes(objects + 1, align).min(order.bytes() - objects * stride),
    };
    SlabLayout { order, header_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_mm::slab::CacheOptions;
    use quarry_mm::slab::{Cache, CacheId, Identity};

    fn cache(size: usize, align: usize) -> Cache {
        Cache::new(
            Identity { id: CacheId::new(1), generation: 1, is_reused: false },
            "test",
            (&CacheParams { size, align }, &CacheOptions::default()),
            false,
            layout,
        )
        .expect("a cache")
    }

    /// Size, objects and pages of a slab in `slabinfo` of Linux 2.6.3x, for `size-N` and
    /// `skbuff_head_cache`.
    #[test]
    fn slabs_hold_as_many_objects_as_the_kernels() {
        for (size, objects, frames) in [
            (32, 112, 1),
            (64, 59, 1),
            (128, 30, 1),
            (192, 20, 1),
            (256, 15, 1),
            (512, 8, 1),
            (1024, 4, 1),
            (2048, 2, 1),
            (4096, 1, 1),
            (8192, 1, 2),
            (16 << 10, 1, 4),
            (128 << 10, 1, 32),
            (4 << 20, 1, 1024),
        ] {
            let cache = cache(size, size.min(64));
            let found = (cache.objects(), cache.order().frames());
            assert_eq!(found, (objects, frames), "{size} bytes");
        }
    }

    #[test]
    fn indices_find_room_in_front_of_the_objects() {
        for stride in (16..2048).step_by(16) {
            for align in [16, 64, 512].into_iter().filter(|align| stride % align == 0) {
                let cache = cache(stride, align);
                let indices = cache.objects() as usize * INDEX_BYTES;
                let is_off = is_off_slab(stride);
                assert!(is_off || indices <= cache.first_object(), "{stride} bytes");
                assert!(!is_off || cache.objects() <= 15, "{stride} bytes: numbers of 4 bits");
                assert!(cache.order() <= BREAK_ORDER, "{stride} bytes");
                let objects = estimate(cache.order().bytes(), stride, align);
                assert_eq!(cache.objects() as usize, objects, "{stride} bytes");
            }
        }
    }
}
