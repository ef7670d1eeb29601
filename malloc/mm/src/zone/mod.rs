//! Zones: the buddy allocator of one NUMA node, under one counted lock.
//!
//! The files of the layer from the bottom up. Each uses only those above it in this table:
//!
//! | file | holds |
//! |---|---|
//! | `ask`, `watermark`, `reclaimers`, `block`, `stats`, `steps`, `name` | values |
//! | `budget` | the limit and its marks |
//! | `telling`, `groups` | the parts of a program that have limits of their own |
//! | `free_area`, `extents`, `huge` | free lists and extents, as plain data; huge pages |
//! | `zone` | the zone, its lock, and `Locked`, which publishes counts |
//! | `buddy` | splitting and merging blocks |
//! | `exchange` | frames that pass between blocks and extents |
//! | `fallback` | blocks of other migratetypes |
//! | `request` | work of one critical section |
//! | `zones` | all zones, with the budget and the memory that they share |
//! | `extent_request`, `highatomic`, `reclaiming` | extents; high-order reserve; reclaim marks |
//! | `guards` | frames after objects that fault |
//! | `grow`, `give_back`, `purge`, `validate` | work of several sections, or on every frame |
#![deny(unsafe_code)]

mod ask;
mod block;
mod buddy;
mod budget;
mod exchange;
mod extent_request;
mod extents;
mod fallback;
mod free_area;
mod give_back;
#[cfg(feature = "groups")]
mod groups;
mod grow;
mod guards;
mod highatomic;
mod huge;
#[cfg(feature = "groups")]
mod name;
mod purge;
mod reclaimers;
mod reclaiming;
mod request;
mod stats;
mod steps;
#[cfg(feature = "groups")]
mod telling;
#[cfg(test)]
pub(crate) mod tests;
mod validate;
mod watermark;
#[expect(clippy::module_inception, reason = "the zone itself is the noun of its file")]
mod zone;
mod zones;

pub use ask::{AllocFlags, Ask, Destination, Page};
pub(crate) use block::page_frames;
pub use block::{Block, ORDERS, largest_blocks};
pub(crate) use budget::Claim;
pub use budget::{Budget, MarkOptions};
pub(crate) use extent_request::Lent;
pub use extents::EXTENT_FRAMES;
pub(crate) use extents::Extents;
pub use give_back::Whole;
#[cfg(feature = "groups")]
pub use groups::{Group, GroupId, GroupLimits, Groups};
pub(crate) use grow::Urgency;
#[cfg(feature = "groups")]
pub use name::Name;
#[cfg(feature = "heaps")]
pub(crate) use name::NameCell;
pub use reclaimers::{Entry, InReclaim, Reclaimers};
pub use reclaiming::Reclaiming;
pub use stats::{FallbackCounts, Traffic, ZoneStats};
#[cfg(feature = "groups")]
pub use telling::Telling;
pub use watermark::{Mark, Marks};
pub use zone::Zone;
pub use zones::{ZoneConfig, Zones};
