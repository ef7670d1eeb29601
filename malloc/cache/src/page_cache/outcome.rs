//! The choices of a page cache, and arguments and results of operations on pages.

use crate::lru::PageNo;
use quarry_sys::clock::monotonic_ns;

/// The steps by which pages leave a mapping, as document 001 compares them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TruncationPolicy {
    /// Linux 4.14: the index is entered once per page, and each page is freed separately.
    Vanilla,
    /// Jan Kara's series (4.15): the index is entered once for 14 pages.
    BatchedIndex,
    /// As `BatchedIndex`, but one critical section frees a list of pages (commit 9cca35d42eb6,
    /// Linux 4.15).
    OneIrq,
    /// As `OneIrq`, but the add batches are drained once per release, shadow entries are cleared in
    /// batches, and there is no cold hint (the rest of Mel Gorman's series, Linux 4.15).
    #[default]
    BatchedRelease,
}

impl TruncationPolicy {
    /// All policies from oldest to newest, by the names that options and tables print.
    pub const ALL: [(&'static str, Self); 4] = [
        ("vanilla", Self::Vanilla),
        ("jan", Self::BatchedIndex),
        ("oneirq", Self::OneIrq),
        ("mel", Self::BatchedRelease),
    ];
}

/// Options of a page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCacheOptions {
    /// The steps by which pages leave a mapping.
    pub truncation: TruncationPolicy,
    /// Freed pages go to the cold end of the per-CPU lists (Linux up to 4.14).
    pub cold_hint: bool,
}

/// The effort that a request for a page may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Takes free memory only, and reclaims nothing (`GFP_NOWAIT`; SQLite's create flag 1).
    Easy,
    /// Reclaims once, bounded, if there is no free memory (`GFP_KERNEL`; SQLite's create flag 2).
    Every,
}

/// No page is available: memory is short, and reclaim freed nothing or was not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The page of a request, pinned for the caller. (It is no slot of a CPU.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The page was cached, and is up to date.
    Found(PageNo),
    /// The page is new, and its bytes are undefined. The caller has its exclusive latch, and ends
    /// the fill by `fill_done` or `fill_failed`; tasks that want the page wait until then.
    New(PageNo),
}

impl Slot {
    /// The page.
    #[must_use]
    pub const fn page(self) -> PageNo {
        match self {
            Self::Found(page) | Self::New(page) => page,
        }
    }
}

/// The reason why a page could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// No page is available.
    Full,
    /// The caller's own fill, or the one for which it waited, failed with this code.
    Failed(i32),
}

impl From<Full> for ReadError {
    fn from(_: Full) -> Self {
        Self::Full
    }
}

/// The pages that an invalidation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalidate {
    /// Clean pages (`invalidate_mapping_pages`).
    CleanOnly,
    /// Dirty pages too, whose contents are lost.
    All,
}

/// Result of an invalidation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Invalidated {
    /// Pages that are no longer in the mapping.
    pub dropped: u64,
    /// Pages that stay: pinned, latched, being written, or dirty if only clean pages leave.
    pub busy: u64,
}

/// The reason why a page does not get its new index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RekeyError {
    /// Another task latches or writes the page at the new index.
    Busy,
    /// There is no memory for the nodes of the index, or the new index is 2^52 or more.
    Full,
    /// The page is in no mapping any more.
    Gone,
}

/// The caller of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanFor {
    /// A request that has found no memory: bounded by time.
    Direct,
    /// The background thread, which starts at the low mark and ends at the high mark.
    Background,
}

/// The limits of a scan.
#[derive(Clone, Copy, Debug)]
pub struct ScanRequest {
    /// The caller of the scan.
    pub who: ScanFor,
    /// The scan ends after it has freed this many pages.
    pub most: usize,
    /// The scan ends after it has looked at this many pages of the inactive list.
    pub most_scanned: usize,
    /// The monotonic time in nanoseconds at which the scan ends, once it has freed a page or looked
    /// at [`LEAST_SCANNED`](Self::LEAST_SCANNED) pages; `u64::MAX` for never.
    pub until_ns: u64,
    /// Pages of groups within their low limits stay.
    pub spares_low: bool,
}

impl ScanRequest {
    /// Maximum number of pages that a direct reclaim frees (`SWAP_CLUSTER_MAX`, Linux 6.12).
    pub const DIRECT_MOST: usize = 32;
    /// Maximum number of nanoseconds that a direct reclaim takes.
    pub const DIRECT_NS: u64 = 200_000;
    /// A scan that has freed nothing looks at this many pages before time may end it, so that a
    /// preempted task is not refused memory. A task that keeps its CPU looks at them in less than
    /// `DIRECT_NS`.
    pub const LEAST_SCANNED: u64 = 1024;

    /// The monotonic time at which a direct reclaim that begins now ends.
    pub(super) fn direct_end_ns() -> u64 {
        match monotonic_ns() {
            // With `QUARRY_SANDBOX=1` there is no clock, and so no time limit.
            0 => u64::MAX,
            now => now + Self::DIRECT_NS,
        }
    }

    pub(super) fn is_over(&self, done: &Scanned) -> bool {
        self.until_ns != u64::MAX
            && (done.freed > 0 || done.scanned >= Self::LEAST_SCANNED)
            && monotonic_ns() >= self.until_ns
    }
}

/// Result of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Pages that the scan looked at, of the inactive list or of a group.
    pub scanned: u64,
    /// Pages that the scan evicted and freed.
    pub freed: u64,
    /// Pages that stay because they are dirty: writeback would make them free.
    pub dirty: u64,
    /// Pages that stay because another task holds the lock of their mapping.
    pub busy: u64,
    /// Pages that stay because their groups are within their limits, if low ones count.
    pub spared: u64,
}
