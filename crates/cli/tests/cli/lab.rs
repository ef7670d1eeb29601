//! `quarry lab`: the experiments on allocators that every machine has.

use crate::support::{Workshop, quarry, real_library};
use predicates::str::contains;
use serde_json::Value;
use std::fs;

const FEW: &[&str] = &["--rounds=6", "--millis=1", "--only=pair-16,handover-64", "--seed=5"];

#[test]
fn lists_its_experiments() {
    let list = quarry().args(["lab", "list"]).assert().success();
    list.stdout(contains("malloc-patterns")).stdout(contains("udp-u-4k"));
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
fn quarry_is_the_baseline_where_it_is_there() {
    let Some(library) = real_library() else { return };
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("run.json");
    quarry()
        .env("QUARRY_LIBRARY", &library)
        .args(["lab", "run", "malloc-patterns", "--allocators=glibc,quarry", "--rounds=1"])
        .args(["--millis=2", "--json"])
        .arg(&json)
        .assert()
        .success()
        .stdout(contains("| time / quarry "));
    let recording: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let library = library.canonicalize().unwrap();
    for sample in recording["samples"].as_array().unwrap() {
        let served_by = sample["measurement"]["served_by"].as_str().unwrap();
        let by_quarry = std::path::Path::new(served_by) == library;
        assert_eq!(by_quarry, sample["variant"] != "glibc", "{sample}");
    }
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

/// Mean of a counter per operation over all samples of a variant.
fn per_operation(recording: &Value, variant: &str, counter: &str) -> f64 {
    let samples = recording["samples"].as_array().unwrap();
    let of_variant = samples.iter().filter(|sample| sample["variant"] == variant);
    let (mut count, mut operations) = (0, 0);
    for sample in of_variant {
        let measurement = &sample["measurement"];
        assert_eq!(measurement["served_by"], variant.trim_end_matches(" A/A"), "{sample}");
        count += measurement["counters"][counter].as_u64().unwrap();
        operations += measurement["operations"].as_u64().unwrap();
    }
    count as f64 / operations as f64
}

#[test]
fn the_finding_of_document_003_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("run.json");
    quarry()
        .args(["lab", "run", "udp-u-4k", "--rounds=2", "--millis=20", "--seed=1", "--json"])
        .arg(&json)
        .assert()
        .success()
        .stdout(contains("16 declared CPUs"))
        .stdout(contains("| zone locks/packet |"));
    let recording: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let names: Vec<&str> = recording["variants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["name"].as_str().unwrap())
        .collect();
    let [order0, copy, v2016, v6_7] = names[..] else { panic!("{names:?}") };
    // A packet allocates and frees one block of order 1: both reach the zone where only order 0
    // is cached. The warm-up is over before anything is counted.
    for variant in [order0, copy] {
        assert!(per_operation(&recording, variant, "zone_allocs") > 0.9, "{variant}");
        assert!(per_operation(&recording, variant, "zone_frees") > 0.9, "{variant}");
    }
    for variant in [v2016, v6_7] {
        let locks = per_operation(&recording, variant, "zone_lock");
        assert!(locks < 0.5, "{variant}: {locks} zone locks per packet");
    }
}

#[test]
fn memory_of_an_idle_program_is_watched_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("run.json");
    quarry()
        .args(["lab", "run", "idle-return", "--allocators=glibc", "--mib=16", "--rounds=1"])
        .args(["--survivors=0,64", "--seed=3", "--svg"])
        .arg(folder.path())
        .arg("--json")
        .arg(&json)
        .assert()
        .success()
        .stdout(contains("16 MiB of objects of 16 bytes to 1 MiB, all freed"))
        .stdout(contains("one object in 64 survives"));
    let svg = fs::read_to_string(folder.path().join("memory-idle.svg")).unwrap();
    assert!(svg.contains("prefers-color-scheme") && svg.contains("glibc"), "{svg}");
    assert!(folder.path().join("memory-idle-64.svg").exists());
    let recording: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    for run in recording["runs"].as_array().unwrap() {
        let readings = run["watched"]["readings"].as_array().unwrap();
        assert!(readings.len() > 20, "{} readings", readings.len());
        let most = readings.iter().map(|it| it["resident"].as_u64().unwrap()).max().unwrap();
        assert!(most > 16 << 20, "16 MiB were resident, {most} bytes seen");
        let served_by = run["watched"]["measurement"]["served_by"].as_str().unwrap();
        assert!(served_by.contains("libc.so"), "{served_by}");
    }
}

#[test]
fn growth_churn_and_start_up_print_their_tables() {
    quarry()
        .args(["lab", "run", "growth", "--allocators=glibc", "--mib=4", "--rounds=1"])
        .assert()
        .success()
        .stdout(contains("| page faults per 4 KiB"))
        .stdout(contains("| objects of 200000 bytes |"));
    quarry()
        .args(["lab", "run", "churn", "--allocators=glibc", "--seconds=1"])
        .assert()
        .success()
        .stdout(contains("| resident above live, MiB | phases | "));
    quarry()
        .args(["lab", "run", "start-up", "--allocators=glibc", "--quick"])
        .assert()
        .success()
        .stdout(contains("| bash -c :"))
        .stdout(contains("| resident memory of sleep, KiB |"));
    quarry()
        .args(["lab", "run", "growth", "--sizes=4", "--allocators=glibc"])
        .assert()
        .code(1)
        .stderr(contains("--sizes 4: objects have at least 8 bytes"));
}

#[test]
fn wrong_policies_are_named_with_what_is_accepted() {
    quarry()
        .args(["lab", "run", "udp-u-4k", "--variants=slob+order0"])
        .assert()
        .code(2)
        .stderr(contains("no slab policy slob; accepted: sheaf, slub, slub-locked"));
}
