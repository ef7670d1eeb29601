//! Heap profiles of programs on Quarry: takes them from a running process or reads them from a
//! file, names the call sites, and writes them for pprof, as a flame graph or as text.
//!
//! Order of the files, each using only those before it: `raw`, `maps`, `symbols`, `profile`;
//! `pprof`, `flame`, `text`; `bell`, `live`; `command`.

mod bell;
mod command;
mod flame;
mod live;
pub mod maps;
pub mod pprof;
pub mod profile;
pub mod raw;
pub mod symbols;
mod text;

pub use command::{ProfileArgs, View, held, print_in_use, profile};
pub use live::{Taken, Wish, load, take};
