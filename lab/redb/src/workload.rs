//! Work on a database, in steps; the steps' answers can be compared.

use anyhow::{Context, Result, ensure};
use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};
use std::time::{Duration, Instant};

const RECORDS: TableDefinition<u64, &[u8]> = TableDefinition::new("records");
const BY_NAME: TableDefinition<&str, u64> = TableDefinition::new("by name");

const BATCH: u64 = 1000;
/// One record in `REWRITTEN` gets a longer value; of the others, one in `DELETED` is deleted.
const DELETED: u64 = 7;
const REWRITTEN: u64 = 5;

/// The amount of work.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Records that are inserted.
    pub records: u64,
    /// Records that are read at random afterwards.
    pub lookups: u64,
}

/// The answers of a database. Databases with the same content give the same answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Records that are left.
    pub records: u64,
    /// Digest of every record, in order.
    pub all: u64,
    /// Digest of the records that were looked up at random, in that order.
    pub looked_up: u64,
    /// Digest of ranges of names, read backwards.
    pub ranges: u64,
}

fn add(digest: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(digest ^ bytes.len() as u64, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A number that looks random but follows from `number` (SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 31
}

/// The value of a record: 100 to 611 bytes; `version` 1 is twice as long.
fn value(key: u64, version: u64) -> Vec<u8> {
    let seed = mixed(key << 1 | version);
    let len = (100 + seed % 512) * (1 + version);
    (0..len).map(|at| (seed >> (at % 57)) as u8).collect()
}

fn name(key: u64) -> String {
    format!("{:016x}", mixed(key))
}

/// Inserts all records, then deletes some and rewrites some.
///
/// # Errors
/// The error of redb.
pub fn fill(database: &Database, amount: Amount) -> Result<()> {
    let mut next = 0;
    while next < amount.records {
        let end = amount.records.min(next + BATCH);
        let transaction = database.begin_write()?;
        {
            let mut records = transaction.open_table(RECORDS)?;
            let mut by_name = transaction.open_table(BY_NAME)?;
            for key in next..end {
                records.insert(key, value(key, 0).as_slice())?;
                by_name.insert(name(key).as_str(), key)?;
            }
        }
        transaction.commit()?;
        next = end;
    }
    // Transactions are small, because redb keeps their changes in the heap, under the same limit.
    let changed: Vec<u64> =
        (0..amount.records).filter(|key| is_deleted(*key) || is_rewritten(*key)).collect();
    for keys in changed.chunks(BATCH as usize) {
        let transaction = database.begin_write()?;
        {
            let mut records = transaction.open_table(RECORDS)?;
            for key in keys {
                match is_deleted(*key) {
                    true => drop(records.remove(*key)?),
                    false => drop(records.insert(*key, value(*key, 1).as_slice())?),
                }
            }
        }
        transaction.commit()?;
    }
    Ok(())
}

fn is_deleted(key: u64) -> bool {
    mixed(key).is_multiple_of(DELETED) && !is_rewritten(key)
}

fn is_rewritten(key: u64) -> bool {
    mixed(key).is_multiple_of(REWRITTEN)
}

/// Reads everything, then `lookups` records at random, and compares each with what was written.
/// Returns the answers and the time of the random part.
///
/// # Errors
/// The error of redb, or a wrong record.
pub fn read(database: &Database, amount: Amount) -> Result<(Answers, Duration)> {
    let transaction = database.begin_read()?;
    let records = transaction.open_table(RECORDS)?;
    let mut answers = Answers { records: records.len()?, ..Answers::default() };
    for entry in records.iter()? {
        let (key, found) = entry?;
        let (key, found) = (key.value(), found.value());
        check(key, Some(found))?;
        answers.all = add(answers.all ^ key, found);
    }
    let by_name = transaction.open_table(BY_NAME)?;
    for start in 0..16_u64 {
        let range = format!("{start:x}0")..format!("{start:x}8");
        let names = by_name.range(range.start.as_str()..range.end.as_str())?;
        for entry in names.rev() {
            let (name, key) = entry?;
            answers.ranges = add(answers.ranges ^ key.value(), name.value().as_bytes());
        }
    }
    let start = Instant::now();
    for turn in 0..amount.lookups {
        let key = mixed(turn ^ 0xace) % amount.records;
        let found = records.get(key)?;
        let found = found.as_ref().map(|it| it.value());
        check(key, found)?;
        answers.looked_up = add(answers.looked_up, found.unwrap_or_default());
    }
    Ok((answers, start.elapsed()))
}

fn check(key: u64, found: Option<&[u8]>) -> Result<()> {
    if is_deleted(key) {
        ensure!(found.is_none(), "record {key} was deleted");
        return Ok(());
    }
    let found = found.with_context(|| format!("record {key} is lost"))?;
    ensure!(found == value(key, is_rewritten(key).into()), "record {key} is another");
    Ok(())
}
