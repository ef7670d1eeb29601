//! `quarry lab run zone`: the zone, the page lists, and a stand-in for LLFree.

use crate::runs::{meta, results, samples};
use crate::support::lab;
use predicates::str::contains;
use std::process::Command;

#[test]
fn every_row_runs_on_zone_and_lists() {
    let (_folder, place) = results();
    lab()
        .env_remove("QUARRY_LLFREE")
        .args(["run", "zone", "--quick", "--variants=v6.18,v6.18-wide,zone,llfree"])
        .args(["--seed=1", "--out"])
        .arg(&place)
        .assert()
        .success()
        .stdout(contains("llfree: left out, for QUARRY_LLFREE names no shared object of it"))
        .stdout(contains("| fresh-pair (mean)"))
        .stdout(contains("Blocks of 2 MiB that are in use in part"));
    let samples = samples(&place);
    // 60 rows, 2 numbers of tasks, 3 variants and a copy.
    let recorded = samples.iter().filter(|sample| sample["round"] != 0);
    assert_eq!(recorded.count(), 60 * 2 * 4);
    for sample in &samples {
        let measurement = &sample["measurement"];
        assert!(measurement["operations"].as_u64().unwrap() > 0, "{sample}");
        assert_eq!(measurement["verified"], measurement["operations"], "{sample}");
        let partly = measurement["figures"]["partly used"].as_f64().unwrap();
        let row = sample["workload"].as_str().unwrap();
        let expected = match row.strip_prefix("fragmented-").map(|row| row.ends_with('9')) {
            Some(false) => 0.3..=1.0,
            _ => 0.0..=0.0,
        };
        assert!(expected.contains(&partly), "{row}: {partly}");
    }
    assert_eq!(meta(&place)["experiment"], "zone");
}

#[test]
fn llfree_is_what_the_variable_names() {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("libllfree.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/llfree.c");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-O2", source, "-o"]).arg(&object).status();
    assert!(built.expect("a C compiler links this test").success());
    let run = |object: &std::path::Path| {
        let mut command = lab();
        command
            .env("QUARRY_LLFREE", object)
            .args(["run", "zone", "--quick", "--variants=v6.18,llfree", "--samples=6"])
            .args(["--only=fragmented-pair-9,fresh-random-6", "--tasks=1,2", "--mib=32"]);
        command.assert()
    };
    run(&object).success().stdout(contains("* llfree: LLFree, ")).stdout(contains(" llfree |"));
    run(&folder.path().join("nothing.so")).code(2).stderr(contains("nothing.so is no file"));
    let other = folder.path().join("other.so");
    std::fs::write(&other, "no object").unwrap();
    run(&other).code(1).stdout(contains("failed"));
}
