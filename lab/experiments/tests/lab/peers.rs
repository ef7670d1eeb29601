//! `quarry lab run peers`: the table of targets, its raw samples, and the commands that read them.

use crate::runs::{meta, results, samples};
use crate::support::{Workshop, lab};
use predicates::prelude::*;
use predicates::str::contains;
use std::fs;

/// Another allocator: hands out libc's memory, but as a definition of malloc of its own.
const OWN: &str = "#include <stddef.h>\nvoid *__libc_malloc(size_t);\n\
                   void *malloc(size_t n) { return __libc_malloc(n); }\n";

#[test]
fn one_command_measures_all_parts_and_says_what_was_reached() {
    let shop = Workshop::new();
    let library = shop.compile("libown.so", OWN, &["-shared", "-fPIC"]);
    let (_folder, place) = results();
    let is_a_table = || {
        contains("| work ")
            .and(contains("| glibc / peer [95 %] |"))
            .and(contains("unclear: too few samples"))
            .and(contains("unclear: no glibc"))
            .and(contains("| not run "))
            .and(contains("0 met, 0 missed, "))
    };
    lab()
        .args(["run", "peers", "--quick", "--seed=5", "--millis=2"])
        .args(["--only=pair-16,pair-32768,pair-two-16,latency,growth-1000,gcc,burst,small"])
        .arg(format!("--variants=glibc,own={}", library.display()))
        .arg("--out")
        .arg(&place)
        .assert()
        .success()
        .stdout(is_a_table())
        .stdout(contains("| p99_ns / glibc |").and(contains("| s of CPU | glibc |")))
        .stdout(contains("2 s after all of a burst").and(contains("Peak memory:")));
    let meta = meta(&place);
    assert_eq!((&meta["experiment"], &meta["baseline"]), (&"peers".into(), &"glibc".into()));
    assert_eq!(meta["options"]["burst mib"], "64");
    let samples = samples(&place);
    let (warm_up, round) = (6 * 3, 8 * 3);
    assert_eq!(samples.len(), warm_up + round, "burst and small-process have no warm-up");
    for sample in samples {
        let measurement = &sample["measurement"];
        let peak = measurement["counters"]["max_rss_kib"].as_u64();
        assert_eq!(peak.is_some_and(|it| it > 512), sample["workload"] != "burst", "{sample}");
        let is_own = measurement["served_by"].as_str().unwrap().ends_with("libown.so");
        assert_eq!(is_own, sample["variant"] == "own", "{sample}");
    }
    lab().args(["compare"]).arg(&place).assert().success().stdout(is_a_table());
    let page = place.with_file_name("page.html");
    lab().args(["report"]).arg(&place).arg("-o").arg(&page).assert().success();
    assert!(fs::read_to_string(page).unwrap().contains("<h3>Targets</h3>"));
    let records = place.with_file_name("processors");
    let targets = || {
        let mut command = lab();
        command.args(["targets", "--records"]).arg(&records);
        command
    };
    targets().assert().code(1).stderr(contains("processors: No such file"));
    let has_a_column = || contains("|  at most |").and(contains(" unclear: too few samples |"));
    targets().arg(&place).assert().success().stdout(has_a_column());
    targets().assert().success().stdout(has_a_column());
}

#[test]
fn a_run_without_targets_is_no_record() {
    let folder = tempfile::tempdir().unwrap();
    lab()
        .current_dir(folder.path())
        .args(["run", "empty", "--samples=1", "--out=run"])
        .assert()
        .success();
    lab()
        .current_dir(folder.path())
        .args(["targets", "run", "--records=processors"])
        .assert()
        .code(2)
        .stderr(contains("run: empty has no targets; accepted: runs of `quarry lab run peers`"));
    assert!(!folder.path().join("processors").exists());
}

#[test]
fn unknown_workloads_list_the_nearest() {
    lab()
        .args(["run", "peers", "--only=grwoth"])
        .assert()
        .code(2)
        .stderr(contains("no workload --only grwoth; did you mean growth-"));
}

/// A library that ends each program by a signal before `main`.
const CRASHING: &str = "#include <signal.h>\n\
                        __attribute__((constructor)) static void crash(void) { raise(SIGSEGV); }\n";

#[test]
fn a_crash_of_a_peer_is_a_finding_and_not_a_failure() {
    let shop = Workshop::new();
    let run = |library: &str| {
        let library = shop.compile(library, CRASHING, &["-shared", "-fPIC"]);
        let (folder, place) = results();
        let assert = lab()
            .args(["run", "peers", "--quick", "--millis=1", "--only=pair-16,small"])
            .arg(format!("--variants=glibc,bad={}", library.display()))
            .arg("--out")
            .arg(&place)
            .assert()
            .stdout(contains("| failed "));
        (assert, place, folder)
    };
    let (assert, place, _folder) = run("libbad.so");
    let said = |workload: &str| {
        contains(format!("a peer has crashed: {workload} on bad: ")).and(contains("signal 11"))
    };
    assert.success().stdout(said("pair-16").and(said("small-process")));
    let failures = samples(&place).into_iter().filter(|it| it["failure"].is_string());
    assert_eq!(failures.count(), 3, "with the warm-up of the pattern");
    let (assert, ..) = run("libquarry-bad.so");
    assert.code(1).stderr(contains("samples failed:\npair-16 on bad: ended by signal 11"));
}
