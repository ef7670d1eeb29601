//! The databases for look-ups. A row's bytes follow from the numbers of its database and the row.

use crate::api::{Api, plain};
use crate::connection::Connection;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const VALUE_BYTES: usize = 200;
/// Rows that are inserted between two checks of the file's size.
const BATCH: i64 = 512;
pub(crate) const LOOKUP: &str = "SELECT value FROM rows WHERE id = ?1";

pub(crate) fn file_of(folder: &Path, database: usize) -> PathBuf {
    folder.join(format!("{database:03}.db"))
}

/// Mixes a number: the finalizer of splitmix64.
pub(crate) fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

pub(crate) fn value(database: usize, id: i64) -> [u8; VALUE_BYTES] {
    let mut bytes = [0; VALUE_BYTES];
    let mut word = mixed((database as u64) << 40 ^ id as u64);
    for chunk in bytes.chunks_exact_mut(8) {
        chunk.copy_from_slice(&word.to_le_bytes());
        word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    }
    bytes
}

/// Creates databases of `bytes` bytes each; databases that exist stay as they are.
pub(crate) fn create(folder: &Path, databases: usize, bytes: u64) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for database in 0..databases {
        let file = file_of(folder, database);
        if file.exists() {
            continue;
        }
        let fresh = file.with_extension("new");
        let _ = fs::remove_file(&fresh);
        fill(plain(), &fresh, database, bytes).with_context(|| fresh.display().to_string())?;
        fs::rename(&fresh, &file)?;
    }
    Ok(())
}

fn fill(api: &'static Api, file: &Path, database: usize, bytes: u64) -> Result<()> {
    let connection = Connection::create(api, file)?;
    connection.run(
        "PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;
         CREATE TABLE rows (id INTEGER PRIMARY KEY, value BLOB NOT NULL);",
    )?;
    let pages = i64::try_from(bytes / 4096)?;
    let mut next = 1;
    {
        let mut insert = connection.prepare("INSERT INTO rows VALUES (?1, ?2)")?;
        while connection.integer("PRAGMA page_count")? < pages {
            for id in next..next + BATCH {
                insert.bind(1, id);
                insert.bind_blob(2, &value(database, id));
                ensure!(!insert.step()?, "an INSERT has no rows");
                insert.reset();
            }
            next += BATCH;
        }
    }
    connection.run("COMMIT")?;
    Ok(())
}
