//! `v2016`: document 000, "High-order per-cpu page allocator v5".
//!
//! Three lists of single pages by migratetype, then one list per order 1..=3 for all migratetypes.
//! A refill takes `batch` *blocks*, to save operations under the lock; a drain gives back `batch`
//! *pages*, to bound the memory held. All lists share one count, in pages. The drain itself lowers
//! the count, because it takes whole blocks and so may take more than `batch` pages. From version 3
//! on a drain begins with list 0 (`pindex` starts as `UINT_MAX`), whichever list the free used.
//!
//! The document raises `high` so that a refill rarely makes the next free drain, but the archived
//! text lacks the hunk that does so. The first version of the series (21 November 2016) has `high =
//! 3 * batch + 8 * batch`; no list of changes up to version 6 names another value, and in version 5
//! the author refers to version 1's comment on `high`. So here `high` is 341 pages for a batch of
//! 31. `v2016-186` is Quarry's own: these lists with the `high` of Linux 4.9 (`pageset_set_batch`),
//! under which the next free after a refill of order 3 (248 pages) drains.

use quarry_mm::frame::{MigrateType, Order, PCP_TYPES};
use quarry_mm::pcp::{
    COSTLY_ORDER, DrainWalk, PagePolicy, PolicyContext, SizeInputs, Sizes, Tuning,
    batch_before_4_20,
};

/// The policy. Units: pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V2016 {
    /// True for the document's `high`; false for that of its baseline, Linux 4.9.
    pub raises_high: bool,
}

impl PagePolicy for V2016 {
    fn name(&self) -> &'static str {
        if self.raises_high { "v2016" } else { "v2016-186" }
    }

    fn orders(&self) -> &'static [u8] {
        &[0, 0, 0, 1, 2, 3]
    }

    fn walk(&self) -> DrainWalk {
        DrainWalk::GrowingBatches { first: 0 }
    }

    #[inline]
    fn list(&self, order: Order, migratetype: MigrateType) -> Option<usize> {
        match order.get() {
            0 => Some(migratetype.index()),
            high @ 1..=COSTLY_ORDER => Some(PCP_TYPES + usize::from(high) - 1),
            _ => None,
        }
    }

    fn sizes(&self, inputs: SizeInputs) -> Sizes {
        let batch = batch_before_4_20(inputs.managed);
        let high = match self.raises_high {
            true => batch * PCP_TYPES as u32 + (batch << COSTLY_ORDER),
            false => 6 * batch,
        };
        Sizes::fixed(batch, high)
    }

    fn refill(&self, _tuning: &mut Tuning, context: PolicyContext<'_>, _order: Order) -> u32 {
        context.sizes.batch
    }

    #[inline]
    fn after_free(&self, tuning: &mut Tuning, context: PolicyContext<'_>, _order: Order) -> u32 {
        if tuning.count >= context.sizes.high_max { context.sizes.batch } else { 0 }
    }
}
