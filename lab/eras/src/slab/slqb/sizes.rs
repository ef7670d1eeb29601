//! The order of slabs, and how many objects lists hold: formulas of `mm/slqb.c`, January 2009.

use quarry_mm::frame::{FRAME_BYTES, Order};

/// The highest order that is used to leave less of a slab unused.
const THRIFTY_ORDER: Order = Order::new(1);
/// With such an order, at most this share of a slab stays unused: 1/4.
const THRIFTY_FRACTION: usize = 4;

/// The number of objects that travel together between CPU lists and slabs (`freebatch`): 256, or
/// the objects of 64 pages if these are fewer; but at least the objects of 4 pages, and at least 1.
pub(super) fn freebatch(stride: usize) -> u32 {
    let most = (64 * FRAME_BYTES / stride).min(256);
    (4 * FRAME_BYTES / stride).max(most).max(1) as u32
}

pub(super) fn hiwater(stride: usize) -> u32 {
    4 * freebatch(stride)
}

/// The order of slabs of objects `stride` bytes apart: 0 or 1 if at most a quarter stays unused,
/// else the smallest order that holds an object.
pub(super) fn slab_order(stride: usize) -> Order {
    let smallest = Order::covering(stride.div_ceil(FRAME_BYTES) as u32);
    let is_thrifty = |order: &Order| order.bytes() % stride * THRIFTY_FRACTION <= order.bytes();
    (smallest.get()..=THRIFTY_ORDER.get()).map(Order::new).find(is_thrifty).unwrap_or(smallest)
}

/// Maximum number of objects in a slab. Objects have at least 16 bytes, and slabs of an order above
/// 0 have only objects of more than 1 KiB.
pub(super) const MAX_OBJECTS: u32 = (FRAME_BYTES / 16) as u32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_the_kernels() {
        let sizes = [16, 64, 256, 1024, 2048, 4096, 32 << 10, 256 << 10, 512 << 10];
        assert_eq!(sizes.map(freebatch), [1024, 256, 256, 256, 128, 64, 8, 1, 1]);
        assert_eq!(sizes.map(hiwater), [4096, 1024, 1024, 1024, 512, 256, 32, 4, 4]);
    }

    /// Document 003: "SLQB slab order mostly is 0".
    #[test]
    fn orders_are_mostly_0() {
        let orders = [(256, 0), (1024, 0), (1400, 1), (2048, 0), (3000, 0), (3072, 0), (4096, 0)];
        let larger = [(4097, 1), (5000, 1), (8192, 1), (8193, 2), (20_000, 3), (100_000, 5)];
        for (stride, order) in orders.into_iter().chain(larger) {
            assert_eq!(slab_order(stride).get(), order, "{stride} bytes");
        }
        assert_eq!(slab_order(Order::MAX.bytes()), Order::MAX);
    }

    #[test]
    fn every_slab_holds_an_object_and_not_too_many() {
        for stride in (16..=70_000).step_by(16) {
            let objects = slab_order(stride).bytes() / stride;
            assert!((1..=MAX_OBJECTS as usize).contains(&objects), "{objects} of {stride} bytes");
        }
    }
}
