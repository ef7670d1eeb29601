//! The page cache: pages of files and databases, by mapping and index.

mod aside;
mod cache;
mod counters;
mod descriptors;
mod dirty;
mod error_sequence;
mod fill;
mod group_scan;
mod held;
mod host;
pub mod index;
mod invalidate;
mod latch;
mod leave;
mod lookup;
mod mapping;
mod options;
mod outcome;
mod print;
mod readahead;
mod release;
mod scan;
mod slack;
mod truncate;
mod validate;
mod waits;
pub mod workingset;

pub use cache::{PageCache, PageCacheRef};
pub use counters::{EVENTS, Event, EventCounts};
pub use error_sequence::{ErrorCursor, ErrorSequence};
pub use host::{Host, NodeHost};
pub use mapping::{MappingId, MappingOptions};
pub use options::{PageCacheOptions, TruncationPolicy};
pub use outcome::{
    Effort, Full, Invalidate, Invalidated, ReadError, RekeyError, ScanFor, ScanRequest, Scanned,
    Slot,
};
pub use readahead::{Need, READAHEAD_BYTES, ReadAhead, Trigger, Window};
