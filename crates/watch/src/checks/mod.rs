//! What `QUARRY_DEBUG`, `QUARRY_HARDEN` and `QUARRY_GUARD` write beside objects, and remember of
//! them.
//!
//! Nothing here knows where objects come from: `crates/watch/src/checked.rs` takes slots from
//! the heap and makes objects with records of them.
//!
//! Order of the files, each using only those before it: `track`; `record`,
//! `zones`; `quarantine`, `guards`; `state`.

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
