//! Per-CPU page lists on top of the zones, and the page allocator that joins both.
//!
//! A policy is a type that implements [`PagePolicy`]; policies of other eras are in `lab/eras`.
//! Each file uses only those to its left:
//!
//! ```text
//! extent_list, ring -> lists -> policy -> v6_18 -> config
//! shelves, drain -> store -> locked_lists, extents -> allocator -> by_node -> alloc
//!         -> listed, section
//! ```

#![deny(unsafe_code)]

mod alloc;
mod allocator;
mod by_node;
mod config;
mod drain;
mod extent_list;
mod extents;
mod listed;
mod lists;
mod locked_lists;
mod policy;
mod ring;
mod section;
mod shelves;
mod store;
#[cfg(test)]
mod tests;
mod v6_18;

pub use crate::zone::{AllocFlags, Page};
pub use alloc::PageRequest;
pub use allocator::PageAllocator;
pub use config::{FaultPolicy, FreeListPolicy, PageConfig};
pub use extents::MOST_LOST;
pub use lists::{PcpCounters, Tuning};
pub use policy::{
    CACHE_SLICE_BYTES, COSTLY_ORDER, DrainWalk, LOW_LISTS, PagePolicy, PolicyContext, SizeInputs,
    Sizes, batch_before_4_20, batch_since_4_20, low_list, scaled_to,
};
pub use ring::RingSizes;
pub use v6_18::{Release, V6_18};
