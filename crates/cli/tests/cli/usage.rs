//! Wrong command lines, all of them: status 2, a line that names what was wrong, and nothing runs.
//! And what is said where output cannot be written.

use crate::support::{Workshop, quarry};
use predicates::prelude::*;
use predicates::str::{contains, is_empty, starts_with};
use std::fs::{self, File};
use std::io::pipe;
use std::path::Path;
use std::process::Stdio;

/// What every experiment refuses, and what of it is named.
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

/// What one experiment refuses.
const OF_ONE: [(&str, &str, &str); 34] = [
    ("programs", "--scripts=/no/such", "--scripts /no/such: No such file"),
    ("malloc-patterns", "--only=bogus", "bogus"),
    ("malloc-patterns", "--millis=0", "'0'"),
    ("malloc-patterns", "--millis=99999999999999999999", "'99999999999999999999'"),
    ("malloc-patterns", "--variants=glibc,glibc", "glibc is named twice"),
    ("malloc-patterns", "--variants=x=/no/such.so,glibc", "x=/no/such.so: No such file"),
    ("peers", "--only=bogus", "bogus"),
    ("cache-hit", "--only=bogus", "bogus"),
    ("cache-hit", "--mib=0", "'0'"),
    ("cache-hit", "--latency-us=x", "'x'"),
    ("cache-hit", "--variants=quarry,quarry", "quarry is named twice"),
    ("zone", "--only=bogus", "no row --only bogus; "),
    ("zone", "--variants=order1", "no variant --variants order1; "),
    ("zone", "--variants=zone,zone", "zone is named twice"),
    ("fragmentation", "--variants=order1", "no variant --variants order1; "),
    ("fragmentation", "--variants=order0,order0", "order0 is named twice"),
    ("fragmentation", "--mib=300", "'300'"),
    ("fragmentation", "--hours=0", "'0'"),
    ("real-programs", "--only=bogus", "bogus"),
    ("idle-return", "--survivors=x", "'x'"),
    ("idle-return", "--sizes=bogus", "'bogus'"),
    ("idle-return", "--mib=0", "'0'"),
    ("idle-return", "--svg=/proc/no/such", "--svg /proc/no/such: "),
    ("bursts", "--mib=0", "'0'"),
    ("bursts", "--largest=8", "objects of 64 bytes at least"),
    ("growth", "--sizes=4", "--sizes 4: objects have at least 8 bytes"),
    ("growth", "--mib=0", "'0'"),
    ("start-up", "--execs=0", "'0'"),
    ("churn", "--seconds=0", "'0'"),
    ("udp-u-4k", "--declared-cpus=0", "'0'"),
    ("udp-u-4k", "--declared-cpus=100000", "'100000'"),
    ("udp-u-4k", "--only=bogus", "no row bogus; "),
    ("udp-u-4k", "--variants=slob+order0", "no slab policy slob; did you mean "),
    ("udp-u-4k", "--variants=slub+order1", "no page policy order1; did you mean order0 "),
];

/// Commands that are wrong as a whole.
const WHOLE: [(&[&str], &str); 17] = [
    (&["bogus"], "'bogus'"),
    (&["--bogus"], "'--bogus'"),
    (&["run"], "<CMD>"),
    (&["run", "--slab"], "--slab"),
    (&["run", "--set", "THP=2", "true"], "accepted: 0 or 1"),
    (&["compare"], "<CMD>"),
    (&["compare", "--runs=x", "true"], "'x'"),
    (&["compare", "--max-runs=7", "true"], "--target-ci"),
    (&["lab", "bogus"], "'bogus'"),
    (&["lab", "run", "bogus"], "'bogus'"),
    (&["advise", "--bogus", "--", "true"], "'--bogus'"),
    (&["advise"], "<CMD>"),
    (&["lab", "list", "bogus"], "'bogus'"),
    (&["lab", "doctor", "--bogus"], "'--bogus'"),
    (&["lab", "compare", "/no/such"], "/no/such/meta.json: no such file; accepted: "),
    (&["lab", "report", "/no/such", "-o", "/dev/full"], "--output /dev/full: there already"),
    (&["lab", "report", "/no/such", "-o", "/no/such/page"], "--output /no/such/page: No such file"),
];

#[track_caller]
fn refused(arguments: &[&str], named: &str) {
    let shop = Workshop::new();
    let mut command = quarry();
    command.env("QUARRY_LIBRARY", shop.path("")).args(arguments);
    let assert = command.assert().code(2).stderr(contains(named));
    // Which allocators are not there may have been said before.
    let nothing = |text: &str| text.lines().all(|line| line.starts_with("absent: "));
    assert.stdout(predicate::function(nothing)).stderr(contains("panicked").not());
}

#[test]
fn wrong_commands_are_refused() {
    for (arguments, named) in WHOLE {
        refused(arguments, named);
    }
}

#[test]
fn wrong_options_of_every_experiment_are_refused() {
    let list = quarry().args(["lab", "list"]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let experiments: Vec<&str> =
        list.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert!(experiments.len() >= 20, "{list}");
    for experiment in experiments {
        for (option, named) in OF_ALL {
            refused(&["lab", "run", experiment, "--quick", option], named);
        }
    }
}

#[test]
fn wrong_options_of_one_experiment_are_refused() {
    for (experiment, option, named) in OF_ONE {
        refused(&["lab", "run", experiment, "--quick", option], named);
    }
}

/// `| head -1`, which has seen enough.
#[test]
fn a_reader_that_leaves_is_no_error() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/udp");
    let run = run.to_str().unwrap();
    for arguments in [&["lab", "list"][..], &["lab", "compare", run], &["lab", "run", "--help"]] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_quarry"));
        command.args(arguments).stdout(writer).stderr(Stdio::piped());
        let output = command.output().unwrap();
        let status = output.status.code();
        assert!(output.stderr.is_empty(), "{arguments:?}: {output:?}");
        assert_eq!(status, Some(0), "{arguments:?}");
    }
}

#[test]
fn output_that_no_disk_holds_is_told() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/udp");
    let run = run.to_str().unwrap();
    for arguments in [
        &["lab", "list"][..],
        &["lab", "compare", run],
        &["lab", "doctor", "--json"],
        &["--help"],
        &["run", "--help"],
        &["--version"],
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_quarry"));
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command.args(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        let expected = "quarry: standard output: No space left on device";
        assert!(text.starts_with(expected) && text.lines().count() == 1, "{arguments:?}: {text}");
    }
}

/// Where nothing can be put, nothing runs.
#[test]
fn a_folder_for_what_runs_is_needed() {
    let mut command = quarry();
    command.env("TMPDIR", "/no/such/folder").args(["compare", "--allocators=glibc", "ls"]);
    command.assert().code(2).stdout(is_empty()).stderr(
        "quarry: TMPDIR=/no/such/folder: No such file or directory (os error 2); accepted: a \
         directory that can be written\n",
    );
}

/// Home, a folder to write in, colours: none of them is needed.
#[test]
fn nothing_but_the_program_is_needed() {
    let shop = Workshop::new();
    let library = shop.path("libquarry.so");
    let run = |folder: &str| {
        let mut command = quarry();
        command.env_clear().env("PATH", "/usr/bin:/bin").env("QUARRY_LIBRARY", &library);
        command.current_dir(folder).args(["run", "--", "sh", "-c", "exit 9"]);
        command.assert().code(9).stderr(is_empty());
    };
    run("/proc");
    run("/");
    let mut command = quarry();
    command.env_clear().env("NO_COLOR", "1").env("COLUMNS", "20").args(["run", "--bogus"]);
    command.assert().code(2).stderr(contains("\u{1b}").not());
}

/// Not even the line about it can be written; a panic would end with 101.
#[test]
fn standard_error_that_is_full_changes_no_status() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for arguments in
        [&["run", "--set", "THP=2", "true"][..], &["lab", "compare", "/no/such"], &["bogus"]]
    {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_quarry"));
        let status = command.args(arguments).stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(2), "{arguments:?}");
    }
    let shop = Workshop::new();
    let program = shop.compile("static", "int main(void) { return 7; }\n", &["-static"]);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_quarry"));
    command.env("QUARRY_LIBRARY", shop.path("")).arg("run").arg(program).stderr(full());
    assert_eq!(command.status().unwrap().code(), Some(7));
}

#[test]
fn a_page_that_no_disk_holds_is_told() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/udp");
    quarry()
        .args(["lab", "report", "--force", "-o", "/dev/full"])
        .arg(run)
        .assert()
        .code(1)
        .stdout(is_empty())
        .stderr(starts_with("quarry: --output /dev/full: No space left on device"));
    assert!(fs::metadata("/dev/full").is_ok());
}
