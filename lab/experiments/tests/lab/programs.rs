//! `quarry lab run programs`: scripts that drive programs, whole process trees, wrong results.

use crate::runs::{results, samples};
use crate::support::{Workshop, lab, real_library};
use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use std::fs;
use std::path::Path;

/// A folder of scripts: one whose work is done by a process without a waiting parent, and one
/// that prints which allocator serves it.
fn scripts(workshop: &Workshop) {
    let about = "about) echo 'version: it 1'; echo 'what: counts';;\n\
                 prepare) : > \"$2/made\";;\n";
    let work = "n=0; while [ $n -lt 300000 ]; do n=$((n + 1)); done";
    let begin = format!("case $1 in\n{about}run)");
    let start = format!("(setsid bash -c '{work}; : > \"$0/done\"' \"$2\" > /dev/null 2>&1 &)");
    let wait = "while [ ! -e \"$2/done\" ]; do sleep 0.01; done; cat \"$2/made\"; echo counted";
    let orphan = format!("{begin} rm -f \"$2/done\"\n{start}\n{wait};;\nesac\n");
    let served = format!("{begin} echo \"${{LD_PRELOAD##*/}}\";;\nesac\n");
    for (name, text) in [("orphan", orphan.as_str()), ("served", &served)] {
        fs::write(workshop.path(name).with_extension("sh"), text).unwrap();
    }
    fs::write(workshop.path("none.sh"), "echo >&2 'apt-get install none'; exit 3").unwrap();
}

fn run(scripts: &Path, only: &str) -> Command {
    let mut command = lab();
    command.args(["run", "programs", "--variants=glibc,quarry", "--samples=2", "--seed=5"]);
    command.args(["--only", only]);
    command.arg("--scripts").arg(scripts);
    command
}

#[test]
fn processes_without_a_waiting_parent_count() {
    let Some(library) = real_library() else { return };
    let workshop = Workshop::new();
    scripts(&workshop);
    let (_folder, place) = results();
    run(&workshop.path(""), "orphan,none")
        .env("QUARRY_LIBRARY", library)
        .arg("--out")
        .arg(&place)
        .assert()
        .success()
        .stdout(contains("absent: none: apt-get install none"))
        .stdout(contains(" 0 of 2 |").and(contains("CPU: above 1.1 times that of glibc")));
    let samples = samples(&place);
    assert_eq!(samples.len(), 4, "two pairs");
    for sample in samples {
        let cpu_ns = sample["measurement"]["cpu_ns"].as_u64().unwrap();
        assert!(cpu_ns > 50_000_000, "the loop of the orphan is not in {cpu_ns} ns: {sample}");
    }
}

#[test]
fn other_results_than_on_glibc_are_wrong() {
    let Some(library) = real_library() else { return };
    let workshop = Workshop::new();
    scripts(&workshop);
    run(&workshop.path(""), "served")
        .env("QUARRY_LIBRARY", library)
        .assert()
        .failure()
        .stdout(contains(" 2 of 2 |"))
        .stderr(contains("served on quarry: a wrong result: printed something else than on glibc"));
}

#[test]
fn what_servers_hold_after_a_rest_is_compared() {
    let Some(library) = real_library() else { return };
    let workshop = Workshop::new();
    scripts(&workshop);
    let about = "about) echo 'version: it 1'; echo 'what: waits'; echo 'kind: server';;";
    let held = "rest_5 3145728\\nrest_60 2097152\\nrest_reload 1048576\\n";
    let run = format!("run) [[ -z $LAB_REST ]] || printf '{held}' > \"$2/rest\";;");
    let text = format!("case $1 in\n{about}\nprepare) :;;\n{run}\nesac\n");
    fs::write(workshop.path("server.sh"), text).unwrap();
    let mut command = self::run(&workshop.path(""), "served,server");
    let command = command.env("QUARRY_LIBRARY", library).arg("--rest");
    let row = "| server         |     2 |                    3.00 |";
    command.assert().success().stdout(contains(row).and(contains("after 60 s: above")));
}

#[test]
fn unknown_programs_are_refused() {
    let workshop = Workshop::new();
    scripts(&workshop);
    run(&workshop.path(""), "orphans").assert().failure().stderr(contains("orphan"));
}
