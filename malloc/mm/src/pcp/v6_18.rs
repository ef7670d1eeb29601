//! `v6.18`: the auto-tuned lists of Linux 6.18 with stable patches of January 2026; the default.
//!
//! Changes since Linux 6.7: order 9 has one list for movable blocks and one for others (6.10).
//! Frees of orders 1..=3 send all pages to the zone after a row of `batch + high_min / 2`, not
//! `batch` (6.16). Drains unlock lists and zone after each batch (6.19, and 6.18 by a patch).
//!
//! Two rules differ in user space. The kernel bounds the lists by an eighth of the zone. A process
//! has no fixed memory; so unless memory is declared, a CPU keeps at most 2,048 pages (8 MiB). And
//! listed pages already belong to the process, so only requests that the lists cannot serve are
//! tested against watermarks.
//!
//! Lists have tuned themselves since Linux 6.7. In a row of allocations each refill is twice as
//! large as the last (63, 126, .. 2,016 pages of order 0), and frees in a row make the next drain
//! as large as the row. `high` rises while that saves calls to the zone, and decays when the CPU is
//! idle. [`Release`] has the differences between releases.

use super::lists::Tuning;
use super::policy::{
    BATCH_SCALE_MAX, COSTLY_ORDER, DrainWalk, LOW_LISTS, PagePolicy, PolicyContext, SizeInputs,
    Sizes, batch_since_4_20, low_list, scaled_to,
};
use crate::frame::{FRAME_BYTES, MigrateType, Order, PAGEBLOCK_ORDER, PCP_TYPES};

const HIGH_MOST: u32 = 2048;

/// `MIN_PERCPU_PAGELIST_HIGH_FRACTION`: `high_max` is an eighth of the zone, divided by its CPUs.
const HIGH_FRACTION: u32 = 8;

/// The policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct V6_18;

impl Release for V6_18 {
    const NAME: &'static str = "v6.18";
    const ORDERS: &'static [u8] =
        &[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, PAGEBLOCK_ORDER, PAGEBLOCK_ORDER];
    const RELEASES_BETWEEN_BATCHES: bool = true;
    const TESTS_EVERY_REQUEST: bool = false;

    #[inline]
    fn huge_list(migratetype: MigrateType) -> usize {
        usize::from(migratetype == MigrateType::Movable)
    }

    #[inline]
    fn row(sizes: Sizes) -> u32 {
        sizes.batch + sizes.high_min / 2
    }

    fn bound(inputs: &SizeInputs) -> u32 {
        if inputs.declared { u32::MAX } else { HIGH_MOST }
    }
}

/// The choices of a release since Linux 6.7.
pub trait Release: Copy + Send + Sync + 'static {
    /// See [`PagePolicy::name`].
    const NAME: &'static str;
    /// The order of each list: the lists of orders 0..=3 come first, then order 9, then orders
    /// 4..=8 if there are any.
    const ORDERS: &'static [u8];
    /// True if drains release the lists and the zone after each batch.
    const RELEASES_BETWEEN_BATCHES: bool;
    /// See [`PagePolicy::tests_every_request`].
    const TESTS_EVERY_REQUEST: bool;

    /// The first list of orders 4..=8, three for each order; `None` in all releases of Linux.
    const MIDDLE_LISTS: Option<usize> = None;

    /// The list of order 9 for a migratetype.
    fn huge_list(migratetype: MigrateType) -> usize;

    /// Pages that must be freed in a row before a free of orders 1..=3 sends all pages to the zone.
    fn row(sizes: Sizes) -> u32;

    /// Maximum number of pages that a CPU keeps if its zone has these inputs.
    fn bound(inputs: &SizeInputs) -> u32;
}

#[inline]
fn clamped_high(tuning: &mut Tuning, sizes: Sizes) -> u32 {
    tuning.high = tuning.high.clamp(sizes.high_min, sizes.high_max);
    tuning.high
}

/// Returns whether enough blocks of orders 1..=3 were freed in a row to send all pages to the zone.
#[inline]
fn note_high_order<R: Release>(tuning: &mut Tuning, sizes: Sizes, order: Order) -> bool {
    if !(1..=COSTLY_ORDER).contains(&order.get()) {
        tuning.prev_free_high_order = false;
        return false;
    }
    let free_high = tuning.free_count >= R::row(sizes)
        && tuning.prev_free_high_order
        && tuning.count >= sizes.kept;
    tuning.prev_free_high_order = true;
    free_high
}

/// The number of pages at which frees drain, after tuning (`nr_pcp_high`).
#[inline]
fn high_mark(tuning: &mut Tuning, context: PolicyContext<'_>, free_high: bool) -> u32 {
    let Sizes { batch, high_min, high_max, .. } = context.sizes;
    let high = clamped_high(tuning, context.sizes);
    if high == 0 {
        return 0;
    }
    if free_high {
        tuning.high = high.saturating_sub(batch << BATCH_SCALE_MAX).max(high_min);
        return 0;
    }
    let burst = tuning.free_count.max(batch);
    if context.zone.is_reclaim_active() {
        tuning.high = high.saturating_sub(burst).max(high_min);
        return tuning.high.min(4 * batch);
    }
    if high_min == high_max {
        return high;
    }
    if context.zone.is_below_high() {
        tuning.high = high.saturating_sub(burst).max(high_min);
        return tuning.count.max(high_min);
    }
    if tuning.count >= high {
        let need = tuning.free_count + batch;
        if tuning.high < need {
            tuning.high = need.clamp(high_min, high_max);
        }
    }
    high
}

/// Number of pages to drain once `count` has reached `high` (`nr_pcp_free`).
fn drain_pages(tuning: &Tuning, batch: u32, high: u32, free_high: bool) -> u32 {
    if free_high {
        tuning.count.min(batch << BATCH_SCALE_MAX)
    } else if high < batch {
        1
    } else {
        tuning.free_count.max(batch).min((high - batch).max(1))
    }
}

impl<R: Release> PagePolicy for R {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn orders(&self) -> &'static [u8] {
        R::ORDERS
    }

    fn walk(&self) -> DrainWalk {
        DrainWalk::WholeLists
    }

    #[inline]
    fn tests_every_request(&self) -> bool {
        R::TESTS_EVERY_REQUEST
    }

    #[inline]
    fn list(&self, order: Order, migratetype: MigrateType) -> Option<usize> {
        match order.get() {
            0..=COSTLY_ORDER => Some(low_list(order, migratetype)),
            PAGEBLOCK_ORDER => Some(LOW_LISTS + R::huge_list(migratetype)),
            order if order < PAGEBLOCK_ORDER => {
                let above = usize::from(order - COSTLY_ORDER - 1);
                Some(R::MIDDLE_LISTS? + PCP_TYPES * above + migratetype.index())
            }
            _ => None,
        }
    }

    fn sizes(&self, inputs: SizeInputs) -> Sizes {
        let batch = batch_since_4_20(inputs.managed);
        let bound = R::bound(&inputs);
        let cache_pages = inputs.cache_slice_bytes / FRAME_BYTES as u32;
        let high = |total: u32| (total / inputs.cpus).max(4 * batch).min(bound);
        Sizes {
            batch,
            high_min: high(inputs.low),
            high_max: high(inputs.managed / HIGH_FRACTION),
            kept: if cache_pages > 3 * batch { batch } else { 0 },
        }
    }

    #[inline]
    fn before_alloc(&self, tuning: &mut Tuning) {
        tuning.free_count >>= 1;
    }

    fn refill(&self, tuning: &mut Tuning, context: PolicyContext<'_>, order: Order) -> u32 {
        let Sizes { batch: base, high_min, high_max, .. } = context.sizes;
        let mut high = clamped_high(tuning, context.sizes);
        if high < base {
            return 1;
        }
        let single = order == Order::ZERO;
        let mut batch = if single { base << tuning.alloc_factor } else { base };
        if high_min != high_max && !context.zone.is_below_high() {
            high = (high + batch).min(high_max);
            tuning.high = high;
        }
        if single {
            let most = high.saturating_sub(tuning.count).saturating_sub(base).max(base);
            if batch <= most && tuning.alloc_factor < BATCH_SCALE_MAX {
                tuning.alloc_factor += 1;
            }
            batch = batch.min(most);
        }
        scaled_to(order, batch)
    }

    #[inline]
    fn after_free(&self, tuning: &mut Tuning, context: PolicyContext<'_>, order: Order) -> u32 {
        let batch = context.sizes.batch;
        tuning.alloc_factor >>= 1;
        let free_high = note_high_order::<R>(tuning, context.sizes, order);
        if tuning.free_count < batch << BATCH_SCALE_MAX {
            tuning.free_count += order.frames();
        }
        let high = high_mark(tuning, context, free_high);
        if tuning.count < high {
            return 0;
        }
        drain_pages(tuning, batch, high, free_high)
    }

    fn drain_chunk(&self, sizes: Sizes) -> u32 {
        if R::RELEASES_BETWEEN_BATCHES { sizes.batch } else { u32::MAX }
    }

    fn decay(&self, tuning: &mut Tuning, sizes: Sizes) -> u32 {
        if tuning.high > sizes.high_min {
            tuning.high = tuning
                .count
                .saturating_sub(sizes.batch << BATCH_SCALE_MAX)
                .max(tuning.high - tuning.high / 8)
                .max(sizes.high_min);
        }
        tuning.count.saturating_sub(tuning.high)
    }
}
