//! Wrong command lines of the lab: each ends with status 2 and a line that names the mistake, and
//! nothing runs. Also, what the lab reports if it cannot write its output.

use crate::support::streams::{
    fails_without_a_stream, lets_readers_leave, refused, tells_that_no_disk_holds_it,
};
use crate::support::{Workshop, lab};
use predicates::str::{is_empty, starts_with};
use std::fs;
use std::path::Path;

/// Arguments that every experiment refuses, and the part of each that the message names.
const OF_ALL: [(&str, &str); 13] = [
    ("--bogus", "'--bogus'"),
    ("bogus", "'bogus'"),
    ("--variants=bogus", "bogus"),
    ("--variants=", "accepted: "),
    ("--baseline=bogus", "--baseline bogus"),
    ("--tasks=0", "'0'"),
    ("--tasks=x", "'x'"),
    ("--tasks=4096", "--tasks 4096: this experiment runs at most "),
    ("--tasks=4097", "'4097'"),
    ("--samples=0", "'0'"),
    ("--seed=x", "'x'"),
    ("--out=/proc/no/such", "--out /proc/no/such: "),
    ("--out=/etc", "--out /etc: the directory is not empty"),
];

/// Arguments that one experiment refuses.
const OF_ONE: [(&str, &str, &str); 24] = [
    ("programs", "--scripts=/no/such", "--scripts /no/such: No such file"),
    ("malloc-patterns", "--only=bogus", "bogus"),
    ("malloc-patterns", "--millis=0", "'0'"),
    ("malloc-patterns", "--millis=99999999999999999999", "'99999999999999999999'"),
    ("malloc-patterns", "--variants=glibc,glibc", "glibc is named twice"),
    ("malloc-patterns", "--variants=x=/no/such.so,glibc", "x=/no/such.so: No such file"),
    ("peers", "--only=bogus", "bogus"),
    ("containment", "--jobs=trace=x", "x is no number of KiB"),
    ("real-programs", "--only=bogus", "bogus"),
    ("idle-return", "--survivors=x", "'x'"),
    ("idle-return", "--sizes=bogus", "'bogus'"),
    ("idle-return", "--mib=0", "'0'"),
    ("idle-return", "--svg=/proc/no/such", "--svg /proc/no/such: "),
    ("growth", "--bursts=0", "'0'"),
    ("growth", "--sizes=4", "--sizes 4: objects have at least 8 bytes"),
    ("growth", "--mib=0", "'0'"),
    ("start-up", "--execs=0", "'0'"),
    ("churn", "--seconds=0", "'0'"),
    ("udp-u-4k", "--declared-cpus=0", "'0'"),
    ("udp-u-4k", "--declared-cpus=100000", "'100000'"),
    ("udp-u-4k", "--only=bogus", "no row bogus; "),
    ("udp-u-4k", "--variants=slob+order0", "no slab policy slob; did you mean "),
    (
        "udp-u-1k",
        "--variants=kernel,slub",
        "take the path of udp-u-1k; accepted with page-fault1, ",
    ),
    ("udp-u-4k", "--variants=slub+order1", "no page policy order1; did you mean order0 "),
];

/// Commands that are wrong as a whole.
const WHOLE: [(&[&str], &str); 10] = [
    (&["bogus"], "no command bogus; accepted: list, "),
    (&["run", "bogus"], "no experiment bogus; accepted: malloc-patterns, "),
    (&["list", "bogus"], "'bogus'"),
    (&["doctor", "--bogus"], "'--bogus'"),
    (&["compare", "/no/such"], "/no/such/meta.json: no such file; accepted: "),
    (&["predict", "001", "--seeds", "5"], "--seeds: 001 has no scores; accepted with 002 and 004"),
    (&["predict", "004", "--html", "/no/such/x"], "--html /no/such/x: No such file"),
    (
        &["predict", "004", "--html", "/dev/full"],
        "--html /dev/full: there already; never replaced; accepted: a new file",
    ),
    (&["report", "/no/such", "-o", "/dev/full"], "--output /dev/full: there already"),
    (&["report", "/no/such", "-o", "/no/such/page"], "--output /no/such/page: No such file"),
];

#[test]
fn wrong_commands_are_refused() {
    for (arguments, named) in WHOLE {
        refused(lab(), arguments, named);
    }
}

#[test]
fn wrong_options_of_every_experiment_are_refused() {
    let list = lab().args(["list"]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let experiments: Vec<&str> =
        list.lines().skip(1).map(|line| line.split_whitespace().next().unwrap()).collect();
    assert!(experiments.len() >= 20, "{list}");
    for experiment in experiments {
        for (option, named) in OF_ALL {
            refused(lab(), &["run", experiment, "--quick", option], named);
        }
    }
}

#[test]
fn wrong_options_of_one_experiment_are_refused() {
    for (experiment, option, named) in OF_ONE {
        refused(lab(), &["run", experiment, "--quick", option], named);
    }
}

/// `quarry-predict` knows what each document has. The lab adds no message, and keeps the status.
#[test]
fn what_no_document_has_is_refused_in_one_line() {
    let shop = Workshop::new();
    let program = shop.script("predict", "#!/bin/sh\necho quarry: $* >&2\nexit 2\n");
    let page = shop.path("page.html");
    lab()
        .env("QUARRY_PREDICT", program)
        .args(["predict", "004", "--only", "x", "--set", "y", "--html"])
        .arg(&page)
        .assert()
        .code(2)
        .stdout(is_empty())
        .stderr("quarry: 004 --only x --set y\n");
    assert!(!page.exists());
}

/// A reader such as `head -1` closes the pipe early.
#[test]
fn a_reader_that_leaves_is_no_error() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/udp");
    let run = run.to_str().unwrap();
    for arguments in [&["list"][..], &["compare", run], &["run", "--help"]] {
        lets_readers_leave(env!("CARGO_BIN_EXE_quarry-lab"), arguments);
    }
}

#[test]
fn output_that_no_disk_holds_is_told() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/udp");
    let run = run.to_str().unwrap();
    for arguments in
        [&["list"][..], &["compare", run], &["doctor", "--json"], &["--help"], &["--version"]]
    {
        tells_that_no_disk_holds_it(env!("CARGO_BIN_EXE_quarry-lab"), arguments);
    }
}

/// The line about the error cannot be written either; a panic would end with status 101.
#[test]
fn standard_error_that_is_full_changes_no_status() {
    for arguments in [&["compare", "/no/such"][..], &["bogus"]] {
        fails_without_a_stream(env!("CARGO_BIN_EXE_quarry-lab"), arguments);
    }
}

#[test]
fn a_page_that_no_disk_holds_is_told() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/udp");
    lab()
        .args(["report", "--force", "-o", "/dev/full"])
        .arg(run)
        .assert()
        .code(1)
        .stdout(is_empty())
        .stderr(starts_with("quarry: --output /dev/full: No space left on device"));
    assert!(fs::metadata("/dev/full").is_ok());
}
