//! Every line of `docs/coming-from.md`, which says what settings and functions of other allocators
//! become.

use crate::support::{Outcome, Run, program, scratch};
use std::path::Path;

/// The cells of each row of a table, without spaces and marks of code.
fn rows(page: &str) -> impl Iterator<Item = Vec<&str>> {
    page.lines().filter(|line| line.starts_with("| `")).map(|line| {
        let cells = line.trim_matches('|').split(" | ");
        cells.map(|cell| cell.trim_matches(['|', ' ', '`'])).collect()
    })
}

fn page() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coming-from.md");
    std::fs::read_to_string(file).expect("the page exists")
}

/// The run of a program that prints who serves it, in a folder of its own for the files that it
/// writes.
fn served(name: &str, value: &str) -> Outcome {
    let run = match name {
        "QUARRY_DEBUG" | "QUARRY_HARDEN" => Run::full(program("environment.c")),
        _ => Run::new(program("environment.c")),
    };
    let run = run.without_stats().current_dir(&scratch()).env(name, value);
    let outcome = run.env("QUARRY_STRICT", "1").finish().success();
    assert_eq!(outcome.stdout, "quarry secure=0\n", "{name}={value}\n{outcome}");
    outcome
}

#[test]
fn the_page_is_true() {
    let page = page();
    let (mut settings, mut asked, mut expected) = (0, Vec::new(), Vec::new());
    for row in rows(&page) {
        let [theirs, ours, last] = row[..] else { panic!("three cells: {row:?}") };
        if ["symbol", "figure", "read", "write", "call"].contains(&ours) {
            asked.extend([ours, theirs]);
            expected.push(format!("{ours} {theirs}: {last}\n"));
            continue;
        }
        settings += 1;
        let (name, value) = theirs.split_once('=').unwrap_or(("MALLOC_CONF", theirs));
        let outcome = served(name, value);
        assert_eq!(outcome.stderr, "", "{name}={value} is ignored\n{outcome}");
        if ours != "nothing" {
            let (name, value) = ours.split_once('=').expect("a variable and its value");
            assert!(name.starts_with("QUARRY_"), "{ours}");
            // Statistics are what standard error then has.
            let outcome = served(name, value);
            assert_eq!(outcome.stderr.is_empty(), name != "QUARRY_STATS", "{ours}\n{outcome}");
        }
    }
    assert!(settings >= 40 && expected.len() >= 45, "{settings} and {} rows", expected.len());
    let outcome = Run::new(program("migration.c")).args(asked).finish().success();
    assert_eq!(outcome.stdout, expected.concat(), "{outcome}");
}
