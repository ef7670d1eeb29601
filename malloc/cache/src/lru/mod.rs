//! The LRU lists of cached pages: an active and an inactive one for each NUMA node, and an add
//! batch for each CPU; one file per policy.
//!
//! A policy is a type parameter, by default [`Splice`]. Each file uses only files to its left:
//!
//! ```text
//! state -> page -> policy -> add_batch, batches -> splice -> batched -> set
//! ```

#![deny(unsafe_code)]

mod add_batch;
mod batched;
mod batches;
mod page;
mod policy;
mod set;
mod splice;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use add_batch::Few;
pub use add_batch::MOST_ADD_BATCH;
pub use batched::{Batched, BatchedLists, Splice};
pub use page::{Descriptor, DescriptorTable, PageNo};
pub use policy::{
    ListKind, Lists, LruCounters, LruPolicy, SWAP_CLUSTER_MAX, Setup, Sizes, Tail, Tally, Waiting,
    add_to, scan,
};
pub use set::{ADD_BATCHES, LruOptions, LruSet, Released};
pub use state::{MOST_PINS, MOST_SHARED, MOST_USER_PINS, State, StateWord};
