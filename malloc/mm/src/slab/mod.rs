//! Slab caches: objects of one size, many to a block of frames.
//!
//! A [`Cache`] describes its objects and their places in a slab. A [`SlabPolicy`] decides where a
//! CPU keeps free objects, what happens when this place is empty or full, and what is recorded of a
//! slab. Policies are types, each with its own fast path.
//!
//! `sheaf` is the default; `lab/eras` has all others. Files use only files to their left and in
//! rows above:
//!
//! ```text
//! stats   pieces   params -> cache, cache_limits -> table, reclaim -> context, misuse
//!          -> policy -> remaining
//! parts    buffer    late    shards    groups    width    populating -> bitmap_slabs -> loose
//!          barn -> barns
//! policy   sheaf_cache -> sheaf_bound -> sheaf
//! ```

mod barn;
mod barns;
mod bitmap_slabs;
mod buffer;
mod cache;
mod cache_limits;
mod context;
mod groups;
mod late;
mod loose;
mod misuse;
mod params;
mod pieces;
mod policy;
mod populating;
mod reclaim;
mod remaining;
mod shards;
mod sheaf;
mod sheaf_bound;
mod sheaf_cache;
mod stats;
mod table;
mod width;

pub use barn::Barn;
pub use barns::home;
pub use bitmap_slabs::{BitmapSlabs, SlabsView};
pub use buffer::{is_among, written};
pub use cache::{
    Cache, CacheId, Geometry, GeometryOffsets, Identity, LOOSE, MAX_CACHES, SlabLayout, cache_of,
};
pub use cache_limits::CacheLimits;
pub use context::{CacheIn, MAX_BATCH, PolicyOptions, SlabContext, SlabPages, SlabSetup};
pub use late::Late;
pub use loose::WithLoose;
pub use misuse::{not_in_use, overwritten, written_after_free};
pub use params::{CacheOptions, CacheParams, Constructor, MIN_ALIGN};
pub use policy::{SlabPolicy, create_cache};
pub use reclaim::{Idle, Reclaim, SparseWalk};
pub use remaining::Remaining;
pub use sheaf_cache::{Sheaf, SheafView};
pub use stats::{ArrayCounts, BarnStats, Count, Exchanges, Occupancy, SlabStats};
pub use table::CacheTable;
pub use width::Miss;

/// The policy of the process's own stack. `lab/library-mm` replaces it.
pub type DefaultSlab = Sheaf;
