//! `quarry lab run` with the experiments that replay kernel paths.

use crate::lab::{meta, results, samples};
use crate::support::quarry;
use predicates::str::contains;
use serde_json::Value;
use std::process::Command;

/// Mean of a counter per operation over all samples of a variant.
fn per_operation(samples: &[Value], variant: &str, counter: &str) -> f64 {
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

const EXPERIMENTS: [&str; 12] = [
    "netperf-udp-stream",
    "netperf-tcp-stream",
    "udp-u-1k",
    "udp-u-4k",
    "sockperf-udp-throughput",
    "sockperf-tcp-throughput",
    "sockperf-under-load",
    "tcp-rr",
    "hackbench",
    "fsmark",
    "page-fault1",
    "list-free",
];

/// Checks that every sample was taken, and that all messages arrived.
fn check(samples: &[Value]) {
    assert!(!samples.is_empty());
    for sample in samples {
        let measurement = &sample["measurement"];
        assert!(measurement["operations"].as_u64().unwrap() > 0, "{sample}");
        assert_eq!(measurement["verified"], measurement["operations"], "{sample}");
        let served_by = sample["variant"].as_str().unwrap().trim_end_matches(" A/A");
        assert_eq!(measurement["served_by"], served_by, "{sample}");
    }
}

#[test]
fn every_replay_runs_and_loses_no_message() {
    for experiment in EXPERIMENTS {
        let (_folder, place) = results();
        quarry()
            .args(["lab", "run", experiment, "--quick", "--millis=5", "--seed=1", "--out"])
            .arg(&place)
            .assert()
            .success()
            .stdout(contains("| zone locks |"))
            .stdout(contains(" document 00"));
        let samples = samples(&place);
        check(&samples);
        assert_eq!(meta(&place)["experiment"], experiment);
    }
}

#[test]
fn help_says_what_is_modelled_and_what_is_not() {
    for experiment in EXPERIMENTS {
        quarry()
            .args(["lab", "run", experiment, "--help"])
            .assert()
            .success()
            .stdout(contains("Models "))
            .stdout(contains("A task is a "))
            .stdout(contains("interrupts off"))
            .stdout(contains("only the CPUs of this machine run"));
    }
}

#[test]
fn one_cpu_and_more_tasks_than_cpus_are_enough() {
    for experiment in ["udp-u-4k", "tcp-rr", "hackbench", "page-fault1"] {
        let (_folder, place) = results();
        let run = Command::new("taskset")
            .args(["-c", "0", env!("CARGO_BIN_EXE_quarry"), "lab", "run", experiment, "--quick"])
            .args(["--tasks=3", "--millis=5", "--variants=slub+order0,sheaf+v6.7", "--out"])
            .arg(&place)
            .output()
            .expect("taskset is part of every distribution");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        check(&samples(&place));
    }
}

#[test]
fn the_finding_of_document_003_is_there() {
    let (_folder, place) = results();
    quarry()
        .args(["lab", "run", "udp-u-4k", "--samples=2", "--millis=20", "--seed=1", "--out"])
        .arg(&place)
        .assert()
        .success()
        .stdout(contains("declared_cpus 16"));
    let (meta, samples) = (meta(&place), samples(&place));
    let names: Vec<&str> =
        meta["variants"].as_array().unwrap().iter().map(|v| v["name"].as_str().unwrap()).collect();
    let [order0, v2016, v6_7, copy] = names[..] else { panic!("{names:?}") };
    // A packet allocates and frees one block of order 1: both reach the zone where only order 0
    // is cached. The warm-up is over before anything is counted.
    for variant in [order0, copy] {
        assert!(per_operation(&samples, variant, "zone_allocs") > 0.9, "{variant}");
        assert!(per_operation(&samples, variant, "zone_frees") > 0.9, "{variant}");
    }
    for variant in [v2016, v6_7] {
        let locks = per_operation(&samples, variant, "zone_lock");
        assert!(locks < 0.5, "{variant}: {locks} zone locks per packet");
    }
}

#[test]
fn wrong_policies_are_named_with_what_is_accepted() {
    quarry()
        .args(["lab", "run", "udp-u-4k", "--variants=slob+order0"])
        .assert()
        .code(2)
        .stderr(contains("no slab policy slob; did you mean "));
}

#[test]
fn wrong_rows_and_amounts_are_named() {
    quarry()
        .args(["lab", "run", "netperf-udp-stream", "--only=send-65"])
        .assert()
        .code(2)
        .stderr(contains("no row send-65; did you mean send-"));
    quarry()
        .args(["lab", "run", "tcp-rr", "--amount=5"])
        .assert()
        .code(2)
        .stderr(contains("--amount: nothing to choose in tcp-rr"));
    quarry()
        .args(["lab", "run", "list-free", "--variants=slub+order0+twice"])
        .assert()
        .code(2)
        .stderr(contains("no page policy twice; accepted: per_page or one_section"));
}

#[test]
fn a_calibration_prints_the_share_of_the_page_allocator() {
    let calibrate = ["lab", "run", "udp-u-4k", "--calibrate", "--samples=5", "--millis=40"];
    let answer = quarry().args(calibrate).output().expect("quarry runs");
    let text = String::from_utf8_lossy(&answer.stdout);
    if answer.status.success() {
        assert!(text.contains("| share in document 003 |") && text.contains(" 23.9 % |"), "{text}");
    } else {
        // It subtracts two times, and where other tests take the CPUs it says so.
        let errors = String::from_utf8_lossy(&answer.stderr);
        assert!(errors.contains("the machine is too busy to calibrate"), "{errors}");
    }
}
