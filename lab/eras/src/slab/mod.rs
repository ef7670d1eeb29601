//! Slab policies of other eras, and `slam`.
//!
//! A new policy is a file (or a folder) here, and a line in `names.rs` and in `registry.rs`;
//! `CONTRIBUTING.md` names what else it needs. Files use only those to their left:
//!
//! ```text
//! names, mechanisms, arrays, one_cache, records, freelist
//!     -> sheaf_6_18, slub, linux_slab, slqb, slam -> registry
//! ```

mod arrays;
mod freelist;
mod linux_slab;
mod mechanisms;
mod names;
mod one_cache;
mod records;
mod registry;
mod sheaf_6_18;
mod slam;
mod slqb;
mod slub;
#[cfg(test)]
mod tests;

pub use linux_slab::LinuxSlab;
pub use mechanisms::{Mechanisms, SlamMode};
pub use names::{RegisteredPolicy, SLAB_ALIASES, SLAB_POLICIES, slab_names, slab_policy};
pub use registry::{Line, Registered, SlabVisitor, line_of, with_slab_policy};
pub use sheaf_6_18::KernelSheaf;
pub use slam::Slam;
pub use slqb::Slqb;
pub use slub::{Sheaf7_0, Slub2_6_29, Slub3_0, Slub3_1, Slub4_9};
