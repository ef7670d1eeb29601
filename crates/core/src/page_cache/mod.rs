//! The page cache: pages of files and databases, by mapping and index.

mod host;
pub mod index;
mod options;
pub mod workingset;

pub use host::{Host, NodeHost};
pub use options::{PageCacheOptions, TruncationPolicy};
