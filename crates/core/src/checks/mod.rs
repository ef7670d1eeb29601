//! What `QUARRY_DEBUG`, `QUARRY_HARDEN` and `QUARRY_GUARD` write beside objects, and remember of
//! them.
//!
//! Nothing here knows where objects come from: `crates/core/src/stack/checked.rs` takes slots from
//! the heap and makes objects with records of them.
//!
//! Order of the files, each using only those before it: `flags`, `options`, `track`; `record`,
//! `zones`; `quarantine`, `hidden`, `guards`; `state`.

mod flags;
pub mod guards;
pub mod hidden;
mod options;
pub mod quarantine;
mod record;
mod state;
mod track;
mod zones;

pub use flags::CheckFlags;
pub use options::{CheckOptions, Classes, Sampling};
pub use record::{Record, Seal, Shape, Slot, Tracks};
pub use state::{CheckState, GuardState, WAYS};
pub use track::{TRACK_FRAMES, Track, Tracked};
pub use zones::{Damage, Parts, Range};
