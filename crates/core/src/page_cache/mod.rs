//! The page cache: pages of files and databases, by mapping and index.

mod cache;
mod counters;
mod descriptors;
mod error_sequence;
mod host;
mod mapping;
mod options;
mod outcome;
mod readahead;
mod waits;

pub use cache::{PageCache, PageCacheRef};
pub use counters::{EVENTS, Event, EventCounts};
pub use error_sequence::{ErrorCursor, ErrorSequence};
pub use host::{CacheHost, Host};
pub use mapping::{MappingId, MappingOptions};
pub use options::{PageCacheOptions, TruncationPolicy};
pub use outcome::{
    Effort, Full, Invalidate, Invalidated, ReadError, RekeyError, ScanFor, ScanRequest, Scanned,
    Slot,
};
pub use readahead::{Need, READAHEAD_BYTES, ReadAhead, Trigger, Window};
