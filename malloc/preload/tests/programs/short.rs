//! Short runs of four real programs, on the library of each slab policy in turn
//! (`scripts/test.sh policies`). Each gives the same answers as without the library, and the
//! statistics that it writes name the policy.

use std::fs;

use super::compiler::{compile, functions};
use super::redis::{Client, socket, start_server};
use super::{answer, installed};
use crate::support::{Outcome, Run, library, scratch, slab_policy};

/// Builds, changes, sorts and checks a table of 20,000 rows.
const ROWS: &str = "
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, note BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
  INSERT INTO item SELECT i, printf('name-%d', i * 7919 % 20011), zeroblob(i % 97) FROM n;
CREATE INDEX by_name ON item (name);
UPDATE item SET note = CAST(printf('%0*d', id % 300, id) AS BLOB) WHERE id % 3 = 0;
DELETE FROM item WHERE id % 5 = 0;
SELECT count(*), sum(id), sum(length(note)) FROM item;
SELECT group_concat(name) FROM (SELECT name FROM item ORDER BY name DESC LIMIT 500);
VACUUM;
PRAGMA integrity_check;
";

/// Objects of many sizes and lifetimes: dictionaries that grow and shrink, text, both as JSON.
const OBJECTS: &str = r#"
import hashlib, json, random, threading
random.seed(7)
def tree(depth):
    if depth == 0:
        return random.choice([None, random.random(), "x" * random.randrange(200)])
    return {f"key-{n}": tree(depth - 1) for n in range(random.randrange(2, 6))}
kept, digest = {}, hashlib.sha256()
for round in range(3000):
    kept[random.randrange(400)] = tree(random.randrange(1, 5))
    if round % 10 == 0:
        text = json.dumps(kept, sort_keys=True)
        assert json.loads(text) == {str(key): value for key, value in kept.items()}
        digest.update(text.encode())
        for key in random.sample(sorted(kept), len(kept) // 3):
            del kept[key]
lists = [[] for _ in range(4)]
def fill(own):
    for n in range(20000):
        own.append(str(n) * (n % 50))
        if n % 3 == 0:
            own.pop(n * 7 % len(own))
threads = [threading.Thread(target=fill, args=(own,)) for own in lists]
for thread in threads: thread.start()
for thread in threads: thread.join()
for own in lists: digest.update("".join(own).encode())
print(digest.hexdigest())
"#;

/// Demands that the slab policy of the library under test has served at least `fewest` objects.
#[track_caller]
fn was_served(outcome: &Outcome, fewest: u64) {
    let stats = outcome.stats();
    let library = library().expect("the library is under test");
    let policy = format!("(quarry, {})", slab_policy(library));
    assert!(stats.text().contains(&policy), "`{policy}` has not served\n{outcome}");
    let allocs = stats.object_allocs_of_the_busiest();
    assert!(allocs >= fewest, "the busiest process made {allocs} allocations\n{outcome}");
}

fn rows(run: Run) -> Outcome {
    let folder = scratch();
    let script = folder.join("script.sql");
    fs::write(&script, ROWS).expect("scratch is writable");
    run.arg(folder.join("items.db")).input(&script).finish().success()
}

/// Demands that sqlite3 and python3 answer with a variable set as they do without the library.
pub(crate) fn runs_in_mode(name: &str, value: &str) {
    let sqlite = installed("sqlite3", "sqlite3");
    let (without, with) = (rows(Run::bare(&sqlite)), rows(Run::new(&sqlite).env(name, value)));
    assert_eq!((&with.stdout, with.stderr.as_str()), (&without.stdout, ""), "{name}={value}");
    let python = installed("python3", "python3");
    let objects =
        |run: Run| run.env("PYTHONMALLOC", "malloc").args(["-c", OBJECTS]).finish().success();
    let (without, with) =
        (objects(Run::bare(&python)), objects(Run::new(&python).env(name, value)));
    assert_eq!((&with.stdout, with.stderr.as_str()), (&without.stdout, ""), "{name}={value}");
}

#[test]
fn sqlite_keeps_its_rows() {
    let sqlite = installed("sqlite3", "sqlite3");
    let run = rows;
    let (without, with) = (run(Run::bare(&sqlite)), run(Run::new(&sqlite)));
    assert_eq!(with.stdout.lines().last(), Some("ok"), "integrity_check\n{with}");
    assert_eq!(with.stdout, without.stdout, "the answers differ\n{with}");
    was_served(&with, 20_000);
}

#[test]
fn python_keeps_its_objects() {
    let python = installed("python3", "python3");
    let mut ask = std::process::Command::new(python);
    let executable = answer(ask.args(["-c", "import sys; print(sys.executable)"]));
    let run = |run: Run| {
        let run = run.env("PYTHONMALLOC", "malloc").env("PYTHONHASHSEED", "0");
        run.args(["-c", OBJECTS]).finish().success()
    };
    let without = run(Run::bare(executable.trim()));
    let with = run(Run::new(executable.trim()));
    assert_eq!(with.stdout, without.stdout, "the objects differ\n{with}");
    was_served(&with, 500_000);
}

#[test]
fn gcc_makes_the_same_code() {
    let gcc = installed("gcc", "gcc");
    let folder = scratch();
    let file = folder.join("short.c");
    fs::write(&file, functions(20)).expect("scratch is writable");
    let (with, without) = (folder.join("with.o"), folder.join("without.o"));
    compile(Run::bare(&gcc), &file, &without);
    let outcome = compile(Run::new(&gcc), &file, &with);
    let same = fs::read(with).expect("object") == fs::read(without).expect("object");
    assert!(same, "the object files in {} differ\n{outcome}", folder.display());
    was_served(&outcome, 10_000);
}

#[test]
fn redis_keeps_its_data() {
    let (folder, socket) = (scratch(), socket("short"));
    let server = start_server(&folder, &socket);
    let client = Client::new(socket);
    client.benchmark("-q -n 10000 -r 2000 -d 100 -P 16 -t set,get,lpush,rpop,sadd,hset,zadd");
    client.benchmark("-q -n 2000 -r 500 -d 9000 -P 4 -t set,get,mset");
    let digest = client.says(&["debug", "digest"]);
    assert_ne!(digest.trim(), "0".repeat(40), "the benchmark left nothing");
    client.says(&["debug", "reload"]);
    assert_eq!(client.says(&["debug", "digest"]), digest, "a save and a load changed the data");
    client.says(&["flushall"]);
    client.says(&["shutdown", "nosave"]);
    was_served(&server.finish().success(), 20_000);
}
