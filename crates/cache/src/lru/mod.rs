//! The LRU lists of cached pages, per node: active and inactive, with per-CPU batches in front;
//! one file per policy.
//!
//! A new policy is a file here, a line in `registry.rs` and a page in `docs/policies`. Files use
//! only those to their left:
//!
//! ```text
//! state -> page -> policy -> add_batch -> single, batches -> batched -> splice -> registry
//! registry -> options -> set
//! ```

#![deny(unsafe_code)]

mod add_batch;
mod batched;
mod batches;
mod options;
mod page;
mod policy;
mod registry;
mod set;
mod single;
mod splice;
mod state;
#[cfg(test)]
mod tests;

pub use add_batch::MOST_ADD_BATCH;
pub use options::{ADD_BATCHES, LruOptions};
pub use page::{Descriptor, DescriptorTable, PageNo};
pub use policy::{ListKind, LruCounters, Sizes};
pub use registry::{LRU_POLICIES, LRU_POLICY_NAMES, LruPolicy, RegisteredLru};
pub use set::{LruSet, Released};
pub use state::{MOST_PINS, MOST_SHARED, MOST_USER_PINS, State, StateWord};
