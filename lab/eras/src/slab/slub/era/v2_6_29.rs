//! SLUB of Linux 2.6.29, which document 003 ran on.

use super::Era;
use crate::slab::slub::lock_word::LockWord;
use crate::slab::slub::order::{self, Fewer};
use quarry_mm::frame::{FRAME_BYTES, Order};

/// Linux 2.6.29: a lock bit per slab; a slab whose last object is freed goes back at once.
///
/// Its fast path works on the CPU's own list with interrupts turned off, where a program has the
/// same restartable sequence as in all versions.
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

    /// Only for a slab that a CPU lets go of (`unfreeze_slab`); one that a free empties never
    /// stays.
    fn keeps_empty(on_list: u32, min_partial: u32) -> bool {
        on_list < min_partial
    }
}
