//! Which kind of time decides a comparison, and what a busy machine changes.

use crate::compare::{ALLOCATES, LITTLE, compare, json};
use crate::support::{Workshop, quarry, skipped};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use std::process::Command;

fn primary(recording: &Value) -> &str {
    let metrics = recording["meta"]["metrics"].as_array().unwrap();
    let primary: Vec<&Value> = metrics.iter().filter(|it| it["primary"] == true).collect();
    assert_eq!(primary.len(), 1, "{metrics:?}");
    primary[0]["name"].as_str().unwrap()
}

#[test]
fn cpu_time_decides_where_no_thread_waits() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    let file = shop.path("run.json");
    let decided = |options: &[&str], command: &[&str]| {
        let mut run = compare(&["--runs=1", "--allocators=glibc", "--json"]);
        run.arg(&file).args(options).arg("--").args(command).arg(&program);
        let assert = run.assert().success();
        let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
        let recording = json(&file);
        let why = recording["remarks"][0].as_str().unwrap();
        assert!(text.contains(&format!("\n{why}.\n")), "{text}");
        (primary(&recording).to_owned(), why.to_owned())
    };
    let (metric, why) = decided(&[], &[]);
    assert_eq!(metric, "cpu", "{why}");
    assert!(why.starts_with("cpu decides: no thread waits"), "{why}");
    let (metric, why) = decided(&[], &["sh", "-c", "sleep 1; \"$0\""]);
    assert_eq!(metric, "wall");
    assert!(why.starts_with("wall decides: it waits for "), "{why}");
    let named = (("peak RSS").to_owned(), "peak RSS decides: as --metric says".to_owned());
    assert_eq!(decided(&["--metric=peak RSS"], &[]), named);
}

/// A stand-in for the kernel's file of load averages, in a mount namespace of its own.
#[test]
fn a_busy_machine_is_warned_of_on_the_first_line() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    let load = shop.path("loadavg");
    let under = |average: &str, verb: &[&str]| {
        std::fs::write(&load, format!("{average} 9.00 9.00 1/100 1\n")).unwrap();
        let script = "mount --bind \"$0\" /proc/loadavg && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(&load);
        command.arg(env!("CARGO_BIN_EXE_quarry")).args(verb).arg("--").arg(&program);
        command
    };
    let can = under("1.00", &[]).args(["--help"]).output();
    if !can.is_ok_and(|it| !String::from_utf8_lossy(&it.stderr).contains("mount")) {
        return skipped("no mount namespace");
    }
    let said = |average: &str, verb: &[&str]| {
        String::from_utf8(under(average, verb).output().unwrap().stdout).unwrap()
    };
    let compared = ["compare", "--runs=1", "--allocators=glibc"];
    let text = said("99999.00", &compared);
    assert!(
        text.starts_with("warning: other work keeps this machine busy (a load of 99999.0 on "),
        "{text}"
    );
    assert!(text.lines().next().unwrap().contains("go on with --metric cpu --target-ci 2%"));
    let text = said("0.10", &compared);
    assert!(!text.contains("warning: other work"), "{text}");
    let text = said("99999.00", &["advise", "--budget=1s", "--allocators=quarry"]);
    assert!(text.contains("a load of 99999.0 on "), "{text}");
}

#[test]
fn advice_says_how_long_a_run_takes() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", "-DBLOCKS=200000", "-DTURNS=500"]);
    let mut command = quarry();
    command.args(["advise", "--budget=2s", "--allocators=quarry", "--"]).arg(&program);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let expected = "(a run takes [0-9]+ m?s.*, too long for a test within 2 s|no other allocator)";
    assert!(predicate::str::is_match(expected).unwrap().eval(&text), "{text}");
}

#[test]
fn an_empty_input_is_seen() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    let said = "standard input is empty, so a run that reads it gets nothing; a pipe, < FILE or ";
    for input in ["", "x"] {
        let mut command = compare(&["--runs=1", "--allocators=glibc", "--"]);
        let assert = command.arg(&program).write_stdin(input).assert().success();
        assert.stdout(contains(said).count(usize::from(input.is_empty())));
    }
    // Without its input a program may do too little to compare, or just enough.
    compare(&["--allocators=glibc", "--", "sort"]).assert().stdout(contains(said));
    let mut command = quarry();
    command.args(["advise", "--", "sort"]).assert().success().stdout(contains(said));
}

#[test]
fn a_quoted_command_line_says_how_shells_run_it() {
    let shop = Workshop::new();
    for verb in ["compare", "advise", "run"] {
        let mut command = quarry();
        command.env("QUARRY_LIBRARY", shop.path(""));
        let refused = command.args([verb, "--", "sort x | uniq 'a b'"]).assert().code(127);
        refused.stderr(contains(
            "sort x | uniq 'a b': command not found; this is one word: for a command line say -- \
             sh -c 'sort x | uniq '\\''a b'\\'''",
        ));
        let mut command = quarry();
        command.env("QUARRY_LIBRARY", shop.path(""));
        let refused = command.args([verb, "--", "no-such-command"]).assert().code(127);
        refused.stderr(contains("sh -c").not());
    }
}
