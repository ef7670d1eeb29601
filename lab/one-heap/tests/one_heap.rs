//! All memory of the program in `quarry top`, in one profile with call sites in three languages,
//! and under one limit.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The command `quarry`: `TEST_QUARRY`, or that of `make build`.
fn quarry(arguments: &[&str]) -> String {
    let built = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/quarry");
    let command = std::env::var_os("TEST_QUARRY").map_or(built, PathBuf::from);
    let output = Command::new(&command).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", command.display()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Bytes of a size such as `31.4 MiB`.
fn bytes(number: &str, unit: &str) -> f64 {
    let power = ["B", "KiB", "MiB", "GiB"].iter().position(|it| *it == unit).expect(unit);
    number.parse::<f64>().expect(number) * 1024_f64.powi(power as i32)
}

/// The live bytes of the process, as `quarry top` shows them.
fn live(pid: u32) -> f64 {
    let text = quarry(&["top", "--once", "--pid", &pid.to_string()]);
    let line = text.lines().find(|line| line.starts_with("Memory")).expect("a summary");
    let words: Vec<&str> = line.split_whitespace().collect();
    bytes(words[1], words[2])
}

#[test]
fn one_heap_one_profile_one_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut program = Command::new(env!("CARGO_BIN_EXE_one-heap"))
        .arg(folder.path())
        .env("QUARRY_RECORD", "live")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(program.stdout.take().expect("a pipe")).lines();
    let line = lines.next().expect("a line").expect("text");
    let live = live(program.id());
    let mut input = program.stdin.take().expect("a pipe");
    input.write_all(b"\n").expect("the program reads");
    let last = lines.next().map(|line| line.expect("text"));
    let status = program.wait().expect("the program ends");

    let (held, is_alone) = line.split_once(' ').expect("two words");
    assert_eq!(is_alone, "true", "the C library has a heap, too");
    assert!(last.as_deref() == Some("one limit") && status.success(), "{status}: {last:?}");
    let held = held.parse::<f64>().expect("a number");
    assert!(held > 40e6 && live > held, "{held} bytes are in use, and {live} are shown");

    let profile = folder.path().join("profile");
    let text = quarry(&["profile", profile.to_str().expect("UTF-8")]);
    let sites: Vec<&str> = text.split("\n\n").collect();
    for names in [
        &["rocksdb::DBImpl::Open", "one_heap::rocksdb"][..],
        &["rocksdb::Arena::"],
        &["sqlite3Malloc"],
        &["ZSTD_"],
        &["one_heap::texts"],
    ] {
        let has_all = |site: &&str| names.iter().all(|name| site.contains(name));
        assert!(sites.iter().any(|site| has_all(&site)), "no call site has {names:?}\n{text}");
    }
}
