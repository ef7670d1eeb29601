//! redb gives the same answers on Quarry's page cache as on its own, even if the cache is much
//! smaller than the database, or the heap takes memory from it.

use anyhow::{Result, ensure};
use quarry::{PageCache, Quarry};
use redb_on_quarry::database::CachedBy;
use redb_on_quarry::workload::{Amount, Answers, fill, read};
use std::path::Path;
use std::sync::Mutex;

const MIB: usize = 1 << 20;
const AMOUNT: Amount = Amount { records: 20_000, lookups: 20_000 };

/// The limit belongs to the whole process, so only one test at a time may set it.
static LIMIT: Mutex<()> = Mutex::new(());

/// Runs `work` under a limit. Unwraps its result after the limit has been lifted, because a
/// failure's message needs memory too.
fn within<T>(limit: usize, work: impl FnOnce() -> Result<T>) -> T {
    Quarry::set_limit(limit).unwrap();
    let done = work();
    Quarry::set_limit(usize::MAX).unwrap();
    done.unwrap()
}

/// Fills a database, reads it, opens it again, reads it again, and checks its integrity.
fn answers(by: CachedBy, file: &Path) -> Result<Answers> {
    let database = by.open(file)?;
    fill(&database, AMOUNT)?;
    let (first, _) = read(&database, AMOUNT)?;
    drop(database);
    let mut database = by.open(file)?;
    let (second, _) = read(&database, AMOUNT)?;
    ensure!(first == second, "the answers differ after it was opened again");
    ensure!(database.check_integrity()?, "something had to be repaired");
    Ok(first)
}

fn both(limit: usize) {
    let _held = LIMIT.lock().unwrap_or_else(|it| it.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let own = answers(CachedBy::Redb(4 * MIB), &folder.path().join("own")).unwrap();
    let file = folder.path().join("on-quarry");
    let on_quarry = within(limit, || answers(CachedBy::Quarry, &file));
    assert_eq!(own, on_quarry);
}

#[test]
fn everything_fits() {
    both(256 * MIB);
}

#[test]
fn the_cache_is_smaller_than_the_database() {
    both(12 * MIB);
}

#[test]
fn each_reads_what_the_other_wrote() {
    let _held = LIMIT.lock().unwrap_or_else(|it| it.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let (own, on_quarry) = (folder.path().join("own"), folder.path().join("on-quarry"));
    fill(&CachedBy::Redb(4 * MIB).open(&own).unwrap(), AMOUNT).unwrap();
    fill(&CachedBy::Quarry.open(&on_quarry).unwrap(), AMOUNT).unwrap();
    let (one, _) = read(&CachedBy::Quarry.open(&own).unwrap(), AMOUNT).unwrap();
    let (other, _) = read(&CachedBy::Redb(4 * MIB).open(&on_quarry).unwrap(), AMOUNT).unwrap();
    assert_eq!(one, other);
}

#[test]
fn a_heap_that_grows_takes_pages_from_the_cache_and_gives_them_back() {
    let _held = LIMIT.lock().unwrap_or_else(|it| it.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let database = CachedBy::Quarry.open(&folder.path().join("shared")).unwrap();
    fill(&database, AMOUNT).unwrap();
    let (before, during, after) = within(24 * MIB, || {
        let (before, _) = read(&database, AMOUNT)?;
        let cached = PageCache::stats().pages();
        let heap: Vec<Vec<u8>> = (0..12).map(|at| vec![at; MIB]).collect();
        ensure!(PageCache::stats().pages() < cached, "the heap took nothing of {cached} pages");
        let (during, _) = read(&database, AMOUNT)?;
        let is_whole = |(at, mib): (usize, &Vec<u8>)| mib.iter().all(|byte| *byte == at as u8);
        ensure!(heap.iter().enumerate().all(is_whole), "the heap is not what was written");
        drop(heap);
        let (after, _) = read(&database, AMOUNT)?;
        Ok((before, during, after))
    });
    assert_eq!((&before, &before), (&during, &after));
}
