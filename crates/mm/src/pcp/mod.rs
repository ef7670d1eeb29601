//! Per-CPU page lists in front of the zones, and the page allocator that joins both.
//!
//! A policy is a type that implements [`PagePolicy`]. A new one is a file here, a line in
//! `registry.rs` and a page in `docs/policies`. Files use only those to their left:
//!
//! ```text
//! ring -> lists -> policy -> v6_18 -> config, order0, v2016, v5_14, v6_7, v6_18_wide -> registry
//! extent_list, request, drain, store -> locked_lists -> set -> allocator -> listed, section, slow
//! ```

#![deny(unsafe_code)]

mod allocator;
mod config;
mod drain;
mod extent_list;
mod listed;
mod lists;
mod locked_lists;
mod order0;
mod policy;
mod registry;
mod request;
mod ring;
mod section;
mod set;
mod slow;
mod store;
#[cfg(test)]
pub(crate) mod tests;
mod v2016;
mod v5_14;
mod v6_18;
mod v6_18_wide;
mod v6_7;

pub use crate::zone::AllocFlags;
pub use allocator::MOST_LOST;
pub use allocator::PageAllocator;
pub use config::{FaultPolicy, FreeListPolicy, Machine, PageConfig};
pub use lists::{PcpCounters, Tuning};
pub use order0::Order0;
pub(crate) use policy::CACHE_SLICE_BYTES;
pub use policy::{DrainWalk, PagePolicy, PolicyContext, SizeInputs, Sizes};
pub use registry::one_of;
pub use registry::{Chosen, PAGE_POLICIES, PAGE_POLICY_NAMES, RegisteredPages};
pub use request::{Page, PageRequest};
pub use ring::RingSizes;
pub use v5_14::V5_14;
pub use v6_7::V6_7;
pub use v6_18::V6_18;
pub use v6_18_wide::V6_18Wide;
pub use v2016::V2016;
