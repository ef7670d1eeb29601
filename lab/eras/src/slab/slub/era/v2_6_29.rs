//! SLUB of Linux 2.6.29, the kernel of document 003.

use super::Era;
use crate::slab::slub::lock_word::LockWord;
use crate::slab::slub::order::Fewer;
use quarry_mm::frame::FRAME_BYTES;

/// Linux 2.6.29: a lock bit per slab; a slab whose last object is freed goes back at once, so the
/// only empty slabs that a node keeps are those that CPUs let go (`unfreeze_slab`).
///
/// The kernel's fast path turns interrupts off to change the CPU's list; here it is a restartable
/// sequence, as for all versions.
pub enum V2_6_29 {}

impl Era for V2_6_29 {
    const NAME: &'static str = "slub-2.6.29";
    type Word = LockWord;
    /// `PAGE_SIZE` (`kmalloc`, include/linux/slub_def.h, Linux 2.6.29).
    const LARGEST_KMALLOC: usize = FRAME_BYTES;
    const FEWER: Fewer = Fewer::Half;
}
