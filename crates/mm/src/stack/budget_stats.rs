//! The figures of a budget, as one value.
//!
//! Equations, as far as its parts can be read at one time: `limit = used + free` where `used` is
//! not beyond it; `used = file + slab_reclaimable + slab_unreclaimable + blocks + mappings +
//! page_lists`, where a cached mapping is reclaimable.

use crate::frame::FRAME_BYTES;

/// The budget and its uses, in bytes. A snapshot; its parts are read one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetStats {
    /// The limit; `usize::MAX` for no limit.
    pub limit: usize,
    /// The marks below the limit; all 0 without a limit.
    pub min: usize,
    /// See `min`.
    pub low: usize,
    /// See `min`.
    pub high: usize,
    /// In use: outside of the free lists of the zones.
    pub used: usize,
    /// Between `used` and the limit.
    pub free: usize,
    /// Bytes that requests could take without a refusal (`MemAvailable`): an estimate.
    pub available: usize,
    /// Pages of the cache.
    pub file: usize,
    /// Dirty pages of these.
    pub dirty: usize,
    /// Pages of these that are being written.
    pub writeback: usize,
    /// Pages of these that no reclaim may take: they are pinned, or their mapping is unevictable.
    pub pinned: usize,
    /// Objects, slabs and mappings that Quarry holds for later requests.
    pub slab_reclaimable: usize,
    /// Bytes that shrinkers reported as freeable when they were last asked.
    pub shrinkable: usize,
    /// Slabs of objects in use.
    pub slab_unreclaimable: usize,
    /// Quarry's own descriptors, beside the budget.
    pub metadata: usize,
    /// The shortage of memory.
    pub pressure: Pressure,
    /// Counts of balances.
    pub balances: BalanceStats,
    /// Direct reclaims, each stage by itself.
    pub direct_reclaims: u64,
    /// Nanoseconds that half of the reclaims took at most, 99.9 % of them, and all of them.
    pub direct_ns: [u64; 3],
    /// Requests that were refused at the limit of a group.
    pub group_refusals: u64,
}

/// The shortage of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Pressure {
    /// The high mark is reached.
    #[default]
    None,
    /// Below the low mark; memory is being reclaimed.
    Low,
    /// Most of what a reclaim looks at is in use.
    Medium,
    /// Nearly all of it is in use, or the reclaim has ended short of the high mark.
    Critical,
}

/// Counts of the work of all balances so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BalanceStats {
    /// Balances of the background (`pageoutrun`).
    pub runs: u64,
    /// Balances that reached their goal.
    pub reached: u64,
    /// Passes of all balances, each at one priority.
    pub passes: u64,
    /// Pages of the cache that balances looked at.
    pub pages_scanned: u64,
    /// Pages of the cache that they evicted.
    pub pages_freed: u64,
    /// Objects that shrinkers looked at (`slabs_scanned`).
    pub objects_scanned: u64,
    /// Objects that shrinkers reported as freed.
    pub objects_freed: u64,
    /// Frames that had left the budget when balances ended.
    pub frames_freed: u64,
    /// Requests of the heap that were refused, in a program with a page cache.
    pub refused: u64,
    /// Refused requests of these that dirty pages would have covered: they were not written in
    /// time.
    pub refused_dirty: u64,
}

/// Bytes of frames.
pub fn bytes(frames: u64) -> usize {
    usize::try_from(frames).unwrap_or(usize::MAX).saturating_mul(FRAME_BYTES)
}

/// The part of a reclaimable amount that counts as available: half of it, or `low` bytes if that is
/// less, stays with its users (`si_mem_available`, Linux 3.14).
fn beyond_half(amount: usize, low: usize) -> usize {
    amount - (amount / 2).min(low)
}

impl BudgetStats {
    /// `si_mem_available`, Linux 3.14 to 6.18, where pages that no reclaim may take do not count.
    pub(super) fn estimate(&self) -> usize {
        let pages = beyond_half(self.file.saturating_sub(self.pinned), self.low);
        let reclaimable = self.slab_reclaimable.saturating_add(self.shrinkable);
        let beside = pages.saturating_add(beyond_half(reclaimable, self.low));
        self.free.saturating_sub(self.min).saturating_add(beside).min(self.limit)
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
