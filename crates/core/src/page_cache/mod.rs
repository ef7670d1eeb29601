//! The page cache: pages of files and databases, by mapping and index.

mod cache;
mod counters;
mod descriptors;
mod host;
pub mod index;
mod mapping;
mod options;
mod outcome;
mod waits;
pub mod workingset;

pub use cache::{PageCache, PageCacheRef};
pub use counters::{EVENTS, Event, EventCounts};
pub use host::{Host, NodeHost};
pub use mapping::{MappingId, MappingOptions};
pub use options::{PageCacheOptions, TruncationPolicy};
pub use outcome::{
    Effort, Full, Invalidate, Invalidated, ReadError, RekeyError, ScanFor, ScanRequest, Scanned,
    Slot,
};
