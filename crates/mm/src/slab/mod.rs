//! Slab caches: objects of one size, many to a block of frames.
//!
//! A [`Cache`] describes its objects and their places in a slab. A [`SlabPolicy`] decides how they
//! travel: which per-CPU form holds them, what happens when it is empty or full, and what is
//! recorded of a slab. Policies are types, so that each keeps a fast path of its own; no common
//! code runs before it, or every comparison would be a tie.
//!
//! A new policy is a file (or a folder) here, a line in `registry.rs` and a page in
//! `docs/policies`. Files use only those to their left, and of each row only those above:
//!
//! ```text
//! stats   mechanisms   pages   params -> cache, cache_limits -> table, reclaim -> context, misuse
//!          -> glance -> policy -> remaining
//! parts    buffer    late    records    populating -> bitmap_slabs    barn -> barns    width
//! policies sheaf_cache -> sheaf -> sheaf_bound, slam    sheaf_6_18    slub    linux_slab    slqb
//! registry
//! ```

mod barn;
mod barns;
mod bitmap_slabs;
mod buffer;
mod cache;
mod cache_limits;
mod context;
mod glance;
mod late;
mod linux_slab;
mod mechanisms;
mod misuse;
mod pages;
mod params;
mod policy;
mod populating;
mod reclaim;
mod records;
mod registry;
mod remaining;
mod sheaf;
mod sheaf_6_18;
mod sheaf_bound;
mod sheaf_cache;
mod slam;
mod slqb;
mod slub;
mod stats;
mod table;
mod width;

pub use barn::Barn;
pub use bitmap_slabs::BitmapSlabs;
pub use cache::{Cache, CacheId, Geometry, GeometryOffsets, MAX_CACHES, SlabLayout};
pub use cache_limits::CacheLimits;
pub use context::{MAX_BATCH, SlabContext, SlabSetup};
pub use glance::Glance;
pub use late::Late;
pub use linux_slab::LinuxSlab;
pub use mechanisms::{Mechanisms, SlamMode};
pub use pages::SlabPages;
pub use params::{CacheOptions, CacheParams, Constructor};
pub use policy::{SlabPolicy, create_cache};
pub use reclaim::{Idle, Reclaim, SparseWalk};
pub use registry::{
    Line, Registered, RegisteredPolicy, SLAB_ALIASES, SLAB_NAMES, SLAB_POLICIES, SlabVisitor,
    line_of, slab_names, slab_policy, with_slab_policy,
};
pub use remaining::Remaining;
pub use sheaf::Sheaf;
pub use sheaf_6_18::KernelSheaf;
pub use slam::Slam;
pub use slqb::Slqb;
pub use slub::{Slub2_6_29, Slub3_0, Slub3_1, Slub4_9};
pub use stats::{BarnStats, Occupancy, SlabStats};
pub use table::{CacheRequest, CacheTable};
