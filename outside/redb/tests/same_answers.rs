//! redb gives the same answers on Quarry's page cache as on its own, also where the cache is much
//! smaller than the database, and where the heap wants its memory.

use quarry::Quarry;
use redb_on_quarry::database::CachedBy;
use redb_on_quarry::workload::{Amount, Answers, fill, read};
use std::path::Path;
use std::sync::Mutex;

const MIB: usize = 1 << 20;
const AMOUNT: Amount = Amount { records: 20_000, lookups: 20_000 };

/// The limit belongs to the process: one test at a time has it.
static LIMIT: Mutex<()> = Mutex::new(());

/// Fills a database, reads it, opens it again, reads it again, and checks its integrity.
fn answers(by: CachedBy, file: &Path) -> Answers {
    let database = by.open(file).unwrap();
    fill(&database, AMOUNT).unwrap();
    let (first, _) = read(&database, AMOUNT).unwrap();
    drop(database);
    let mut database = by.open(file).unwrap();
    let (second, _) = read(&database, AMOUNT).unwrap();
    assert_eq!(first, second);
    assert!(database.check_integrity().unwrap(), "nothing is to be repaired");
    first
}

fn both(limit: usize) {
    let _held = LIMIT.lock().unwrap_or_else(|it| it.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let own = answers(CachedBy::Redb(4 * MIB), &folder.path().join("own"));
    assert!(Quarry::set_limit(limit));
    let file = folder.path().join("on-quarry");
    let on_quarry = answers(CachedBy::Quarry, &file);
    assert!(std::fs::metadata(&file).unwrap().len() > limit as u64 / 4);
    assert!(Quarry::set_limit(usize::MAX));
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
    let limit = 24 * MIB;
    assert!(Quarry::set_limit(limit));
    let (before, _) = read(&database, AMOUNT).unwrap();
    let heap: Vec<Vec<u8>> = (0..16).map(|at| vec![at; MIB]).collect();
    let (during, _) = read(&database, AMOUNT).unwrap();
    assert!(heap.iter().enumerate().all(|(at, mib)| mib.iter().all(|byte| *byte == at as u8)));
    drop(heap);
    let (after, _) = read(&database, AMOUNT).unwrap();
    assert!(Quarry::set_limit(usize::MAX));
    assert_eq!((&before, &before), (&during, &after));
}
