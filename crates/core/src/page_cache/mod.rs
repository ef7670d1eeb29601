//! The page cache: pages of files and databases, by mapping and index.

mod host;
mod options;
mod readahead;

pub use host::Host;
pub use options::{PageCacheOptions, TruncationPolicy};
pub use readahead::{Need, READAHEAD_BYTES, ReadAhead, Trigger, Window};
