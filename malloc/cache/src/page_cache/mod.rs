//! The cached pages of files and databases. In this folder a *mapping* is a file mapping.
//!
//! A page stays while it is in an index (`LIVE`) or pinned. Truncation and eviction take it out of
//! the index; the task that then gives up the last pin releases it. Changes of an index, and of
//! `LIVE`, `DIRTY` and the key of its pages, need the lock of its mapping. A hit takes no lock.
//!
//! Lock order: a mapping (one at a time), the lists of the LRU or of shadow nodes, slabs, page
//! lists, zones. Reclaim takes mappings in the other direction, and therefore only by `try_lock`.
//!
//! Each file uses only files to its left:
//!
//! ```text
//! outcome, host, counters, waits, descriptors, demand, error_sequence, readahead, index
//!     -> workingset, list_balance, tail_blocks, mapping -> cache
//!     -> release -> lookup, latch -> dirty, scan -> group_scan -> alloc -> leave -> fill
//!     -> held, truncate, invalidate, validate
//! ```

mod alloc;
mod cache;
mod counters;
mod demand;
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
mod list_balance;
mod lookup;
mod mapping;
mod outcome;
mod readahead;
mod release;
mod scan;
mod tail_blocks;
mod truncate;
mod validate;
mod waits;
pub mod workingset;

pub use cache::{PageCache, PageCacheRef};
pub use counters::{EVENTS, Event, EventCounts};
pub use error_sequence::{ErrorCursor, ErrorSequence};
pub use host::{Basis, Host, NodeHost};
pub use mapping::{MappingId, MappingOptions};
pub use outcome::{
    Effort, Full, Invalidate, Invalidated, PageCacheOptions, ReadError, RekeyError, ScanFor,
    ScanRequest, Scanned, Slot, TruncationPolicy,
};
pub use readahead::{Need, READAHEAD_BYTES, ReadAhead, Trigger, Window};
