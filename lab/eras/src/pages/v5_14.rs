//! `v5.14`: the lists of Linux 5.14, one for each migratetype of orders 0..=3 and 9, with a fixed
//! `high`. `v5.18` (to 6.6) has two changes: a freed block of orders 1..=3 that follows a drain
//! sends all listed pages to the zone (`free_high`), and drains take whole lists.
//!
//! `high` is each CPU's share of the low watermark, so full lists do not yet cause reclaim. Each
//! drain doubles the next one (it adds 1 to `free_factor`); each allocation halves `free_factor`.
//! Refills have a fixed size. During reclaim the lists keep four batches.

use quarry_mm::frame::{MigrateType, Order, PAGEBLOCK_ORDER};
use quarry_mm::pcp::{
    COSTLY_ORDER, DrainWalk, LOW_LISTS, PagePolicy, PolicyContext, SizeInputs, Sizes, Tuning,
    batch_since_4_20, low_list, scaled_to,
};

/// The policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V5_14 {
    /// True for `v5.18`, with the two changes of Linux 5.18.
    pub frees_high: bool,
}

/// Returns how many pages this drain takes (`nr_pcp_free`). The next drain may take twice as many.
#[inline]
fn drain_pages(tuning: &mut Tuning, batch: u32, high: u32) -> u32 {
    if high < batch {
        return 1;
    }
    let most = (high - batch).max(batch);
    let pages = batch << tuning.free_factor;
    if pages < most {
        tuning.free_factor += 1;
    }
    pages.clamp(batch, most)
}

impl PagePolicy for V5_14 {
    fn name(&self) -> &'static str {
        if self.frees_high { "v5.18" } else { "v5.14" }
    }

    fn orders(&self) -> &'static [u8] {
        &[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, PAGEBLOCK_ORDER, PAGEBLOCK_ORDER, PAGEBLOCK_ORDER]
    }

    fn walk(&self) -> DrainWalk {
        match self.frees_high {
            true => DrainWalk::WholeLists,
            false => DrainWalk::GrowingBatches { first: 1 },
        }
    }

    #[inline]
    fn list(&self, order: Order, migratetype: MigrateType) -> Option<usize> {
        match order.get() {
            0..=COSTLY_ORDER => Some(low_list(order, migratetype)),
            PAGEBLOCK_ORDER => Some(LOW_LISTS + migratetype.index()),
            _ => None,
        }
    }

    fn sizes(&self, inputs: SizeInputs) -> Sizes {
        let batch = batch_since_4_20(inputs.managed);
        Sizes::fixed(batch, (inputs.low / inputs.cpus).max(4 * batch))
    }

    #[inline]
    fn before_alloc(&self, tuning: &mut Tuning) {
        tuning.free_factor >>= 1;
    }

    fn refill(&self, _tuning: &mut Tuning, context: PolicyContext<'_>, order: Order) -> u32 {
        scaled_to(order, context.sizes.batch)
    }

    #[inline]
    fn after_free(&self, tuning: &mut Tuning, context: PolicyContext<'_>, order: Order) -> u32 {
        let Sizes { batch, high_max: high, .. } = context.sizes;
        let in_a_row = self.frees_high && tuning.free_factor > 0;
        if in_a_row && (1..=COSTLY_ORDER).contains(&order.get()) {
            return tuning.count;
        }
        let is_active = context.zone.is_reclaim_active();
        let high = if is_active { high.min(4 * batch) } else { high };
        if tuning.count >= high { drain_pages(tuning, batch, high) } else { 0 }
    }
}
