//! Programs that leave processes running, or do not end: `--idle-for`, `--latencies`, hints.

use crate::compare::{ALLOCATES, LITTLE, compare, json};
use crate::support::{Workshop, skipped};
use predicates::prelude::*;
use predicates::str::{contains, is_empty};
use std::fs;
use std::path::Path;

#[test]
fn what_does_not_end_is_told_what_a_server_needs() {
    let hint = "a server needs a script that starts it in the background, gives it work and ends";
    compare(&["--runs=1", "--allocators=glibc", "--timeout=7s", "--", "sleep", "600"])
        .assert()
        .code(1)
        .stdout(contains("not done after 7 s (--timeout), and nothing of it has run for the last "))
        .stdout(contains(hint))
        .stderr(contains(
            "quarry: nothing of it runs, for 5 s, and it does not end; a server needs",
        ));
    // One that is busy to the end is no server.
    compare(&["--runs=1", "--allocators=glibc", "--timeout=1s", "--", "sh", "-c"])
        .arg("while :; do :; done")
        .assert()
        .code(1)
        .stdout(contains("not done after 1 s (--timeout)\n").and(contains(hint).not()))
        .stderr(is_empty());
}

#[test]
fn idle_memory_is_taken_after_the_time_that_is_asked_for() {
    let shop = Workshop::new();
    let server = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
                  int main(void) { for (int i = 0; i < 20000; i++) memset(malloc(400), 1, 400);\n\
                  pause(); }\n";
    let server = shop.compile("server", server, &["-O0"]);
    let file = shop.path("run.json");
    compare(&["--runs=1", "--allocators=glibc", "--idle-for=4s", "--json"])
        .arg(&file)
        .args(["--", "sh", "-c"])
        .arg(format!("{} &", server.display()))
        .assert()
        .success()
        .stdout(contains("| idle RSS, MiB |"));
    let recording = json(&file);
    assert_eq!(recording["meta"]["options"]["idle-for"], "4 s");
    for sample in recording["samples"].as_array().unwrap() {
        let readings = sample["timeline"]["readings"].as_array().unwrap();
        let watched = readings.last().unwrap()["ms"].as_f64().unwrap();
        let wall = sample["measurement"]["wall_ns"].as_f64().unwrap() / 1e6;
        assert!(watched - wall > 3900.0, "four seconds after the program's end: {sample}");
    }
}

/// The script of docs/compare.md, as it stands there.
#[test]
fn the_script_of_the_page_measures_a_server() {
    let has = |name: &str| std::process::Command::new(name).arg("--version").output().is_ok();
    if !has("redis-server") || !has("redis-benchmark") {
        return skipped("no redis");
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compare.md");
    let page = fs::read_to_string(page).unwrap();
    let mut blocks = page.split("```sh\n").filter(|it| it.starts_with("#!/bin/sh\n# server.sh"));
    let text = blocks.next().unwrap().split("```").next().unwrap();
    // Another port than that of a server which may run here.
    let shop = Workshop::new();
    let script = shop.script("server.sh", &text.replace("7379", "17379"));
    let file = shop.path("run.json");
    compare(&["--runs=1", "--allocators=glibc", "--metric"])
        .arg("higher:(?<rate>[0-9.]+) requests per second")
        .arg("--json")
        .arg(&file)
        .arg("--")
        .arg(&script)
        .current_dir(shop.path(""))
        .assert()
        .success()
        .stdout(contains("\nrate decides: the first --metric with a direction.\n"));
    for sample in json(&file)["samples"].as_array().unwrap() {
        let measurement = &sample["measurement"];
        assert!(measurement["figures"]["rate"].as_f64().unwrap() > 0.0, "{sample}");
        assert!(measurement["counters"]["idle_bytes"].as_u64().unwrap() > 8_000_000, "{sample}");
        assert_eq!(measurement["counters"]["left_running"], 1, "{sample}");
    }
}

#[test]
fn quantiles_of_a_file_are_compared() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    let (latencies, file) = (shop.path("latencies"), shop.path("run.json"));
    let script = "\"$0\"; { echo ms,n; seq 1000; } > \"$1\"";
    let run = |options: &[&str], script: &str| {
        let mut command = compare(&["--runs=1", "--allocators=glibc", "--latencies"]);
        command.arg(&latencies).args(options).args(["--json"]).arg(&file);
        command.args(["--", "sh", "-c", script]).arg(&program).arg(&latencies).assert()
    };
    run(&[], script).success().stdout(contains("\np99 decides: a quantile of --latencies.\n"));
    for sample in json(&file)["samples"].as_array().unwrap() {
        let figures = &sample["measurement"]["figures"];
        let of = |name: &str| figures[name].as_f64().unwrap();
        assert_eq!([of("p50"), of("p99"), of("p99.9"), of("max")], [500.0, 990.0, 999.0, 1000.0]);
    }
    run(&["--metric=p50"], script).success().stdout(contains("\np50 decides: as --metric says.\n"));
    // The file of an earlier run is not taken for this one's.
    assert!(fs::metadata(&latencies).is_ok());
    run(&[], "\"$0\"").code(1).stderr(contains("the run has not written it"));
    let wrong = "\"$0\"; printf '1\\nslow\\n' > \"$1\"";
    run(&[], wrong).code(1).stderr(contains("line 2: no number: \"slow\"; accepted: a file that"));
}
