//! `quarry lab`: the experiments on allocators that every machine has.

use crate::support::{Workshop, quarry};
use predicates::str::contains;
use serde_json::Value;
use std::fs;

const FEW: &[&str] = &["--rounds=6", "--millis=1", "--only=pair-16,handover-64", "--seed=5"];

#[test]
fn lists_its_experiments() {
    quarry().args(["lab", "list"]).assert().success().stdout(contains("malloc-patterns"));
}

#[test]
fn measures_glibc_against_a_copy_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("run.json");
    quarry()
        .args(["lab", "run", "malloc-patterns", "--allocators=glibc"])
        .args(FEW)
        .arg("--json")
        .arg(&json)
        .assert()
        .success()
        .stdout(contains("| ns per operation | glibc | glibc A/A |"))
        .stdout(contains("seed 5"));

    let recording: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(recording["schema"], "quarry-lab/1");
    assert_eq!(recording["seed"], 5);
    let samples = recording["samples"].as_array().unwrap();
    assert_eq!(samples.len(), (6 + 1) * 2 * 2, "rounds and warm-up, patterns, variants");
    for sample in samples {
        let measurement = &sample["measurement"];
        assert!(measurement["operations"].as_u64().unwrap() > 0, "{sample}");
        assert!(measurement["served_by"].as_str().unwrap().contains("libc.so"), "{sample}");
    }
}

#[test]
fn a_preloaded_allocator_proves_that_it_served() {
    let shop = Workshop::new();
    // Hands out libc's memory, but as a definition of malloc of its own.
    let source = "#include <stddef.h>\nvoid *__libc_malloc(size_t);\n\
                  void *malloc(size_t n) { return __libc_malloc(n); }\n";
    let library = shop.compile("libown.so", source, &["-shared", "-fPIC"]);
    quarry()
        .args(["lab", "run", "malloc-patterns"])
        .arg(format!("--allocators=glibc,own={}", library.display()))
        .args(FEW)
        .assert()
        .success()
        .stdout(contains("| ns per operation | glibc |"))
        .stdout(contains("* own: libown.so"));
}

#[test]
fn a_sample_that_somebody_else_served_counts_as_failed() {
    let shop = Workshop::new();
    let library = shop.path("libquarry.so");
    quarry()
        .args(["lab", "run", "malloc-patterns"])
        .arg(format!("--allocators=glibc,fake={}", library.display()))
        .args(FEW)
        .assert()
        .code(1)
        .stdout(contains("failed"))
        .stderr(contains("was meant for fake, but served by "));
}

#[test]
fn an_allocator_that_crashes_is_reported_with_its_end() {
    let shop = Workshop::new();
    let source = "#include <stdlib.h>\nvoid free(void *p) { if (p) abort(); }\n";
    let library = shop.compile("libcrash.so", source, &["-shared", "-fPIC"]);
    quarry()
        .args(["lab", "run", "malloc-patterns"])
        .arg(format!("--allocators=glibc,crash={}", library.display()))
        .args(FEW)
        .assert()
        .code(1)
        .stderr(contains("pair-16 on crash: ended by signal 6"));
}

#[test]
fn absent_allocators_and_wrong_names_are_told_apart() {
    quarry()
        .env("QUARRY_LIBRARY", "/no/such/libquarry.so")
        .args(["lab", "run", "malloc-patterns", "--allocators=glibc,quarry,x=/no/such.so"])
        .args(FEW)
        .assert()
        .success()
        .stdout(contains("absent: quarry: libquarry.so not found in /no/such/libquarry.so"))
        .stdout(contains("absent: x: /no/such.so"));
    quarry()
        .args(["lab", "run", "malloc-patterns", "--allocators=hoard"])
        .assert()
        .code(1)
        .stderr(contains("no allocator hoard; accepted: glibc, jemalloc, "));
    quarry()
        .args(["lab", "run", "malloc-patterns", "--allocators=glibc", "--only=triple"])
        .assert()
        .code(1)
        .stderr(contains("--only triple: no such pattern; there are pair-16, "));
    quarry()
        .args(["lab", "run", "malloc-patterns", "--allocators=glibc", "--baseline=hoard"])
        .assert()
        .code(1)
        .stderr(contains("--baseline hoard: accepted: glibc"));
}
