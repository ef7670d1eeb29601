//! Traces: the calls of `malloc`, `free` and related functions by one process, a few bytes each.
//!
//! A process maps the file of its trace while it runs, so the file stays readable however the
//! process ends. A file has a header ([`layout`]) and chunks of [`CHUNK_BYTES`]. Each chunk is one
//! thread's, which appends [events](Event). Threads share only the number of chunks in use.
//!
//! Order of the files, each using only those before it: `varint`, `event`, `layout`, `reader`.
//!
//! A new kind of call needs a variant in `event` and a new `VERSION` in `layout`. `symbols` of the
//! tracer writes it, and `simulate` of the simulator replays it.

mod event;
pub mod layout;
mod reader;
mod varint;

pub use event::{Call, Decoder, Encoder, Event, LONGEST_EVENT};
pub use layout::CHUNK_BYTES;
pub use reader::{Trace, TraceError};
