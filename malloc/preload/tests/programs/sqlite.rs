//! sqlite3 builds, changes and checks a database of 100,000 rows.

use std::fs;

use super::installed;
use crate::support::{Run, scratch};

const SCRIPT: &str = "
PRAGMA journal_mode = WAL;
PRAGMA cache_size = -2000;
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, weight REAL, note BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
  INSERT INTO item
    SELECT i, printf('name-%d', i * 7919 % 100003), i * 0.37, zeroblob(i % 97) FROM n;
CREATE INDEX by_name ON item (name);
CREATE UNIQUE INDEX by_weight_and_id ON item (weight, id);
UPDATE item SET note = CAST(printf('%0*d', id % 500, id) AS BLOB), weight = weight + 1
  WHERE id % 3 = 0;
DELETE FROM item WHERE id % 5 = 0;
CREATE TABLE words AS SELECT name || '-' || id AS word, length(note) AS size FROM item;
CREATE TEMP TABLE sorted AS SELECT * FROM item ORDER BY name DESC, weight;
INSERT INTO item SELECT id + 1000000, upper(name), -id, note FROM sorted WHERE id % 2 = 0;
SELECT count(*), sum(id), round(total(weight), 3), sum(length(note)) FROM item;
SELECT size, count(*), group_concat(word) FROM words
  GROUP BY size HAVING size % 50 = 7 ORDER BY size;
VACUUM;
REINDEX;
PRAGMA integrity_check;
";

#[test]
fn sqlite_keeps_its_database_whole() {
    let sqlite = installed("sqlite3", "sqlite3");
    let run = |run: Run| {
        let folder = scratch();
        let script = folder.join("script.sql");
        fs::write(&script, SCRIPT).expect("scratch is writable");
        run.limit_s(300).arg(folder.join("items.db")).input(&script).finish().success()
    };
    let without = run(Run::bare(&sqlite));
    let with = run(Run::new(&sqlite));
    let last = with.stdout.lines().last();
    assert_eq!(last, Some("ok"), "integrity_check\n{with}");
    assert_eq!(with.stdout, without.stdout, "the answers differ\n{with}");
    let allocs = with.stats().object_allocs();
    assert!(allocs > 100_000, "the program made {allocs} allocations\n{with}");
}
