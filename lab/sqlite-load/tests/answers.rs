//! SQLite's answers are the same on Quarry as on its own page cache.

use crate::support::{load, printed, text};
use std::fmt::Write;
use std::fs;
use tempfile::TempDir;

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }
}

/// How a database is set up.
#[derive(Clone, Copy, Debug)]
struct Setting {
    page_size: u32,
    journal: &'static str,
    cache_size: i32,
    spill: u32,
    auto_vacuum: u32,
}

const SETTINGS: [Setting; 10] = [
    Setting { page_size: 512, journal: "DELETE", cache_size: 2, spill: 1, auto_vacuum: 0 },
    Setting { page_size: 512, journal: "WAL", cache_size: 2, spill: 1, auto_vacuum: 1 },
    Setting { page_size: 1024, journal: "TRUNCATE", cache_size: 10, spill: 5, auto_vacuum: 2 },
    Setting { page_size: 2048, journal: "MEMORY", cache_size: 2, spill: 2, auto_vacuum: 1 },
    Setting { page_size: 4096, journal: "DELETE", cache_size: -2000, spill: 0, auto_vacuum: 1 },
    Setting { page_size: 4096, journal: "WAL", cache_size: 2, spill: 1, auto_vacuum: 0 },
    Setting { page_size: 8192, journal: "PERSIST", cache_size: 3, spill: 1, auto_vacuum: 2 },
    Setting { page_size: 16384, journal: "WAL", cache_size: 4, spill: 2, auto_vacuum: 1 },
    Setting { page_size: 32768, journal: "DELETE", cache_size: 2, spill: 1, auto_vacuum: 1 },
    Setting { page_size: 65536, journal: "WAL", cache_size: 2, spill: 1, auto_vacuum: 2 },
];

/// A script that follows from a seed: SQL with changes of the schema, blobs, savepoints, rollbacks
/// and VACUUM, and queries after each.
///
/// SQLite overwrites deleted content with zeros, so that files can be compared. Otherwise unused
/// bytes would depend on whether their page was cached.
fn script(setting: Setting, seed: u64, steps: u32) -> String {
    let Setting { page_size, journal, cache_size, spill, auto_vacuum } = setting;
    let mut random = Random(seed);
    let mut sql = format!(
        "PRAGMA page_size = {page_size};\nPRAGMA auto_vacuum = {auto_vacuum};\n\
         PRAGMA journal_mode = {journal};\nPRAGMA synchronous = OFF;\n\
         PRAGMA secure_delete = ON;\n\
         PRAGMA cache_size = {cache_size};\nPRAGMA cache_spill = {spill};\n\
         CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, name TEXT, value BLOB);\n\
         CREATE INDEX t_k ON t (k);\nCREATE TABLE log (what TEXT);\n\
         CREATE TRIGGER gone AFTER DELETE ON t BEGIN\n\
         INSERT INTO log VALUES ('gone ' || old.id); END;\n"
    );
    let mut depth = 0;
    for step in 0..steps {
        change(&mut sql, &mut random, &mut depth, step);
        if step % 5 == 0 {
            sql.push_str(
                "SELECT count(*), sum(k), sum(length(value)), max(name) FROM t;\n\
                 SELECT id, k, name, hex(substr(value, -9)) FROM t ORDER BY k DESC, id LIMIT 7;\n\
                 PRAGMA page_count;\n",
            );
        }
    }
    for _ in 0..depth {
        sql.push_str("RELEASE s;\n");
    }
    sql.push_str(
        "SELECT * FROM t ORDER BY id;\nSELECT count(*), max(what) FROM log;\n\
         SELECT name, sql FROM sqlite_master ORDER BY name;\nPRAGMA freelist_count;\n\
         PRAGMA integrity_check;\n",
    );
    sql
}

fn change(sql: &mut String, random: &mut Random, depth: &mut u32, step: u32) {
    let (k, n) = (random.below(1000), 1 + random.below(40));
    let line = match random.below(14) {
        0..=3 => format!(
            "WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {n})\n\
             INSERT INTO t (k, name, value) SELECT (i * {k}) % 977, 'n' || (i + {k}),\n\
             zeroblob((i * i * {k}) % 3000) || 'x' || i FROM c;"
        ),
        4 => format!("UPDATE t SET value = zeroblob({}) || k WHERE k % 11 = {};", k * 90, k % 11),
        5 => format!("DELETE FROM t WHERE k % 7 = {};", k % 7),
        6 => format!("UPDATE t SET k = k + {n}, name = name || 'u' WHERE id % 5 = {};", k % 5),
        7 => {
            *depth += 1;
            "SAVEPOINT s;".to_owned()
        }
        8 if *depth > 0 => "ROLLBACK TO s;".to_owned(),
        9 if *depth > 0 => {
            *depth -= 1;
            "RELEASE s;".to_owned()
        }
        10 => format!(
            "CREATE TABLE u{step} AS SELECT * FROM t WHERE id % 3 = 1;\n\
             CREATE INDEX i{step} ON u{step} (name);\nSELECT count(*) FROM u{step};"
        ),
        11 => format!(
            "CREATE TEMP TABLE v{step} AS SELECT k, count(*) AS c FROM t GROUP BY k;\n\
             SELECT sum(c) FROM v{step};\nALTER TABLE t ADD COLUMN extra{step} DEFAULT {k};"
        ),
        12 if *depth == 0 => "VACUUM;".to_owned(),
        13 => "PRAGMA incremental_vacuum(3);\nDROP TABLE IF EXISTS u1;\nPRAGMA shrink_memory;"
            .to_owned(),
        _ => format!("REPLACE INTO t (id, k, value) VALUES ({n}, {k}, zeroblob({}));", k * 37),
    };
    writeln!(sql, "{line}").expect("a text takes every line");
}

/// The output of a script on a page cache, and the database that it leaves.
fn answer(variant: &str, database: &str, sql: &str, budget: u64) -> (String, Option<Vec<u8>>) {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("script.sql");
    fs::write(&file, sql).expect("the script is written");
    let database = match database {
        "file" => folder.path().join("a.db"),
        name => name.into(),
    };
    let budget = format!("--budget={budget}");
    let out = printed(&mut load(&["script", variant, text(&database), text(&file), &budget]));
    (out, fs::read(&database).ok())
}

fn compare(database: &str, setting: Setting, seed: u64, steps: u32) {
    let sql = script(setting, seed, steps);
    let (stock, stock_file) = answer("separate", database, &sql, 64 << 20);
    let (ours, our_file) = answer("quarry", database, &sql, 64 << 20);
    assert!(stock.trim_end().ends_with("ok"), "{setting:?}, seed {seed}: {stock}");
    expect_same(&ours, &stock, &format!("{setting:?}, seed {seed}"));
    assert!(our_file == stock_file, "{setting:?}, seed {seed}: the files differ");
}

fn expect_same(ours: &str, stock: &str, what: &str) {
    for (line, (ours, stock)) in ours.lines().zip(stock.lines()).enumerate() {
        assert_eq!(ours, stock, "{what}, line {line}");
    }
    assert_eq!(ours.len(), stock.len(), "{what}");
}

#[test]
fn answers_of_files_are_sqlites_own() {
    for (seed, setting) in SETTINGS.into_iter().enumerate() {
        compare("file", setting, 1000 + seed as u64, 60);
    }
}

#[test]
fn answers_of_databases_in_memory_are_sqlites_own() {
    for (seed, setting) in SETTINGS.into_iter().enumerate().step_by(3) {
        compare(":memory:", setting, 2000 + seed as u64, 60);
    }
}

#[test]
fn answers_of_temporary_databases_are_sqlites_own() {
    for (seed, setting) in SETTINGS.into_iter().enumerate().skip(1).step_by(3) {
        compare("temporary", setting, 3000 + seed as u64, 60);
    }
}

/// The budget is a fraction of the database, so pages are evicted and read again all the time.
#[test]
fn answers_under_a_small_budget_are_sqlites_own() {
    // SQLite may not spill dirty pages, so they stay in memory.
    let setting = Setting { spill: 1, ..SETTINGS[4] };
    let mut sql = script(setting, 4000, 30);
    sql.push_str(
        "WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 30000)\n\
         INSERT INTO t (k, name, value) SELECT i, 'n' || i, zeroblob(600) || i FROM c;\n",
    );
    for k in 0..40 {
        writeln!(sql, "SELECT sum(length(value)), max(name) FROM t WHERE k % 40 = {k};").unwrap();
    }
    sql.push_str("PRAGMA integrity_check;\n");
    let (stock, _) = answer("separate", "file", &sql, 4 << 20);
    let (ours, _) = answer("quarry", "file", &sql, 6 << 20);
    assert!(stock.trim_end().ends_with("ok"), "{stock}");
    expect_same(&ours, &stock, "a small budget");
}

/// A database in memory outgrows the budget: SQLite reports that, and goes on.
#[test]
fn what_does_not_fit_is_out_of_memory() {
    let sql = "CREATE TABLE t (value BLOB);\n\
         WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 20000)\n\
         INSERT INTO t SELECT zeroblob(3000) FROM c;\n\
         SELECT count(*) FROM t;\nINSERT INTO t VALUES (1);\nSELECT count(*) FROM t;\n\
         PRAGMA integrity_check;\n";
    let (out, _) = answer("quarry", ":memory:", sql, 8 << 20);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines, ["SQLite: out of memory (7)", "0", "1", "ok"], "{out}");
}
