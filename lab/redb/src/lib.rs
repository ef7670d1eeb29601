//! The storage engine redb on Quarry: redb's pages are in Quarry's page cache, under one limit with
//! the heap of the process.
//!
//! ```text
//! storage   a file through Quarry's page cache, as redb's storage
//! database  a database with redb's own cache, or on Quarry
//! workload  work on a database, and its answers
//! ```

pub mod database;
pub mod storage;
pub mod workload;

#[global_allocator]
static HEAP: quarry::Quarry = quarry::Quarry;
