//! SLUB of Linux 2.6.29, the kernel of document 003.

use super::Era;
use crate::slab::slub::lock_word::LockWord;
use crate::slab::slub::order::{self, Fewer};
use quarry_mm::frame::{FRAME_BYTES, Order};

/// Linux 2.6.29: a lock bit per slab; a slab whose last object is freed goes back at once.
///
/// The kernel's fast path turns interrupts off to change the CPU's list; here it is a restartable
/// sequence, as for all versions.
pub enum V2_6_29 {}

impl Era for V2_6_29 {
    const NAME: &'static str = "slub-2.6.29";
    type Word = LockWord;
    /// `PAGE_SIZE` (`kmalloc`, include/linux/slub_def.h, Linux 2.6.29).
    const LARGEST_KMALLOC: usize = FRAME_BYTES;

    fn slab_order(stride: usize, cpus: u32) -> Order {
        order::slab_order(stride, cpus, Fewer::Half)
    }

    fn min_partial(stride: usize) -> u32 {
        order::min_partial(stride.ilog2())
    }

    /// Applies only to an empty slab that a CPU lets go (`unfreeze_slab`). A slab that a free
    /// empties always goes back to the page allocator.
    fn keeps_empty(on_list: u32, min_partial: u32) -> bool {
        on_list < min_partial
    }
}
