//! Heap profiles of programs on Quarry: takes them from a process or a file, names call sites, and
//! writes pprof, flame graphs or text. In this crate a sample is an object that a profile recorded.
//!
//! Order of the files, each using only those before it: `raw`, `maps`, `line`, `program`,
//! `symbols`, `profile`; `protobuf`, `pprof`, `otlp`, `flame`, `text`; `bell`, `live`; `push`,
//! `command`.

mod bell;
mod command;
mod flame;
mod line;
mod live;
mod maps;
mod otlp;
mod perf_map;
mod pprof;
mod profile;
mod program;
mod protobuf;
mod push;
mod raw;
mod symbols;
mod text;

pub use command::{ProfileArgs, held, print_in_use, profile};
pub use line::Line;
pub use live::{Taken, Wish, take};
pub use symbols::Files;
