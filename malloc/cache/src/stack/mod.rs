//! The page cache of a stack and the balance of the budget that it shares with the heap, as the
//! type that a stack names in [`StackConfig::Cache`](quarry_mm::stack::StackConfig::Cache).
//!
//! Each file uses only files to its left:
//!
//! ```text
//! cost -> shrinkers -> pressure -> caching -> host -> debt -> evict -> balance -> cached_pages
//! ```

mod balance;
mod cached_pages;
mod caching;
mod cost;
mod debt;
mod evict;
mod host;
mod pressure;
mod shrinkers;

pub use balance::{Balanced, Goal, balance, missing, note_pressure, note_relief, pressure};
pub use caching::{PageCaching, PageCachingOptions};
pub use debt::is_owed;
pub use evict::reclaim_pages;
pub use pressure::{MOST_CALLBACKS, PressureEvents};
pub use shrinkers::{
    Count, MOST_SHRINKERS, ReclaimCaller, Scanned, ShrinkControl, Shrinker, ShrinkerOptions,
    Shrinkers,
};
