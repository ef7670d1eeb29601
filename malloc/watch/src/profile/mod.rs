//! The heap profile: allocations by call site, and the part in use, from samples.
//!
//! A profile is switched on and off at run time. Each byte that the program requests has the same
//! small chance to make its object a *sample*: an object with its own frames, whose call site is
//! recorded. The fast path of `free` refuses such frames, so the profile also sees the free. Counts
//! are in an [`Area`] that other processes may read; the samples in use are `Records`.
//!
//! Nothing here takes a lock or allocates, so requests of signal handlers may be samples, too.
//!
//! Each file uses only files before it: `layout`, `gap`, `records`, `pins`, `area`, `heap_profile`.

mod area;
mod gap;
mod heap_profile;
pub mod layout;
mod pins;
mod records;

pub use area::Area;
pub use heap_profile::{
    Busy, DEFAULT_MEAN, HeapProfile, LARGEST_MEAN, ProfileKind, ProfileOptions, Tracer,
};
pub use records::MOST_RECORDS;
pub(super) use records::{NO_RECORD, Sampled};
