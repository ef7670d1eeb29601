//! The order of slabs, and the lengths of partial lists.
//!
//! The order grows with the number of *declared* CPUs: if slabs have more objects, CPUs take the
//! list lock less often. So a cache can have slabs of order 1 on 16 CPUs (document 003), and of
//! order 0 on 4.

use quarry_mm::frame::Order;

/// The highest order used to get the wanted number of objects (`slub_max_order`, Linux 2.6.23).
const MAX_ORDER: Order = Order::new(3);
/// Shares of a slab that may stay unused, tried in this order: 1/16, 1/8, 1/4.
const FRACTIONS: [usize; 3] = [16, 8, 4];

/// Number of the highest bit set, counted from 1; 0 for 0 (the kernel's `fls`).
fn bits(number: u32) -> u32 {
    u32::BITS - number.leading_zeros()
}

/// The least number of objects that a slab should hold on a machine of `cpus` CPUs.
fn wanted_objects(cpus: u32) -> usize {
    4 * (bits(cpus) as usize + 1)
}

/// The smallest order up to `max` whose slabs hold `objects` objects and leave at most one
/// `fraction`th of their bytes unused.
fn smallest(stride: usize, objects: usize, max: Order, fraction: usize) -> Option<Order> {
    (0..=max.get()).map(Order::new).find(|order| {
        let bytes = order.bytes();
        bytes >= objects * stride && bytes % stride * fraction <= bytes
    })
}

/// The next number of objects to try if no slab up to order 3 holds the wanted number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fewer {
    /// Half of them (Linux 2.6.26 to 2.6.29).
    Half,
    /// One object fewer, starting from the number that fits into order 3 (Linux 2.6.30 to 6.6).
    One,
}

impl Fewer {
    fn first(self, cpus: u32, stride: usize) -> usize {
        match self {
            Self::Half => wanted_objects(cpus),
            Self::One => wanted_objects(cpus).min(MAX_ORDER.bytes() / stride),
        }
    }

    fn next(self, objects: usize) -> usize {
        match self {
            Self::Half => objects / 2,
            Self::One => objects.saturating_sub(1),
        }
    }
}

/// The order of slabs of objects `stride` bytes apart, on a machine of `cpus` CPUs. O(1), because
/// `wanted_objects` is at most 132.
pub(super) fn slab_order(stride: usize, cpus: u32, fewer: Fewer) -> Order {
    let first = fewer.first(cpus, stride);
    core::iter::successors(Some(first), |objects| Some(fewer.next(*objects)))
        .take_while(|objects| *objects > 1)
        .flat_map(|objects| FRACTIONS.map(|fraction| (objects, fraction)))
        .find_map(|(objects, fraction)| smallest(stride, objects, MAX_ORDER, fraction))
        .or_else(|| smallest(stride, 1, MAX_ORDER, 1))
        .or_else(|| smallest(stride, 1, Order::MAX, 1))
        .unwrap_or(Order::MAX)
}

/// The bound for `Era::keeps_empty`: `wanted`, but at least 5 (`MIN_PARTIAL`) and at most 10
/// (`MAX_PARTIAL`, Linux 2.6.28 to 6.17).
pub(super) fn min_partial(wanted: u32) -> u32 {
    wanted.clamp(5, 10)
}

/// A CPU's partial list with more free objects than this is drained (`cpu_partial`, Linux 3.2 to
/// 5.15; later kernels count slabs).
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

    const FEWER: [Fewer; 2] = [Fewer::Half, Fewer::One];
    const SIZES: [usize; 7] = [64, 192, 256, 512, 1024, 2048, 4096];

    /// Orders that `slabinfo` shows on Linux 2.6.29 to 6.6, by number of CPUs.
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
                let ours = |fewer| SIZES.map(|size| slab_order(size, cpus, fewer).get());
                assert_eq!(ours(Fewer::One), orders, "{cpus} CPUs, sizes {SIZES:?}");
                if cpus < 128 {
                    assert_eq!(ours(Fewer::Half), orders, "{cpus} CPUs, sizes {SIZES:?}");
                }
            }
        }
    }

    /// Document 003: `skbuff_head_cache` (256 bytes) on 16 CPUs, "every slab consists of 2 pages".
    #[test]
    fn the_head_of_a_packet_needs_two_pages_from_8_to_127_cpus() {
        for fewer in FEWER {
            for cpus in 8..=127 {
                assert_eq!(slab_order(256, cpus, fewer), Order::new(1), "{cpus} CPUs");
            }
            assert_eq!(slab_order(256, 4, fewer), Order::ZERO);
        }
    }

    /// On 8 CPUs, kernels up to 2.6.29 try slabs of 20, 10, 5, 2 objects of 8 KiB; kernels from
    /// 2.6.30 on try 4. Below 128 CPUs, both choose the same slabs for objects of up to 4 KiB.
    #[test]
    fn large_objects_have_smaller_slabs_up_to_2_6_29() {
        assert_eq!(slab_order(8192, 8, Fewer::Half), Order::new(2));
        assert_eq!(slab_order(8192, 8, Fewer::One), Order::new(3));
        let part = |size: &usize| {
            [4, 8, 16, 127].iter().any(|&cpus| {
                slab_order(*size, cpus, Fewer::Half) != slab_order(*size, cpus, Fewer::One)
            })
        };
        let smallest = (16..8192).step_by(16).find(part);
        assert_eq!(smallest, Some(6560));
        assert_eq!(slab_order(4096, 128, Fewer::Half), Order::new(2));
    }

    #[test]
    fn every_stride_fits_into_its_slab() {
        for cpus in [1, 2, 4, 8, 16, 64, 128, 4096] {
            for stride in (16..=70_000).step_by(16) {
                let order = slab_order(stride, cpus, Fewer::One);
                assert!(slab_order(stride, cpus, Fewer::Half).bytes() >= stride);
                assert!(order.bytes() >= stride, "{stride} bytes in order {}", order.get());
                let smaller = order.get().checked_sub(1).map(Order::new);
                let above = order > MAX_ORDER;
                assert!(!above || smaller.is_some_and(|smaller| smaller.bytes() < stride));
            }
        }
        assert_eq!(FEWER.map(|fewer| slab_order(Order::MAX.bytes(), 16, fewer)), [Order::MAX; 2]);
    }

    #[test]
    fn what_is_kept_follows_the_size() {
        assert_eq!([4, 5, 9, 10, 12].map(min_partial), [5, 5, 9, 10, 10]);
        assert_eq!(
            [16, 255, 256, 1023, 1024, 4095, 4096].map(cpu_partial),
            [30, 30, 13, 13, 6, 6, 2]
        );
    }
}
