//! `quarry lab run real-programs`: what is measured, checked and left over.

use crate::runs::{meta, results, samples};
use crate::support::{Workshop, lab, real_library};
use assert_cmd::Command;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use predicates::prelude::*;
use predicates::str::contains;
use std::fs;
use std::path::Path;
use std::process::Stdio;

fn run(options: &[&str]) -> Command {
    let mut command = lab();
    command.args(["run", "real-programs", "--quick", "--seed=5"]).args(options);
    command
}

/// Looks for a program that Debian installs; prints a line if it is missing.
fn is_there(file: &str) -> bool {
    let is_there = Path::new(file).is_file();
    if !is_there {
        eprintln!("skipped: no {file}");
    }
    is_there
}

#[test]
fn every_program_does_its_work_and_proves_it() {
    let (_folder, place) = results();
    run(&["--variants=glibc", "--out"])
        .arg(&place)
        .assert()
        .success()
        .stdout(contains("| s of CPU").and(contains("| time / glibc")))
        .stdout(contains("| sqlite").and(contains("| gcc")));
    let meta = meta(&place);
    let metrics = meta["metrics"].as_array().unwrap();
    let direction = |name: &str| {
        let metric = metrics.iter().find(|it| it["name"] == name).unwrap();
        metric["direction"].as_str().unwrap().to_owned()
    };
    assert_eq!([direction("time"), direction("peak RSS")], ["lower", "lower"]);
    assert_eq!(direction("requests"), "higher");
    assert_eq!(meta["options"]["sqlite"], "20000");
    let samples = samples(&place);
    let programs = meta["workloads"].as_array().unwrap().len();
    assert_eq!(samples.len(), 2 * 2 * programs, "warm-up and one round, glibc and its copy");
    for sample in samples {
        let measurement = &sample["measurement"];
        let counter = |name: &str| measurement["counters"][name].as_u64();
        assert!(measurement["served_by"].as_str().unwrap().contains("libc.so"), "{sample}");
        assert!(measurement["cpu_ns"].as_u64().unwrap() > 0, "{sample}");
        assert!(counter("peak_bytes").unwrap() > 1 << 20, "{sample}");
        assert!(counter("page_faults").unwrap() > 100, "{sample}");
        // Of two processes that run side by side, each may be counted at its own maximum.
        assert!(counter("huge_bytes").unwrap() <= 2 * counter("peak_bytes").unwrap(), "{sample}");
        assert_eq!(measurement["operations"], measurement["verified"], "{sample}");
        let is_server = ["redis", "memcached", "nginx", "axum-json"]
            .contains(&sample["workload"].as_str().unwrap());
        assert_eq!(counter("requests").is_some(), is_server, "{sample}");
        assert_eq!(counter("final_bytes").is_some(), is_server, "{sample}");
        assert!(!is_server || counter("requests").unwrap() >= 5000, "{sample}");
    }
}

#[test]
fn quarry_serves_them_right() {
    let Some(library) = real_library() else { return };
    run(&["--variants=quarry"])
        .env("QUARRY_LIBRARY", library)
        .assert()
        .success()
        .stdout(contains("| quarry A/A |"));
}

#[test]
fn a_wrong_result_has_failed_and_is_not_averaged() {
    if !is_there("/usr/bin/sqlite3") {
        return;
    }
    let shop = Workshop::new();
    // Serves libc's memory, and changes a digit of what sqlite3 prints.
    let source = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n\
                  #include <string.h>\n\
                  void *__libc_malloc(size_t);\n\
                  void *malloc(size_t n) { return __libc_malloc(n); }\n\
                  static void spoil(const char *s) {\n\
                  char *at = strchr(s, '7'); if (at) *at = '1'; }\n\
                  int fputs(const char *s, FILE *f) {\n\
                  int (*next)(const char *, FILE *) = dlsym(RTLD_NEXT, \"fputs\");\n\
                  char copy[65536]; strncpy(copy, s, 65535); copy[65535] = 0;\n\
                  spoil(copy); return next(copy, f); }\n\
                  int vfprintf(FILE *f, const char *format, __builtin_va_list list) {\n\
                  char text[65536]; vsnprintf(text, sizeof text, format, list);\n\
                  spoil(text); int (*next)(const char *, FILE *) = dlsym(RTLD_NEXT, \"fputs\");\n\
                  return next(text, f); }\n";
    let library = shop.compile("libliar.so", source, &["-shared", "-fPIC"]);
    run(&["--only=sqlite", &format!("--variants=glibc,liar={}", library.display())])
        .assert()
        .code(1)
        .stdout(contains("| glibc ").and(contains("failed")))
        .stderr(contains(
            "sqlite on liar: a wrong result: printed something else than on glibc: line 1: ",
        ));
}

/// An allocator that serves libc's memory, and refuses every call after the first `calls`.
fn allocator_that_runs_dry(shop: &Workshop, calls: u32) -> String {
    let source = format!(
        "#include <stddef.h>\nvoid *__libc_malloc(size_t);\n\
         void *malloc(size_t n) {{\n\
         static int calls; if (++calls > {calls}) return NULL;\n\
         return __libc_malloc(n); }}\n"
    );
    let name = format!("libdry{calls}.so");
    let library = shop.compile(&name, &source, &["-shared", "-fPIC"]);
    format!("--variants=glibc,dry={}", library.display())
}

#[test]
fn an_allocator_that_breaks_programs_is_reported_beside_the_others() {
    if !is_there("/usr/bin/sqlite3") || !is_there("/usr/bin/redis-server") {
        return;
    }
    let shop = Workshop::new();
    let (_folder, place) = results();
    run(&["--only=sqlite,redis", &allocator_that_runs_dry(&shop, 4000), "--out"])
        .arg(&place)
        .assert()
        .code(1)
        .stdout(contains("| programs (mean) |"))
        .stderr(contains("sqlite on dry: ").and(contains("redis on dry: ")));
    for sample in samples(&place) {
        assert_eq!(sample["variant"] == "dry", sample["failure"].is_string(), "{sample}");
        assert_eq!(sample["measurement"].is_object(), sample["failure"].is_null(), "{sample}");
    }
}

#[test]
fn unknown_programs_list_the_nearest() {
    run(&["--only=sqlit", "--variants=glibc"])
        .assert()
        .code(2)
        .stderr(contains("no program --only sqlit; did you mean sqlite"));
}

/// Processes whose command line holds a text.
fn processes_with(text: &str) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_it = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    pids.filter(has_it).collect()
}

#[test]
fn servers_and_folders_are_gone_after_an_interruption_and_after_a_kill() {
    if !is_there("/usr/bin/redis-server") {
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().to_str().unwrap();
        let mut lab = std::process::Command::new(env!("CARGO_BIN_EXE_quarry-lab"))
            .args(["run", "real-programs", "--variants=glibc", "--only=redis"])
            .env("TMPDIR", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !processes_with(place).iter().any(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|it| it == "redis-server\n")
        }) {
            assert_eq!(lab.try_wait().unwrap(), None, "it ended before a server was there");
            std::thread::yield_now();
        }
        kill(Pid::from_raw(lab.id() as i32), signal).unwrap();
        assert!(!lab.wait().unwrap().success());
        // A killed command may end before its supervisor does; one that was interrupted does not.
        while signal == Signal::SIGKILL && !processes_with(place).is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(processes_with(place), [0; 0]);
        if signal == Signal::SIGINT {
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a folder is left");
        }
    }
}
