//! The stack: one instance of slots, page allocator, caches and heap.
//!
//! `malloc` uses one static stack; the lab makes the variants that it compares, and tests make tiny
//! ones. Policies are type parameters, so that each fast path is compiled for its policy.
//!
//! Users call [`Stack`] and [`CacheRef`]. A library on top of a stack, like `libquarry.so`, adds
//! its own work between the fast and the slow half of each request (errno, the gate, the reclaim
//! thread's start), and calls [`Stack::upkeep`]. Files use only files to their left:
//!
//! ```text
//! budget_stats, miss, stash -> cached_pages
//! call, durations, cached_pages -> deferral, fast_path, footprint, instruments, retention, large,
//!     withheld -> instance -> watch, pair -> misuse
//!     -> withholding -> stashes, upkeep -> bounding, direct_reclaim, reclaim
//!     -> request -> resize, caches -> listed, moving -> pages, cache_host, accounts -> locks
//!     -> stats -> print, record, validate
//! ```

mod accounts;
mod bounding;
mod budget_stats;
mod cache_host;
mod cached_pages;
mod caches;
mod call;
mod deferral;
mod direct_reclaim;
mod durations;
mod fast_path;
mod footprint;
mod instance;
mod instruments;
mod large;
mod listed;
mod locks;
mod miss;
mod misuse;
mod moving;
mod pages;
mod pair;
mod print;
mod reclaim;
mod record;
mod request;
mod resize;
mod retention;
mod stash;
mod stashes;
mod stats;
mod upkeep;
mod validate;
mod watch;
mod withheld;
mod withholding;

pub use budget_stats::bytes;
pub use budget_stats::{BalanceStats, BudgetStats, DirectNs, Pressure};
pub use cached_pages::{CacheHost, CachedPages};
pub use caches::CacheRef;
pub use call::{Entry, MIN_ALIGN, Request};
pub use fast_path::StackOffsets;
pub use instance::is_sane;
pub use instance::{SampledBlock, Stack, StackConfig, Watch};
pub use instruments::Instrument;
pub use large::{LargeCounts, LargeStats};
pub use miss::{Claimant, Miss};
pub use misuse::Misuse;
pub use pages::PageFlags;
pub use print::{Report, Section};
pub use reclaim::{ReclaimState, Reclaimed};
pub use record::ServedBy;
pub use resize::with_headroom;
pub use stash::Stash;
pub use stats::{HeapUse, MemoryHeld, SlotUse, StackStats};
pub use upkeep::Upkeep;
pub use withheld::{Block, Ring};
pub use withholding::LEAST_FRAMES;
