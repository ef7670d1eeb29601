//! Many connections under one limit: the answers are right, and the limit holds.

use anyhow::{Context, Result, ensure};
use quarry::{Budget, PageCache, Quarry};
use rusqlite::Connection;
use rusqlite_on_quarry::{blob, fill, install, read};
use std::thread;

const MIB: usize = 1 << 20;
const LIMIT: usize = 64 * MIB;
const DATABASES: u32 = 12;
/// Rows of each database, which make it 10 MiB: all databases together have nearly twice the limit.
const ROWS: u32 = 8_000;
const PAGE: u64 = 4096;

/// Reads rows at random, and returns the largest number of cached pages that it has seen.
fn look_up(connection: &Connection, seed: u32) -> Result<u64> {
    let budget = Budget::get().context("Quarry serves")?;
    let (mut at, mut most) = (seed, 0);
    for _ in 0..3_000 {
        at = at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let key = (at >> 8) % ROWS;
        ensure!(read(connection, key)? == blob(key, seed), "row {key} of database {seed}");
        most = most.max(PageCache::stats().pages());
        let used = budget.stats().used;
        ensure!(used <= LIMIT, "{used} bytes are in use");
    }
    Ok(most)
}

#[test]
fn many_connections_share_one_limit() -> Result<()> {
    install()?;
    ensure!(install().is_ok(), "before the first use of SQLite, it may be called twice");
    Quarry::set_limit(LIMIT)?;
    let folder = tempfile::tempdir()?;
    let most = thread::scope(|scope| -> Result<Vec<u64>> {
        let folder = folder.path();
        let work = |seed: u32| -> Result<u64> {
            // Each database has two connections: a writer, which goes on, and a reader.
            let writer = fill(&folder.join(seed.to_string()), ROWS, seed)?;
            let reader = Connection::open(folder.join(seed.to_string()))?;
            let most = look_up(&writer, seed)?.max(look_up(&reader, seed)?);
            for connection in [&writer, &reader] {
                let sound: String =
                    connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
                ensure!(sound == "ok", "{sound}");
            }
            Ok(most)
        };
        let all: Vec<_> = (0..DATABASES).map(|seed| scope.spawn(move || work(seed))).collect();
        all.into_iter().map(|one| one.join().expect("it does not panic")).collect()
    })?;
    let most = most.into_iter().max().unwrap_or(0);
    ensure!(most * PAGE > LIMIT as u64 / 4, "{most} pages: SQLite's are elsewhere");
    ensure!(install().is_err(), "SQLite is in use");
    Ok(())
}
