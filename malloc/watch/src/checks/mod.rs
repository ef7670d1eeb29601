//! The data of `QUARRY_DEBUG`, `QUARRY_HARDEN` and `QUARRY_GUARD`. Nothing here allocates:
//! `checked.rs` takes slots from the heap and turns them into objects with records.
//!
//! Each file uses only files before it in this list: `track`; `record`, `zones`; `quarantine`,
//! `guards`, `zero_sized`; `state`.

pub(super) mod guards;
pub(super) mod quarantine;
mod record;
mod state;
mod track;
pub(super) mod zero_sized;
mod zones;

pub(super) use record::{Seal, Shape, Slot};
pub use state::Checks;
pub(super) use state::{Freed, STRIPES, WAYS};
pub(super) use track::{Track, Tracked};
pub(super) use zones::{Damage, Parts, Range};
