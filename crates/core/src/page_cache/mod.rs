//! The page cache: pages of files and databases, by mapping and index.

mod host;
mod options;

pub use host::Host;
pub use options::{PageCacheOptions, TruncationPolicy};
