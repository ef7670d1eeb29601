//! The differences between the versions of SLUB, one file each.

mod v2_6_29;
mod v3_0;
mod v3_1;
mod v4_9;
mod v7_0;

use super::order::{self, Fewer};
use super::state::SlabWord;
use quarry_mm::frame::FRAME_BYTES;

pub(super) use v2_6_29::V2_6_29;
pub(super) use v3_0::V3_0;
pub(super) use v3_1::V3_1;
pub(super) use v4_9::V4_9;
pub(super) use v7_0::V7_0;

/// The parts of SLUB in which versions differ; the defaults are those of Linux 3.0. A version is a
/// type without values.
pub trait Era: Send + Sync + 'static {
    /// The policy's name.
    const NAME: &'static str;

    /// The record of a slab, which decides the slow path: a word with a lock bit, or a word that
    /// changes by compare-and-swap.
    type Word: SlabWord + Sync;

    /// Bytes of the largest request that `kmalloc` serves from a cache: `SLUB_MAX_SIZE`
    /// (include/linux/slub_def.h, Linux 2.6.30), later `KMALLOC_MAX_CACHE_SIZE`
    /// (include/linux/slab.h, Linux 4.9).
    const LARGEST_KMALLOC: usize = 2 * FRAME_BYTES;

    /// False if CPUs have no slabs, because sheaves lie above; their cells are not lists then.
    const CPU_SLAB: bool = true;

    /// True if CPUs keep lists of partly free slabs (`CONFIG_SLUB_CPU_PARTIAL`).
    const CPU_PARTIAL: bool = false;

    /// How a smaller slab is chosen if no slab holds the wanted number of objects.
    const FEWER: Fewer = Fewer::One;

    /// The bound with which `keeps_empty` compares the number of slabs on a node's list.
    fn min_partial(stride: usize) -> u32 {
        order::min_partial(stride.ilog2())
    }

    /// Returns whether a node with `on_list` slabs on its list keeps one more that is empty.
    fn keeps_empty(on_list: u32, min_partial: u32) -> bool {
        on_list < min_partial
    }
}
