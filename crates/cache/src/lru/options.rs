//! Options of the LRU lists.

use super::policy::LruPolicy;
use super::splice::Splice;

/// Sizes of add batches that the lab's tables compare: that of Linux up to 4.15 (`PAGEVEC_SIZE`),
/// that of Linux from 6.10 on, and four times the first (document 004, see `PROVENANCE.md`).
pub const ADD_BATCHES: [usize; 3] = [14, 31, 56];

/// Options of the LRU lists. With two threads `splice` adds and releases a page 8 to 13 ns faster
/// than `single`, with one thread 3 ns slower (`docs/policies/lru-splice.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LruOptions<P = Splice> {
    /// The locking of the lists.
    pub policy: P,
    /// Pages of a full add batch, at most [`MOST_ADD_BATCH`](super::MOST_ADD_BATCH). Under
    /// `batched` and `splice`, this is also the size of a closed batch on a list.
    pub add_batch: usize,
    /// If true, locks count acquisitions, contention and time; if false, they read no clock.
    pub counts: bool,
}

impl<P: LruPolicy> Default for LruOptions<P> {
    fn default() -> Self {
        Self { policy: P::default(), add_batch: 31, counts: true }
    }
}
