//! The example of `docs/sqlite.md`: rusqlite, with the SQLite that it bundles, on Quarry.

use anyhow::{Context, Result};
use rusqlite::{Connection, params};
use std::path::Path;

#[global_allocator]
static HEAP: quarry::Quarry = quarry::Quarry;

/// Bytes of the blob of a row.
pub const BLOB: usize = 1000;

/// Rows of a transaction. The pages that a transaction changes stay in use until it ends, so the
/// limit must have room for the changed pages of all transactions at once.
const TOGETHER: u32 = 500;

/// Installs Quarry as SQLite's page cache and heap, before the first connection.
///
/// # Errors
/// If SQLite is in use already, or Quarry serves nothing in this process.
pub fn install() -> Result<()> {
    // SAFETY: the function is SQLite's own, and programs call this before they open a connection.
    unsafe { quarry_sqlite::install(rusqlite::ffi::sqlite3_config) }.context("SQLite stays as is")
}

/// Creates a database of `rows` rows, whose blobs depend on `seed`.
///
/// # Errors
/// The error of SQLite.
pub fn fill(file: &Path, rows: u32, seed: u32) -> Result<Connection> {
    let mut connection = Connection::open(file)?;
    connection.execute_batch("CREATE TABLE data (key INTEGER PRIMARY KEY, value BLOB)")?;
    for first in (0..rows).step_by(TOGETHER as usize) {
        let change = connection.transaction()?;
        for key in first..rows.min(first + TOGETHER) {
            let mut insert = change.prepare_cached("INSERT INTO data VALUES (?, ?)")?;
            insert.execute(params![key, blob(key, seed)])?;
        }
        change.commit()?;
    }
    Ok(connection)
}

/// The blob of the row with this key.
#[must_use]
pub fn blob(key: u32, seed: u32) -> Vec<u8> {
    let word = key.wrapping_mul(2_654_435_761) ^ seed;
    word.to_le_bytes().into_iter().cycle().take(BLOB).collect()
}

/// Reads the blob of a row.
///
/// # Errors
/// The error of SQLite.
pub fn read(connection: &Connection, key: u32) -> Result<Vec<u8>> {
    let mut select = connection.prepare_cached("SELECT value FROM data WHERE key = ?")?;
    Ok(select.query_row([key], |row| row.get(0))?)
}
