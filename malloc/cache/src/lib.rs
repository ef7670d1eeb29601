//! The page cache of a stack, and the balance of the budget that it shares with the heap.
//!
//! [`PageCaching`] is the type that a stack has as its `Cache`. Each module uses only those below
//! it (`scripts/tidy/tests/layers.rs` checks it):
//!
//! ```text
//! stack       the page cache as a part of a stack, and the balance of its budget
//! page_cache  pages of files and databases: index, fill, writeback, truncation
//! lru         active and inactive lists of cached pages, and their policy
//! ```
//!
//! Nothing here allocates through the global allocator.
#![cfg_attr(not(any(test, quarry_model)), no_std)]

pub mod lru;
pub mod page_cache;
mod stack;

pub use stack::{
    Balanced, Count, Goal, MOST_CALLBACKS, MOST_SHRINKERS, PageCaching, PageCachingOptions,
    PressureEvents, ReclaimCaller, Scanned, ShrinkControl, Shrinker, ShrinkerOptions, Shrinkers,
    balance, is_owed, missing, note_pressure, note_relief, pressure, reclaim_pages,
};
