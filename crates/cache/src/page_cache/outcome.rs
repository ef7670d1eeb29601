//! What operations on pages ask for, and what they answer.

use crate::lru::PageNo;
use quarry_sys::clock::monotonic_ns;

/// How hard a request for a page tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Takes free memory only, and reclaims nothing (`GFP_NOWAIT`; SQLite's create flag 1).
    Easy,
    /// Reclaims once, on the spot and bounded, where there is no free memory (`GFP_KERNEL`;
    /// SQLite's create flag 2).
    Every,
}

/// No page can be had: memory is short, and nothing could be reclaimed, or was to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A page that was asked for; the caller has a pin of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// It was there, and is up to date.
    Found(PageNo),
    /// It is new, and its bytes are anything. The caller has its exclusive latch, and ends that by
    /// `fill_done` or `fill_failed`; others that want the page wait until then.
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

/// Why a page could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// No page can be had.
    Full,
    /// The fill failed with this code: that of the caller, or of the task that filled the page
    /// while the caller waited.
    Failed(i32),
}

impl From<Full> for ReadError {
    fn from(_: Full) -> Self {
        Self::Full
    }
}

/// Which pages an invalidation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalidate {
    /// Clean ones (`invalidate_mapping_pages`).
    CleanOnly,
    /// Dirty ones too, whose contents are lost.
    All,
}

/// What an invalidation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Invalidated {
    /// Pages that are no longer in the mapping.
    pub dropped: u64,
    /// Pages that stay, because they are pinned, latched or written, or dirty where only clean ones
    /// go.
    pub busy: u64,
}

/// Why a page keeps its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RekeyError {
    /// Somebody latches or writes the page at the new index.
    Busy,
    /// There is no memory for the nodes of the index, or none reaches so far (2^52).
    Full,
    /// The page is in no mapping any more.
    Gone,
}

/// On whose behalf a scan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanFor {
    /// A request that has found nothing: bounded by time.
    Direct,
    /// Whoever keeps the watermarks.
    Background,
}

/// What a scan is asked for.
#[derive(Clone, Copy, Debug)]
pub struct ScanRequest {
    /// On whose behalf.
    pub who: ScanFor,
    /// Pages that are to be freed.
    pub most: usize,
    /// Pages of the inactive list that may be looked at.
    pub most_scanned: usize,
    /// The monotonic clock's nanoseconds at which the scan ends, if it has freed a page or looked
    /// at [`LEAST_SCANNED`](Self::LEAST_SCANNED); `u64::MAX` for never.
    pub until_ns: u64,
}

impl ScanRequest {
    /// Pages that a direct reclaim frees (`SWAP_CLUSTER_MAX`, Linux 6.12).
    pub const DIRECT_MOST: usize = 32;
    /// Nanoseconds that a direct reclaim takes.
    pub const DIRECT_NS: u64 = 200_000;
    /// Pages that a scan looks at before time may end it with nothing freed. A task that loses its
    /// CPU for a while must not be refused memory for that. To look at them takes less than
    /// `DIRECT_NS` on a CPU that nobody takes away.
    pub const LEAST_SCANNED: u64 = 1024;

    /// Returns whether the time of a scan that has done this much is over.
    pub(super) fn is_over(&self, done: &Scanned) -> bool {
        self.until_ns != u64::MAX
            && (done.freed > 0 || done.scanned >= Self::LEAST_SCANNED)
            && monotonic_ns() >= self.until_ns
    }
}

/// What a scan did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Pages of the inactive list that it looked at.
    pub scanned: u64,
    /// Pages that it evicted and freed.
    pub freed: u64,
    /// Pages that stay because they are dirty: writeback would make them free.
    pub dirty: u64,
    /// Pages that stay because another task has their mapping locked at the moment.
    pub busy: u64,
}
