//! Requests in bytes, each served by a slab cache, an extent of frames or a mapping.
//!
//! | request | served by | rounding |
//! |---|---|---|
//! | up to 32 KiB | a slab cache per size class | from 129 bytes on by at most 12.5 % |
//! | up to 1 MiB | an extent of frames | to 4 KiB |
//! | above | an extent of pageblocks of the window | to 4 KiB usable, 2 MiB of address space |
//!
//! Order of the files, each using only those before it: `classes`, `check_flags`, `check_options`,
//! `bytes`, `options`; `mapping_cache`, `filled`, `moving`, `mapping`. Each option is an entry of a
//! table in `options.rs`; `malloc/quarry/src/settings.rs` reads the options of the process.

mod bytes;
mod check_flags;
mod check_options;
pub mod classes;
mod filled;
mod mapping;
mod mapping_cache;
mod moving;
pub mod options;

pub use check_flags::CheckFlags;
pub use check_options::{CheckOptions, Classes, Sampling};
pub use mapping::{Mapping, Mappings, frames_of};

/// Larger requests become mappings. Fragmentation uses up the largest blocks first, so the heap
/// requests at most a quarter of the largest block from zones.
pub const LARGEST_BLOCK: usize = 1 << 20;

/// Larger requests are refused: a pointer difference could not express them.
pub const LARGEST_REQUEST: usize = isize::MAX as usize;
