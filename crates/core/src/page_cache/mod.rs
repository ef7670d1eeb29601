//! The page cache: pages of files and databases, by mapping and index.

mod cache;
mod counters;
mod descriptors;
mod host;
mod mapping;
mod options;
mod outcome;
mod waits;

pub use cache::{PageCache, PageCacheRef};
pub use counters::{EVENTS, Event, EventCounts};
pub use host::{CacheHost, Host};
pub use mapping::{MappingId, MappingOptions};
pub use options::{PageCacheOptions, TruncationPolicy};
pub use outcome::{
    Effort, Full, Invalidate, Invalidated, ReadError, RekeyError, ScanFor, ScanRequest, Scanned,
    Slot,
};
