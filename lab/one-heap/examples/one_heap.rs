//! Engines in C++ and C beside Rust code, on one heap: RocksDB, SQLite and zstd take their memory
//! from Quarry, because the program has its crate with the feature `override`.
//!
//! `one-heap FOLDER` fills the engines, prints what they hold, and waits for a line on its standard
//! input. Then it sets a limit, which all of them obey. `tests/one_heap.rs` looks at it meanwhile.

use quarry::Quarry;
use rocksdb::{DB, Options, properties};
use rusqlite::{Connection, ErrorCode, params};
use std::error::Error;
use std::io::Write;
use std::path::Path;

#[global_allocator]
static A: Quarry = Quarry;

const ROWS: u32 = 20_000;
const KEYS: u32 = 50_000;
const VALUE: [u8; 400] = [7; 400];

/// Keys and values that stay in RocksDB's memory tables.
fn rocksdb(folder: &Path) -> Result<DB, rocksdb::Error> {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(128 << 20);
    let store = DB::open(&options, folder)?;
    for key in 0..KEYS {
        store.put(key.to_be_bytes(), VALUE)?;
    }
    Ok(store)
}

/// A database of SQLite in memory.
fn sqlite() -> rusqlite::Result<Connection> {
    let mut database = Connection::open_in_memory()?;
    database.execute("CREATE TABLE data (key INTEGER PRIMARY KEY, value BLOB)", [])?;
    let change = database.transaction()?;
    for key in 0..ROWS {
        let mut insert = change.prepare_cached("INSERT INTO data VALUES (?, ?)")?;
        insert.execute(params![key, VALUE])?;
    }
    change.commit()?;
    Ok(database)
}

/// A compressor of zstd with a window of 8 MiB.
fn zstd() -> std::io::Result<zstd::Encoder<'static, Vec<u8>>> {
    let mut compressor = zstd::Encoder::new(Vec::new(), 3)?;
    compressor.window_log(23)?;
    (0..ROWS).try_for_each(|number| compressor.write_all(&number.to_le_bytes().repeat(100)))?;
    Ok(compressor)
}

/// Texts of Rust code.
fn texts() -> Vec<String> {
    (0..ROWS).map(|number| format!("{number:0400}")).collect()
}

/// Returns whether the C library's own heap is unused: then the kernel lists none.
fn is_alone() -> std::io::Result<bool> {
    Ok(!std::fs::read_to_string("/proc/self/maps")?.contains("[heap]"))
}

/// At the limit each of them gets an error of its own, and goes on.
fn at_the_limit(database: &Connection, store: &DB) -> Result<(), Box<dyn Error>> {
    let used = Quarry::stats().ok_or("Quarry serves")?.budget.used;
    let mut compressor = zstd::Encoder::new(Vec::new(), 19)?;
    compressor.window_log(27)?;
    Quarry::set_limit(used + (4 << 20))?;
    let large = database.execute("INSERT INTO data VALUES (-1, randomblob(100000000))", []);
    let text = Vec::<u8>::new().try_reserve_exact(100_000_000);
    let window = compressor.write_all(&VALUE);
    // The text of a failed assertion takes memory.
    Quarry::set_limit(usize::MAX)?;
    let refused = large.err().and_then(|error| error.sqlite_error_code());
    assert_eq!(refused, Some(ErrorCode::OutOfMemory), "SQLite");
    assert!(text.is_err(), "Rust");
    assert!(window.is_err(), "zstd");
    store.put("after", VALUE)?;
    database.execute("INSERT INTO data VALUES (-1, zeroblob(100000))", [])?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("usage: one-heap FOLDER")?;
    let folder = Path::new(&folder);
    quarry::profile::start(16 << 10)?;
    let (store, database) = (rocksdb(&folder.join("store"))?, sqlite()?);
    let (compressor, texts) = (zstd()?, texts());
    let tables = store.property_int_value(properties::CUR_SIZE_ALL_MEM_TABLES)?.unwrap_or(0);
    let rows: i64 =
        database.query_row("SELECT sum(length(value)) FROM data", [], |row| row.get(0))?;
    let text: usize = texts.iter().map(String::len).sum();
    quarry::profile::write_to(std::fs::File::create(folder.join("profile"))?)?;
    quarry::profile::stop();
    // The sum of what must be on the heap, and whether another one is in use.
    println!("{} {}", tables + rows as u64 + (8 << 20) + text as u64, is_alone()?);
    std::io::stdin().read_line(&mut String::new())?;
    drop(compressor);
    at_the_limit(&database, &store)?;
    Quarry::validate()?;
    println!("one limit");
    Ok(())
}
