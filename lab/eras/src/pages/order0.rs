//! `order0`: single pages only, one list per migratetype, fixed `batch` and `high`.
//!
//! The values are the kernel's up to 5.13: batch 31 and high 186 up to 4.18, then 63 and 378;
//! document 004 tried 310 and 1,860. Blocks of other orders go to the zone. A drain begins with the
//! second list, of movable pages, because the kernel increments its list index before it uses it.
//!
//! Up to Linux 2.6.31 one list held pages of all migratetypes (5f8dcc21211a, 2.6.32). For pages of
//! one type, such as those of slabs, three lists behave like that one.

use quarry_mm::frame::{MigrateType, Order};
use quarry_mm::pcp::{DrainWalk, PagePolicy, PolicyContext, SizeInputs, Sizes, Tuning};

/// The policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order0 {
    /// Pages exchanged with the zone at a time.
    pub batch: u32,
    /// With this many pages on the lists, a free gives a batch back.
    pub high: u32,
}

impl PagePolicy for Order0 {
    fn name(&self) -> &'static str {
        match (self.batch, self.high) {
            (31, 186) => "order0",
            (63, 378) => "order0-63",
            (310, 1860) => "order0-310",
            _ => "",
        }
    }

    fn orders(&self) -> &'static [u8] {
        &[0, 0, 0]
    }

    fn walk(&self) -> DrainWalk {
        DrainWalk::GrowingBatches { first: 1 }
    }

    #[inline]
    fn list(&self, order: Order, migratetype: MigrateType) -> Option<usize> {
        (order == Order::ZERO).then(|| migratetype.index())
    }

    fn sizes(&self, _inputs: SizeInputs) -> Sizes {
        Sizes::fixed(self.batch.max(1), self.high)
    }

    fn refill(&self, _tuning: &mut Tuning, context: PolicyContext<'_>, _order: Order) -> u32 {
        context.sizes.batch
    }

    #[inline]
    fn after_free(&self, tuning: &mut Tuning, context: PolicyContext<'_>, _order: Order) -> u32 {
        if tuning.count >= context.sizes.high_max { context.sizes.batch } else { 0 }
    }
}
