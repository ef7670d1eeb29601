//! The decisions of a policy of the per-CPU lists.

use super::lists::Tuning;
use crate::frame::{MigrateType, Order, PCP_TYPES};
use crate::zone::{Marks, Zone};

/// Highest order that counts as small (`PAGE_ALLOC_COSTLY_ORDER`).
pub const COSTLY_ORDER: u8 = 3;

/// `CONFIG_PCP_BATCH_SCALE_MAX`: no refill is larger than `batch << 5` pages (Linux 6.7).
pub(super) const BATCH_SCALE_MAX: u8 = 5;

/// The inputs to the sizes of the lists.
#[derive(Clone, Copy, Debug)]
pub struct SizeInputs {
    /// Frames of the zone.
    pub managed: u32,
    /// The zone's low watermark, in frames.
    pub low: u32,
    /// CPUs that share the zone, at least 1.
    pub cpus: u32,
    /// True if `managed` is the fixed memory of a declared machine; otherwise zones may grow.
    pub declared: bool,
    /// Bytes of a CPU's share of the last-level data cache.
    pub cache_slice_bytes: u32,
}

/// A CPU's share of the last-level cache by default: 2 MiB, as on servers.
pub const CACHE_SLICE_BYTES: u32 = 2 << 20;

/// A zone that grows gets the list sizes for this many frames: 1 GiB, the smallest zone with the
/// full batch. The zone's first size says nothing about the program.
const GROWING_ZONE: u32 = 1 << 18;

impl SizeInputs {
    /// The inputs for one of `nodes` zones with `managed` frames each at the start.
    pub fn of(managed: u32, grows: bool, nodes: u8, declared_cpus: u32) -> Self {
        let managed = if grows { managed.max(GROWING_ZONE) } else { managed };
        Self {
            managed,
            low: Marks::of(managed, managed.saturating_mul(u32::from(nodes))).low,
            cpus: (declared_cpus / u32::from(nodes)).max(1),
            declared: false,
            cache_slice_bytes: CACHE_SLICE_BYTES,
        }
    }
}

/// Bounds of the lists, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Pages that a list exchanges with the zone at a time.
    pub batch: u32,
    /// The lower bound of `high`.
    pub high_min: u32,
    /// The upper bound of `high`.
    pub high_max: u32,
    /// The fewest listed pages at which a row of frees of orders 1..=3 sends all pages to the zone:
    /// a batch, or 0 if the CPU's data cache is small (`PCPF_FREE_HIGH_BATCH`, Linux 6.7).
    pub kept: u32,
}

impl Sizes {
    /// Lists with a fixed `high`.
    pub fn fixed(batch: u32, high: u32) -> Self {
        Self { batch, high_min: high, high_max: high, kept: 0 }
    }
}

/// The facts on which a policy may decide.
#[derive(Clone, Copy)]
pub struct PolicyContext<'a> {
    /// The bounds of the lists.
    pub sizes: Sizes,
    /// Their zone.
    pub zone: &'a Zone,
}

/// The order in which a drain visits the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainWalk {
    /// From list `first` on, each list gives one block, plus one for each empty list just before
    /// it. If only one list has blocks, it gives all (`free_pcppages_bulk`, Linux 2.6.32 to 5.17).
    GrowingBatches {
        /// The first list. (The kernel increments its list number, from 0, before it uses it.)
        first: usize,
    },
    /// All blocks of the list of the last free, then all blocks of the next list (Linux 5.18+).
    WholeLists,
}

/// A policy decides which blocks are listed, and how many are fetched or drained at a time, as the
/// kernel of its name does. All policies allocate from and free to a list's head. Refills append at
/// its tail, and drains take from its tail.
pub trait PagePolicy: Copy + Send + Sync + 'static {
    /// Its name, as tables print it.
    fn name(&self) -> &'static str;

    /// The order of each list.
    fn orders(&self) -> &'static [u8];

    /// The order in which drains visit the lists.
    fn walk(&self) -> DrainWalk;

    /// True if every request is tested against the zone's watermarks first; false if only requests
    /// that the lists cannot serve are (`get_page_from_freelist`).
    #[inline]
    fn tests_every_request(&self) -> bool {
        true
    }

    /// The list for blocks of `order` and `migratetype`; `None` if the zone serves them.
    fn list(&self, order: Order, migratetype: MigrateType) -> Option<usize>;

    /// The bounds for a zone.
    fn sizes(&self, inputs: SizeInputs) -> Sizes;

    /// Notes a request for a block.
    #[inline]
    fn before_alloc(&self, _tuning: &mut Tuning) {}

    /// Blocks to fetch for an empty list of `order`, at least 1.
    fn refill(&self, tuning: &mut Tuning, context: PolicyContext<'_>, order: Order) -> u32;

    /// Notes a free after `count` includes its block; returns the number of pages to drain now.
    fn after_free(&self, tuning: &mut Tuning, context: PolicyContext<'_>, order: Order) -> u32;

    /// Maximum number of pages to drain in one critical section of the zone.
    fn drain_chunk(&self, _sizes: Sizes) -> u32 {
        u32::MAX
    }

    /// Lowers `high` after a while without use; returns the number of pages to drain.
    fn decay(&self, _tuning: &mut Tuning, _sizes: Sizes) -> u32 {
        0
    }
}

/// Blocks of a refill of `batch` pages: `batch >> order`, at least 2 if `batch > 1` (Linux 5.14+).
#[inline]
pub fn scaled_to(order: Order, batch: u32) -> u32 {
    if batch > 1 { (batch >> order.get()).max(2) } else { batch }
}

/// The list for a block of orders 0..=3: one for each order and migratetype (Linux 5.14+).
#[inline]
pub fn low_list(order: Order, migratetype: MigrateType) -> usize {
    PCP_TYPES * order.index() + migratetype.index()
}

/// Number of lists for orders 0..=3 if each migratetype has its own.
pub const LOW_LISTS: usize = PCP_TYPES * (COSTLY_ORDER as usize + 1);

/// The `2^n - 1` nearest to `pages`. If batches were powers of two, two tasks that exchange them in
/// turn might always get pages of the same cache colours (`zone_batchsize`).
const fn batch_from(pages: u32) -> u32 {
    if pages <= 1 {
        return 1;
    }
    let raised = pages + pages / 2;
    (1 << raised.ilog2()) - 1
}

/// `batch` of kernels up to 4.19: a quarter of the smaller of 512 KiB and 1/1,024 of the zone.
pub const fn batch_before_4_20(managed: u32) -> u32 {
    let share = managed / 1024;
    batch_from((if share < 128 { share } else { 128 }) / 4)
}

/// `batch` of current kernels: 1/4,096 of the zone, at most 256 KiB (Linux 6.x).
pub const fn batch_since_4_20(managed: u32) -> u32 {
    let share = managed >> 12;
    batch_from(if share < 64 { share } else { 64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u32 = 1 << 18;

    #[test]
    fn batches_are_those_of_the_kernel() {
        assert_eq!(batch_since_4_20(GIB / 16), 3);
        assert_eq!(batch_since_4_20(GIB / 4), 15);
        assert_eq!(batch_since_4_20(GIB), 63);
        assert_eq!(batch_since_4_20(64 * GIB), 63);
        assert_eq!(batch_since_4_20(1024), 1);
        assert_eq!(batch_before_4_20(GIB), 31);
        assert_eq!(batch_before_4_20(GIB / 64), 1);
    }
}
