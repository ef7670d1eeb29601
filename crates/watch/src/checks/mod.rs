//! The data of `QUARRY_DEBUG`, `QUARRY_HARDEN` and `QUARRY_GUARD`. Nothing here allocates:
//! `checked.rs` takes slots from the heap and turns them into objects with records.
//!
//! Each file uses only files before it in this list: `track`; `record`, `zones`; `quarantine`,
//! `guards`; `state`.

pub mod guards;
pub mod quarantine;
mod record;
mod state;
mod track;
mod zones;

pub use record::{Record, Seal, Shape, Slot, Tracks};
pub use state::{Checks, Freed, GuardState, WAYS};
pub use track::{TRACK_FRAMES, Track, Tracked};
pub use zones::{Damage, Parts, Range};
