//! Quarry as the page cache and the heap of SQLite: all databases of a process under one budget.
//!
//! Before the first connection, with rusqlite:
//!
//! ```ignore
//! // SAFETY: SQLite has not been used yet.
//! unsafe { quarry_sqlite::install(rusqlite::ffi::sqlite3_config) }?;
//! quarry::Quarry::set_limit(256 << 20)?;
//! ```
//!
//! Programs in C call `quarry_sqlite_install()` of `libquarry_sqlite.so`, or preload the object.
//! `docs/sqlite.md` describes the effects.
//!
//! A page of a database is a page of Quarry's page cache, and is looked up without a lock. Every
//! cache of SQLite (`sqlite3_pcache`) is a file mapping. Pages that SQLite has unpinned are clean,
//! so Quarry reclaims them when any part of the process is short of memory.

// Each file uses only those above it.
//
//     abi, insist
//     records, heap
//     page_cache
//     methods
//     install
mod abi;
mod heap;
mod insist;
mod install;
mod methods;
mod page_cache;
mod records;

pub use abi::{ConfigFn, MemMethods, Pcache, PcacheMethods2, PcachePage};
pub use heap::heap_methods;
pub use install::{InstallError, install, install_heap, install_page_cache};
pub use methods::page_cache_methods;
pub use page_cache::{cached_pages, open_caches};
