//! SLUB of Linux 3.0, with which document 002 begins.

use super::{Era, V2_6_29};
use crate::slab::slub::lock_word::LockWord;
use crate::slab::slub::order::{self, Fewer};
use quarry_mm::frame::{FRAME_BYTES, Order};

/// Linux 3.0: slabs as in 2.6.29; caches also serve larger requests.
///
/// The kernel's fast path is a compare-and-swap of two words without a lock prefix (2.6.39); here
/// it is a restartable sequence, as for all versions.
pub enum V3_0 {}

impl Era for V3_0 {
    const NAME: &'static str = "slub-3.0";
    type Word = LockWord;
    /// `SLUB_MAX_SIZE` (include/linux/slub_def.h, Linux 2.6.30).
    const LARGEST_KMALLOC: usize = 2 * FRAME_BYTES;

    fn slab_order(stride: usize, cpus: u32) -> Order {
        order::slab_order(stride, cpus, Fewer::One)
    }

    fn min_partial(stride: usize) -> u32 {
        V2_6_29::min_partial(stride)
    }

    fn keeps_empty(on_list: u32, min_partial: u32) -> bool {
        V2_6_29::keeps_empty(on_list, min_partial)
    }
}
