//! `libquarry_sqlite.so` with the system's SQLite: preloaded into SQLite's shell, and linked into a
//! program in C.

use crate::support::text;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The shared object that `make sqlite` builds. If it is absent, a test that needs it prints a
/// line.
fn object() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let file = target.join("release/libquarry_sqlite.so");
    let found = file.canonicalize().ok();
    if found.is_none() {
        println!("skipped: libquarry_sqlite.so is not there: `make sqlite` builds it");
    }
    found
}

fn output(command: &mut Command) -> Option<Output> {
    for name in ["QUARRY_LIMIT", "QUARRY_DISABLE"] {
        command.env_remove(name);
    }
    command.output().ok()
}

#[test]
fn the_shell_runs_on_it_when_it_is_preloaded() {
    let Some(object) = object() else { return };
    let sql = "CREATE TABLE t AS WITH RECURSIVE c (i) AS
                   (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 5000)
                   SELECT i, hex(zeroblob(500)) AS v FROM c;
               SELECT count(*), sum(length(v)) FROM t; PRAGMA integrity_check;";
    let mut command = Command::new("sqlite3");
    command.args(["", sql]).env("LD_PRELOAD", &object);
    command.env("QUARRY_LIMIT", "16M").env("QUARRY_STATS", "1");
    let Some(output) = output(&mut command) else {
        println!("skipped: sqlite3 is not installed");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "5000|5000000\nok\n");
    let said = String::from_utf8_lossy(&output.stderr);
    let records = said.lines().find(|line| line.starts_with("sqlite_page"));
    assert!(records.is_some(), "SQLite's pages are Quarry's: {said}");
}

#[test]
fn a_program_in_c_installs_it() {
    let Some(object) = object() else { return };
    let folder = TempDir::new().expect("a folder");
    let program = folder.path().join("installed");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("cc");
    compiler
        .args(["-Wall", "-Wextra", "-Werror", "-o", text(&program)])
        .arg(here.join("tests/c/installed.c"))
        .arg("-I")
        .arg(here.join("../../malloc/sqlite-object/include"))
        .arg(&object)
        .arg("-lsqlite3");
    let compiled = output(&mut compiler).expect("a C compiler");
    let said = String::from_utf8_lossy(&compiled.stderr);
    if said.contains("sqlite3.h: No such file") {
        println!("skipped: libsqlite3-dev is not installed");
        return;
    }
    assert!(compiled.status.success(), "{said}");
    let mut command = Command::new(&program);
    command.env("LD_LIBRARY_PATH", object.parent().expect("a folder"));
    let output = output(&mut command).expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1000 rows\n");
}
