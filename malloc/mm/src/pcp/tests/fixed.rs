//! A policy for tests: lists of single pages only, with a batch and a `high` that the test chooses.

use super::*;

/// The policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed {
    /// Pages exchanged with the zone at a time.
    pub(super) batch: u32,
    /// Pages at which a free gives a batch back.
    pub(super) high: u32,
}

impl PagePolicy for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn orders(&self) -> &'static [u8] {
        &[0, 0, 0]
    }

    fn walk(&self) -> DrainWalk {
        DrainWalk::GrowingBatches { first: 1 }
    }

    fn list(&self, order: Order, migratetype: MigrateType) -> Option<usize> {
        (order == Order::ZERO).then(|| migratetype.index())
    }

    fn sizes(&self, _inputs: SizeInputs) -> Sizes {
        Sizes::fixed(self.batch, self.high)
    }

    fn refill(&self, _tuning: &mut Tuning, context: PolicyContext<'_>, _order: Order) -> u32 {
        context.sizes.batch
    }

    fn after_free(&self, tuning: &mut Tuning, context: PolicyContext<'_>, _order: Order) -> u32 {
        if tuning.count >= context.sizes.high_max { context.sizes.batch } else { 0 }
    }
}
