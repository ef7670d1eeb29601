//! The page cache: pages of files and databases, by mapping and index.

mod error_sequence;
mod host;
mod options;
mod readahead;

pub use error_sequence::{ErrorCursor, ErrorSequence};
pub use host::Host;
pub use options::{PageCacheOptions, TruncationPolicy};
pub use readahead::{Need, READAHEAD_BYTES, ReadAhead, Trigger, Window};
