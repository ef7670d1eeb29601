//! A database with redb's own cache, or with its pages in Quarry's.

use crate::storage::CachedFile;
use anyhow::Result;
use redb::{Builder, Database};
use std::fmt;
use std::path::Path;

/// The cache of the pages of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedBy {
    /// redb, in this many bytes of the heap.
    Redb(usize),
    /// Quarry's page cache. redb's own cache gets no bytes, so that every read of a page goes to
    /// the storage.
    Quarry,
}

impl CachedBy {
    /// Opens the database in this file, or creates one.
    ///
    /// # Errors
    /// The error of the system or of redb.
    pub fn open(self, file: &Path) -> Result<Database> {
        let mut builder = Builder::new();
        Ok(match self {
            Self::Redb(bytes) => builder.set_cache_size(bytes).create(file)?,
            Self::Quarry => {
                builder.set_cache_size(0).create_with_backend(CachedFile::open(file)?)?
            }
        })
    }
}

impl fmt::Display for CachedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redb(bytes) => write!(f, "redb's own cache of {} MiB", bytes >> 20),
            Self::Quarry => f.write_str("Quarry's page cache"),
        }
    }
}
