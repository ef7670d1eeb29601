//! The order of slabs, and the lengths of partial lists: formulas of Linux 3.0 to 6.17.
//!
//! The order follows from the number of *declared* CPUs: more CPUs want more objects per slab, so
//! that the list lock is taken less often. That is why document 003 could measure slabs of order 1
//! on 16 CPUs, and why the same cache has slabs of order 0 on 4.

use crate::frame::Order;

/// Orders up to this are used for as many objects as wanted (`slub_max_order`, Linux 2.6.23).
const MAX_ORDER: Order = Order::new(3);
/// Shares of a slab that may be left over, tried one after the other: 1/16, 1/8, 1/4.
const FRACTIONS: [usize; 3] = [16, 8, 4];

/// Number of the highest bit set, counted from 1; 0 for 0 (the kernel's `fls`).
fn bits(number: u32) -> u32 {
    u32::BITS - number.leading_zeros()
}

/// Objects that a slab should hold at least, on a machine of `cpus` CPUs.
fn wanted_objects(cpus: u32) -> usize {
    4 * (bits(cpus) as usize + 1)
}

/// The smallest order up to `max` that holds `objects` objects and leaves over at most one
/// `fraction`th.
fn smallest(stride: usize, objects: usize, max: Order, fraction: usize) -> Option<Order> {
    (0..=max.get()).map(Order::new).find(|order| {
        let bytes = order.bytes();
        bytes >= objects * stride && bytes % stride * fraction <= bytes
    })
}

/// The order of slabs of objects `stride` bytes apart, on a machine of `cpus` CPUs. O(1): at most
/// 148 objects are ever wanted.
#[must_use]
pub(super) fn slab_order(stride: usize, cpus: u32) -> Order {
    let wanted = wanted_objects(cpus).min(MAX_ORDER.bytes() / stride);
    (2..=wanted)
        .rev()
        .flat_map(|objects| FRACTIONS.map(|fraction| (objects, fraction)))
        .find_map(|(objects, fraction)| smallest(stride, objects, MAX_ORDER, fraction))
        .or_else(|| smallest(stride, 1, MAX_ORDER, 1))
        .or_else(|| smallest(stride, 1, Order::MAX, 1))
        .unwrap_or(Order::MAX)
}

/// Slabs that a node's partial list keeps even if they are empty (`min_partial`, Linux 3.x).
#[must_use]
pub(super) fn min_partial(stride: usize) -> u32 {
    (stride.ilog2() / 2).clamp(5, 10)
}

/// Free objects that a CPU's partial list holds before it is drained (`cpu_partial`, Linux 3.2 to
/// 5.15; later kernels say it in slabs).
#[must_use]
pub(super) fn cpu_partial(stride: usize) -> u32 {
    match stride {
        4096.. => 2,
        1024.. => 6,
        256.. => 13,
        _ => 30,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 7] = [64, 192, 256, 512, 1024, 2048, 4096];

    /// Orders that kernels of 3.x to 6.17 print in `slabinfo` on machines of these many CPUs.
    const ORDERS: [(&[u32], [u8; 7]); 4] = [
        (&[4], [0, 0, 0, 1, 2, 3, 3]),
        (&[8], [0, 0, 1, 2, 3, 3, 3]),
        (&[16, 32, 64], [0, 1, 1, 2, 3, 3, 3]),
        (&[128], [0, 1, 2, 3, 3, 3, 3]),
    ];

    #[test]
    fn orders_are_the_kernels() {
        for (cpus, orders) in ORDERS {
            for &cpus in cpus {
                let ours = SIZES.map(|size| slab_order(size, cpus).get());
                assert_eq!(ours, orders, "{cpus} CPUs, sizes {SIZES:?}");
            }
        }
    }

    /// Document 003: `skbuff_head_cache` (256 bytes) on 16 CPUs, "every slab consists of 2 pages".
    #[test]
    fn the_head_of_a_packet_needs_two_pages_from_8_to_127_cpus() {
        for cpus in 8..=127 {
            assert_eq!(slab_order(256, cpus), Order::new(1), "{cpus} CPUs");
        }
        assert_eq!(slab_order(256, 4), Order::ZERO);
    }

    #[test]
    fn every_stride_fits_into_its_slab() {
        for cpus in [1, 2, 4, 8, 16, 64, 128, 4096] {
            for stride in (16..=70_000).step_by(16) {
                let order = slab_order(stride, cpus);
                assert!(order.bytes() >= stride, "{stride} bytes in order {}", order.get());
                let smaller = order.get().checked_sub(1).map(Order::new);
                let above = order > MAX_ORDER;
                assert!(!above || smaller.is_some_and(|smaller| smaller.bytes() < stride));
            }
        }
        assert_eq!(slab_order(Order::MAX.bytes(), 16), Order::MAX);
    }

    #[test]
    fn what_is_kept_follows_the_size() {
        assert_eq!([16, 512, 1024, 4096, 32 << 10].map(min_partial), [5, 5, 5, 6, 7]);
        assert_eq!(min_partial(4 << 20), 10);
        assert_eq!(
            [16, 255, 256, 1023, 1024, 4095, 4096].map(cpu_partial),
            [30, 30, 13, 13, 6, 6, 2]
        );
    }
}
