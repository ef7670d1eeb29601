//! Many threads, a budget that changes, and a process that is killed.

use crate::support::{load, printed, text};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use tempfile::TempDir;

#[test]
fn threads_find_what_they_wrote() {
    let folder = TempDir::new().expect("a folder");
    let options = ["stress", "quarry", text(folder.path()), "--threads=4", "--rounds=30"];
    let out = printed(&mut load(&options));
    assert_eq!(out.matches("sound").count(), 2, "{out}");
}

#[test]
fn the_budget_is_halved_under_load() {
    let folder = TempDir::new().expect("a folder");
    let place = text(folder.path());
    let options = ["stress", "quarry", place, "--rounds=30", "--budget=33554432", "--halve"];
    let out = printed(&mut load(&options));
    assert_eq!(out.matches("sound").count(), 2, "{out}");
}

/// Every row that was reported as committed is there after a kill, and SQLite finds the database
/// sound, on its own page cache and on Quarry's.
#[test]
fn a_process_that_is_killed_leaves_a_sound_database() {
    let folder = TempDir::new().expect("a folder");
    let place = text(folder.path());
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for lines in [3, 17, 40] {
        let seed = format!("--seed={lines}");
        let options = ["stress", "quarry", place, "--rounds=100000", "--budget=8388608", &seed];
        let mut child = load(&options).stdout(Stdio::piped()).spawn().expect("the load starts");
        let out = BufReader::new(child.stdout.take().expect("its output"));
        for line in out.lines().take(lines) {
            let line = line.expect("a line");
            let database = line.split(' ').next().unwrap_or_default().to_owned();
            *told.entry(database).or_default() += 1;
        }
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
        for variant in ["separate", "quarry"] {
            let out = printed(&mut load(&["stress", variant, place, "--check"]));
            for (database, told) in &told {
                let line = out.lines().find_map(|line| line.strip_prefix(&format!("{database}: ")));
                let there: usize = line
                    .and_then(|line| line.split(' ').next()?.parse().ok())
                    .unwrap_or_else(|| panic!("{out}"));
                assert!(there >= *told, "{database}: {there} transactions of {told}");
            }
        }
    }
}
