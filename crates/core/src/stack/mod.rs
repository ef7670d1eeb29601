//! One instance of everything: slots, page allocator, caches, heap.
//!
//! A stack is a value. `malloc` uses one static instance; the lab builds the variants that it
//! compares; tests build tiny ones. Its policies are type parameters, so that each fast path is
//! compiled for its own policy.
//!
//! A user sees [`Stack`] and [`CacheRef`]; a library on top of a stack also [`Stack::halves`] and
//! [`Stack::upkeep`]. Files use only those to their left:
//!
//! ```text
//! cost, durations, shrinkers -> pressure -> balancing
//! call, deferral, fast_path, footprint, instruments, keeping, large, withheld, balancing
//!     -> instance -> watch -> misuse
//!     -> request -> resize, caches, direct_reclaim, bounding, withholding, reclaim, balance
//!     -> listed, moving -> pages, halves, upkeep, page_cache, accounts -> locks
//!     -> stats -> print, record, validate
//! ```

mod accounts;
mod balance;
mod balancing;
mod bounding;
mod caches;
mod call;
mod cost;
mod deferral;
mod direct_reclaim;
mod durations;
mod fast_path;
mod footprint;
mod halves;
mod instance;
mod instruments;
mod keeping;
mod large;
mod listed;
mod locks;
mod misuse;
mod moving;
mod page_cache;
mod pages;
mod pressure;
mod print;
mod reclaim;
mod record;
mod request;
mod resize;
mod shrinkers;
mod stats;
mod upkeep;
mod validate;
mod watch;
mod withheld;
mod withholding;

pub use accounts::BudgetStats;
pub use balance::{Balanced, Goal};
pub use balancing::BalanceStats;
pub use caches::CacheRef;
pub use call::{Entry, MIN_ALIGN, Request};
pub use fast_path::StackOffsets;
pub use halves::Halves;
pub(crate) use instance::is_sane;
pub use instance::{SampledBlock, Stack, StackConfig, Watch};
pub use instruments::Instrument;
pub use large::LargeStats;
pub use misuse::Misuse;
pub use pages::PageFlags;
pub use pressure::{MOST_CALLBACKS, Pressure, PressureEvents};
pub use print::{Report, Section};
pub use reclaim::{ReclaimState, Reclaimed};
pub use record::ServedBy;
pub(crate) use resize::with_headroom;
pub use shrinkers::{
    Count, MOST_SHRINKERS, ReclaimCaller, Scanned, ShrinkControl, Shrinker, ShrinkerOptions,
    Shrinkers,
};
pub use stats::{HeapUse, MemoryHeld, SlotUse, StackStats};
pub use upkeep::Upkeep;
pub(crate) use withheld::{Block, Ring};
pub(crate) use withholding::LEAST_FRAMES;
