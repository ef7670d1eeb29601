//! What is in use, and what could be: the figures of the budget.
//!
//! Equations, as far as its parts can be read at one time: `limit = used + free` where `used` is
//! not beyond it; `used = file + slab_reclaimable + slab_unreclaimable + blocks + mappings +
//! page_lists`, where a cached mapping is reclaimable.

use super::balancing::BalanceStats;
use super::instance::{Stack, StackConfig};
use super::pressure::Pressure;
use super::stats::MemoryHeld;
use crate::frame::{FRAME_BYTES, MetadataKind};
use crate::page_cache::EventCounts;
use crate::zone::Marks;

/// The budget and what it is used for, in bytes. A snapshot; its parts are read one after the
/// other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetStats {
    /// The limit; `usize::MAX` where there is none.
    pub limit: usize,
    /// The marks below the limit; all 0 where there is none.
    pub min: usize,
    /// See `min`.
    pub low: usize,
    /// See `min`.
    pub high: usize,
    /// In use: outside of the free lists of the zones.
    pub used: usize,
    /// Between that and the limit.
    pub free: usize,
    /// What requests could have without anything being refused (`MemAvailable`): an estimate.
    pub available: usize,
    /// Pages of the cache.
    pub file: usize,
    /// Of these, dirty ones.
    pub dirty: usize,
    /// Of these, those that are being written.
    pub writeback: usize,
    /// Of these, those that no reclaim may take: somebody pins them, or their mapping is
    /// unevictable.
    pub pinned: usize,
    /// Objects, slabs and mappings that Quarry holds for later requests.
    pub slab_reclaimable: usize,
    /// What shrinkers said they could free when they were last asked.
    pub shrinkable: usize,
    /// Slabs of objects in use.
    pub slab_unreclaimable: usize,
    /// Quarry's own descriptors, beside the budget.
    pub metadata: usize,
    /// How short memory is.
    pub pressure: Pressure,
    /// What balances have done so far.
    pub balances: BalanceStats,
    /// Direct reclaims, each stage by itself.
    pub direct_reclaims: u64,
    /// Nanoseconds that half of them took at most, 99.9 % of them, and all of them.
    pub direct_ns: [u64; 3],
    /// Requests that were refused at the limit of a group.
    pub group_refusals: u64,
}

/// Bytes of frames.
fn bytes(frames: u64) -> usize {
    usize::try_from(frames).unwrap_or(usize::MAX).saturating_mul(FRAME_BYTES)
}

/// The part of what is reclaimable that is counted as available: one half, or what lies above the
/// low mark, stays with those who use it (`si_mem_available`, Linux 3.14).
fn beyond_half(amount: usize, low: usize) -> usize {
    amount - (amount / 2).min(low)
}

impl BudgetStats {
    /// `si_mem_available`, Linux 3.14 to 6.18, where pages that no reclaim may take do not count.
    fn estimate(&self) -> usize {
        let pages = beyond_half(self.file.saturating_sub(self.pinned), self.low);
        let reclaimable = self.slab_reclaimable.saturating_add(self.shrinkable);
        let beside = pages.saturating_add(beyond_half(reclaimable, self.low));
        self.free.saturating_sub(self.min).saturating_add(beside).min(self.limit)
    }
}

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
        let (budget, balancing) = (self.pages().zones().budget(), &self.balancing);
        let Marks { min, low, high } = budget.marks();
        let events = self.used_page_cache().map(|cache| cache.events());
        let count = |of: fn(&EventCounts) -> u64| bytes(events.as_ref().map_or(0, of));
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
            available: 0,
            file: count(EventCounts::pages),
            dirty: count(EventCounts::dirty),
            writeback: count(EventCounts::writeback),
            pinned: bytes(self.used_page_cache().map_or(0, |cache| cache.pinned_frames())),
            slab_reclaimable: held,
            shrinkable: balancing.shrinkers.reclaimable_bytes(),
            slab_unreclaimable: around,
            metadata: MetadataKind::ALL.iter().map(|kind| metadata(*kind)).sum(),
            pressure: balancing.pressure.level(),
            balances: balancing.counts.snapshot(),
            direct_reclaims: balancing.direct.count(),
            direct_ns: [500, 999, 1000].map(|part| balancing.direct.within(part)),
            group_refusals: balancing.groups.iter().map(|(_, group)| group.counts().0).sum(),
        };
        figures.available = figures.estimate();
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_the_kernels_estimate() {
        let figures = BudgetStats {
            limit: 1000,
            min: 20,
            low: 25,
            used: 900,
            free: 100,
            file: 300,
            pinned: 100,
            slab_reclaimable: 30,
            ..BudgetStats::default()
        };
        // 100 - 20 + (200 - 25) + (30 - 15)
        assert_eq!(figures.estimate(), 270);
        assert_eq!(BudgetStats { free: 0, ..figures }.estimate(), 190);
        let unlimited = BudgetStats { limit: usize::MAX, free: usize::MAX - 900, ..figures };
        assert!(unlimited.estimate() > usize::MAX / 2);
    }
}
