//! The figures of a budget.
//!
//! Equations, while no thread is at work: `limit = used + free` unless `used > limit`;
//! `used = file + slab_reclaimable + slab_unreclaimable + blocks + mappings + page_lists`, where
//! cached mappings are part of `slab_reclaimable`.

use crate::frame::FRAME_BYTES;

/// The budget and its uses, in bytes unless a field says otherwise, read one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetStats {
    /// The limit; `usize::MAX` without a limit.
    pub limit: usize,
    /// The min mark; all marks are 0 without a limit.
    pub min: usize,
    /// See `min`.
    pub low: usize,
    /// See `min`.
    pub high: usize,
    /// Memory in use: outside the free lists of the zones.
    pub used: usize,
    /// The memory between `used` and the limit.
    pub free: usize,
    /// Bytes that requests could take without a refusal (`MemAvailable`): an estimate.
    pub available: usize,
    /// Pages of the page cache.
    pub file: usize,
    /// Dirty pages.
    pub dirty: usize,
    /// Pages under writeback.
    pub writeback: usize,
    /// Pages that no reclaim may take: they are pinned, or their file mapping is unevictable.
    pub pinned: usize,
    /// Objects, slabs and mappings that Quarry holds for later requests.
    pub slab_reclaimable: usize,
    /// Bytes that shrinkers reported as freeable when they were last asked.
    pub shrinkable: usize,
    /// Slabs of objects in use.
    pub slab_unreclaimable: usize,
    /// Quarry's own descriptors, which the budget does not charge.
    pub metadata: usize,
    /// Free memory of the zones that may hold data, and goes back to the system.
    pub free_dirty: usize,
    /// Memory of the process that Quarry has not allocated: threads' stacks, changed code, the
    /// program's own `mmap`s. Too low if memory in use is untouched, and 0 without `/proc`.
    pub unaccounted: usize,
    /// Memory of the process in addition to `used`: `metadata`, `free_dirty` and `unaccounted`, as
    /// far as they are in memory. Too low, or 0, in the same cases as `unaccounted`.
    pub beside: usize,
    /// The shortage of memory.
    pub pressure: Pressure,
    /// Counts of balances so far.
    pub balances: BalanceStats,
    /// Number of stages of direct reclaims.
    pub direct_reclaims: u64,
    /// Durations of these stages.
    pub direct_ns: DirectNs,
    /// Requests that were refused at the limit of a group.
    pub group_refusals: u64,
}

/// Upper bounds of direct reclaims' durations, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectNs {
    /// Bound of the quicker half of all reclaims.
    pub median: u64,
    /// Bound of the quickest 99.9 % of all reclaims.
    pub p999: u64,
    /// Bound of all reclaims.
    pub longest: u64,
}

/// The shortage of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Pressure {
    /// No shortage: the high mark is reached.
    #[default]
    None,
    /// Less than the low mark of the budget is free.
    Low,
    /// Most memory that a reclaim scans is in use.
    Medium,
    /// Nearly all memory that a reclaim scans is in use, or it ended short of the high mark.
    Critical,
}

/// Counts of all balances so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BalanceStats {
    /// Balances of the background (`pageoutrun`).
    pub runs: u64,
    /// Balances that reached their goal.
    pub reached: u64,
    /// Passes of all balances, each at one priority.
    pub passes: u64,
    /// Pages of the page cache that balances scanned.
    pub pages_scanned: u64,
    /// Pages of the page cache that balances evicted.
    pub pages_freed: u64,
    /// Objects that shrinkers scanned (`slabs_scanned`).
    pub objects_scanned: u64,
    /// Objects that shrinkers reported as freed.
    pub objects_freed: u64,
    /// Frames that had left the budget when balances ended.
    pub frames_freed: u64,
    /// Requests of the heap that were refused, in a program with a page cache.
    pub refused: u64,
    /// Refused requests for which the dirty pages would have been enough, if written in time.
    pub refused_dirty: u64,
}

/// The bytes of `frames` frames.
pub fn bytes(frames: u64) -> usize {
    usize::try_from(frames).unwrap_or(usize::MAX).saturating_mul(FRAME_BYTES)
}

/// The part of reclaimable memory that its users can do without: they keep half, or `low` if less.
fn beyond_half(amount: usize, low: usize) -> usize {
    amount - (amount / 2).min(low)
}

impl BudgetStats {
    /// `si_mem_available`, Linux 3.14 to 6.18, but without pages that no reclaim may take.
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
