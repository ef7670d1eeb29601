//! Options of the LRU lists.

use super::registry::LruPolicy;

/// Sizes of the per-CPU add batches that tables compare: Linux up to 4.15 (`PAGEVEC_SIZE`), from
/// 6.10 on, and four times the first (document 004).
pub const ADD_BATCHES: [usize; 3] = [14, 31, 56];

/// Options of the LRU lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LruOptions {
    /// The locking of the lists.
    pub policy: LruPolicy,
    /// Pages of a full add batch: at most [`MOST_ADD_BATCH`](super::MOST_ADD_BATCH), and one of
    /// [`ADD_BATCHES`] in tables. Under `batched` and `splice` it is also the size of a closed
    /// batch of a list.
    pub add_batch: usize,
    /// The locks count their cost. Without it they read no clock and store nothing.
    pub counts: bool,
}

impl Default for LruOptions {
    /// `splice` adds and releases a page 8 to 13 ns faster than `single` with two threads, and 3 ns
    /// slower with one (`docs/policies/lru-splice.md`).
    fn default() -> Self {
        Self { policy: LruPolicy::Splice, add_batch: 31, counts: true }
    }
}
