//! Options of the LRU lists.

use super::policy::LruPolicy;
use super::splice::Splice;

/// Sizes of add batches that the lab's tables compare: Linux up to 4.15 (`PAGEVEC_SIZE`), Linux
/// from 6.10 on, and four times the first (document 004).
pub const ADD_BATCHES: [usize; 3] = [14, 31, 56];

/// Options of the LRU lists. `splice` adds and releases a page 8 to 13 ns faster than `single` with
/// two threads, and 3 ns slower with one (`docs/policies/lru-splice.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LruOptions<P = Splice> {
    /// The locking of the lists.
    pub policy: P,
    /// Pages of a full add batch, at most [`MOST_ADD_BATCH`](super::MOST_ADD_BATCH). Under
    /// `batched` and `splice`, a closed batch of a list has as many.
    pub add_batch: usize,
    /// Locks count acquisitions, contention and time; otherwise they read no clock.
    pub counts: bool,
}

impl<P: LruPolicy> Default for LruOptions<P> {
    fn default() -> Self {
        Self { policy: P::default(), add_batch: 31, counts: true }
    }
}
