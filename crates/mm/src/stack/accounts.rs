//! Fills in the figures of the budget.

use super::budget_stats::{BudgetStats, DirectNs, bytes};
use super::cached_pages::CachedPages;
use super::instance::{Stack, StackConfig};
use super::stats::MemoryHeld;
use crate::frame::MetadataKind;
use crate::zone::Marks;

impl<C: StackConfig> Stack<C> {
    /// The figures of the budget. O(caches * slots + descriptors of pages).
    #[must_use]
    pub fn budget_stats(&self) -> BudgetStats {
        let stats = self.stats();
        self.budget_stats_of(&stats.memory, |kind| stats.metadata_bytes(kind))
    }

    pub(super) fn budget_stats_of(
        &self,
        memory: &MemoryHeld,
        metadata: impl Fn(MetadataKind) -> usize,
    ) -> BudgetStats {
        let (budget, took) = (self.pages().zones().budget(), &self.deferral.took);
        let Marks { min, low, high } = budget.marks();
        let limit =
            if budget.limit() == u32::MAX { usize::MAX } else { bytes(budget.limit().into()) };
        let used = bytes(budget.used().into());
        let held = memory.parked + memory.empty_slabs + memory.mappings_cached;
        let around = memory.objects + memory.free_in_slabs + memory.around_objects;
        let mut figures = BudgetStats {
            limit,
            min: bytes(min.into()),
            low: bytes(low.into()),
            high: bytes(high.into()),
            used,
            free: limit.saturating_sub(used),
            slab_reclaimable: held,
            slab_unreclaimable: around,
            metadata: MetadataKind::ALL.iter().map(|kind| metadata(*kind)).sum(),
            direct_reclaims: took.count(),
            free_dirty: memory.free_dirty,
            direct_ns: DirectNs {
                median: took.within(500),
                p999: took.within(999),
                longest: took.within(1000),
            },
            ..BudgetStats::default()
        };
        C::Cache::fill_stats(self, &mut figures);
        figures.available = figures.estimate();
        figures
    }
}
