//! The stack: one instance of slots, page allocator, caches and heap.
//!
//! `malloc` uses one static stack. The lab makes the variants that it compares, and tests make tiny
//! stacks. Policies are type parameters, so that each fast path is compiled for its policy.
//!
//! Users call [`Stack`] and [`CacheRef`]. A library on top of a stack, like `libquarry.so`, calls
//! the fast path of a request first. If that fails, it adds its own work around the whole request
//! (errno, the gate, the reclaim thread's start). Through [`StackHost`], the stack's cache and its
//! instruments use the layers below. Files use only files to their left:
//!
//! ```text
//! call, instruments, budget_stats, miss, relief, stash -> cached_pages
//! deferral, fast_path, footprint, retention, large, withheld
//!     -> instance -> guarded_slabs, withholding -> own_frames -> stashes -> reap
//!     -> bounding, direct_reclaim -> reclaim -> owner -> caches, own_heaps -> request -> resize
//!     -> listed, moving, pages, host -> groups, locks, own_rows -> stats
//!     -> print, record, validate
//! ```

mod bounding;
mod budget_stats;
mod cached_pages;
mod caches;
mod call;
mod deferral;
mod direct_reclaim;
mod fast_path;
mod footprint;
#[cfg(feature = "groups")]
mod groups;
mod guarded_slabs;
mod host;
mod instance;
mod instruments;
mod large;
mod listed;
mod locks;
mod miss;
mod moving;
#[cfg(feature = "heaps")]
mod own_frames;
#[cfg(feature = "heaps")]
mod own_heaps;
#[cfg(feature = "heaps")]
mod own_rows;
mod owner;
mod pages;
mod print;
mod reap;
mod reclaim;
mod record;
mod relief;
mod request;
mod resize;
mod retention;
mod stash;
mod stashes;
mod stats;
mod validate;
mod withheld;
mod withholding;

pub use budget_stats::bytes;
pub use budget_stats::{BalanceStats, BudgetStats, DirectNs, Pressure};
pub use cached_pages::{CachedPages, StackHost};
pub use caches::CacheRef;
pub use call::{Entry, MIN_ALIGN, Misuse, Request};
pub use fast_path::{FastPath, NotFreed, StackOffsets, stays, stays_after_all};
pub use instance::is_sane;
pub use instance::{SampledBlock, Stack, StackConfig, Watch};
pub use instruments::{Instrument, Instruments};
pub use large::{LargeCounts, LargeStats};
pub use miss::{Claimant, Miss, nap};
pub use pages::PageFlags;
pub use print::{Report, Section};
pub use reclaim::{ReclaimState, Reclaimed};
pub use relief::Relief;
pub use resize::with_headroom;
pub use stash::Stash;
pub use stats::{HeapUse, MemoryHeld, ServedBy, SlotUse, StackStats};
pub use withheld::{Block, Ring};
pub use withholding::LEAST_FRAMES;
