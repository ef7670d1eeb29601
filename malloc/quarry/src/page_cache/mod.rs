//! The page cache of the process, and the budget that it shares with the heap.
//!
//! Each file uses only those before it:
//!
//! ```text
//! writers -> balancing
//! backing, registration -> budget, raw_mapping, file_backing
//! mapping_core -> page, fill, writeback -> file_mapping -> cache
//! ```

mod backing;
mod balancing;
mod budget;
mod cache;
mod file_backing;
mod file_mapping;
mod fill;
mod mapping_core;
mod page;
mod raw_mapping;
mod registration;
mod writeback;
mod writers;

pub use backing::{Access, Backing, ReadOnly, ReadWrite};
pub use budget::Budget;
pub use cache::{MappingBuilder, PageCache, PageCacheStats};
pub use file_backing::FileBacking;
pub use file_mapping::{Flusher, Mapping};
pub use page::{NewPage, PageRead, PageRef, PageSlot, PageWrite};
pub use raw_mapping::{
    Effort, Invalidate, Invalidated, MappingOptions, RawMapping, RawPage, RawSlot,
};
pub use registration::Registration;
