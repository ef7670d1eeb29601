//! SLUB of Linux 4.9, the kernel of document 000.

use super::{Era, V3_0};
use crate::slab::slub::order;
use crate::slab::slub::page_word::PageWord;
use quarry_mm::frame::Order;

/// Linux 4.9: CPUs keep partly free slabs (since 3.2), so nodes need fewer.
pub enum V4_9 {}

impl Era for V4_9 {
    const NAME: &'static str = "slub-4.9";
    type Word = PageWord;
    /// `KMALLOC_MAX_CACHE_SIZE` (include/linux/slab.h, Linux 4.9).
    const LARGEST_KMALLOC: usize = V3_0::LARGEST_KMALLOC;
    const CPU_PARTIAL: bool = true;

    fn slab_order(stride: usize, cpus: u32) -> Order {
        V3_0::slab_order(stride, cpus)
    }

    fn min_partial(stride: usize) -> u32 {
        order::min_partial(stride.ilog2() / 2)
    }

    fn keeps_empty(on_list: u32, min_partial: u32) -> bool {
        on_list < min_partial
    }
}
