//! `quarry lab`: the experiments on allocators that every machine has.

use crate::support::{Workshop, lab, real_library};
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const FEW: &[&str] = &["--samples=6", "--millis=1", "--only=pair-16,handover-64", "--seed=5"];

/// A results directory that is not there yet.
pub(crate) fn results() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("run");
    (folder, place)
}

pub(crate) fn meta(place: &Path) -> Value {
    serde_json::from_slice(&fs::read(place.join("meta.json")).unwrap()).unwrap()
}

pub(crate) fn samples(place: &Path) -> Vec<Value> {
    let text = fs::read_to_string(place.join("samples.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn lists_its_experiments() {
    let list = lab().args(["list"]).assert().success();
    list.stdout(contains("malloc-patterns")).stdout(contains("udp-u-4k"));
}

#[test]
fn measures_glibc_against_a_copy_of_itself() {
    let (_folder, place) = results();
    lab()
        .args(["run", "malloc-patterns", "--variants=glibc"])
        .args(FEW)
        .arg("--out")
        .arg(&place)
        .assert()
        .success()
        .stdout(contains("| ns per operation | glibc | glibc A/A |"))
        .stdout(contains("seed 5"));

    let meta = meta(&place);
    assert_eq!((&meta["schema"], &meta["seed"]), (&"quarry-lab/3".into(), &5.into()));
    assert_eq!(meta["variants"][1]["copy_of"], "glibc");
    let samples = samples(&place);
    assert_eq!(samples.len(), (6 + 1) * 2 * 2, "rounds and warm-up, patterns, variants");
    for sample in samples {
        let measurement = &sample["measurement"];
        assert!(measurement["operations"].as_u64().unwrap() > 0, "{sample}");
        assert_eq!(measurement["operations"], measurement["verified"], "{sample}");
        assert!(measurement["served_by"].as_str().unwrap().contains("libc.so"), "{sample}");
    }
}

#[test]
fn several_tasks_share_one_heap() {
    let (_folder, place) = results();
    lab()
        .args(["run", "malloc-patterns", "--variants=glibc", "--only=random-1024"])
        .args(["--tasks=1,2", "--samples=1", "--millis=2", "--out"])
        .arg(&place)
        .assert()
        .success()
        .stdout(contains("| random-1024, 2 tasks |"));
    let of = |tasks: u64| samples(&place).iter().filter(|it| it["tasks"] == tasks).count();
    assert_eq!((of(1), of(2)), (4, 4), "warm-up and one sample of two variants");
    lab()
        .args(["run", "churn", "--variants=glibc", "--tasks=2"])
        .assert()
        .code(2)
        .stderr(contains("--tasks 2: this experiment runs at most 1"));
}

#[test]
fn a_preloaded_allocator_proves_that_it_served() {
    let shop = Workshop::new();
    // Hands out libc's memory, but as a definition of malloc of its own.
    let source = "#include <stddef.h>\nvoid *__libc_malloc(size_t);\n\
                  void *malloc(size_t n) { return __libc_malloc(n); }\n";
    let library = shop.compile("libown.so", source, &["-shared", "-fPIC"]);
    lab()
        .args(["run", "malloc-patterns"])
        .arg(format!("--variants=glibc,own={}", library.display()))
        .args(FEW)
        .assert()
        .success()
        .stdout(contains("| ns per operation | glibc |"))
        .stdout(contains("* own: libown.so"));
}

#[test]
fn a_sample_that_another_allocator_served_counts_as_failed() {
    let shop = Workshop::new();
    let library = shop.path("libquarry.so");
    lab()
        .args(["run", "malloc-patterns"])
        .arg(format!("--variants=glibc,fake={}", library.display()))
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
    lab()
        .args(["run", "malloc-patterns"])
        .arg(format!("--variants=glibc,crash={}", library.display()))
        .args(FEW)
        .assert()
        .code(1)
        .stderr(contains("pair-16 on crash: ended by signal 6"));
}

#[test]
fn quarry_is_the_baseline_where_it_is_there() {
    let Some(library) = real_library() else { return };
    let (_folder, place) = results();
    lab()
        .env("QUARRY_LIBRARY", &library)
        .args(["run", "malloc-patterns", "--variants=glibc,quarry", "--samples=1"])
        .args(["--millis=2", "--out"])
        .arg(&place)
        .assert()
        .success()
        .stdout(contains("| time / quarry "));
    let library = library.canonicalize().unwrap();
    for sample in samples(&place) {
        let served_by = sample["measurement"]["served_by"].as_str().unwrap();
        let by_quarry = std::path::Path::new(served_by) == library;
        assert_eq!(by_quarry, sample["variant"] != "glibc", "{sample}");
    }
}

#[test]
fn absent_allocators_and_wrong_names_are_told_apart() {
    lab()
        .args(["run", "malloc-patterns", "--variants=glibc,hoard"])
        .args(FEW)
        .assert()
        .success()
        .stdout(contains("absent: hoard: not installed, and Debian has no package of it; give "));
    // A file that was named has to be there, or nothing runs.
    let refused = |variants: &str, message: &str| {
        let mut command = lab();
        command.env("QUARRY_LIBRARY", "/no/such/libquarry.so");
        command.args(["run", "malloc-patterns", variants]).args(FEW);
        command.assert().code(2).stdout("").stderr(contains(message));
    };
    refused("--variants=glibc,quarry", "QUARRY_LIBRARY=/no/such/libquarry.so: No such file");
    refused("--variants=glibc,x=/no/such.so", "x=/no/such.so: No such file");
    lab()
        .args(["run", "malloc-patterns", "--variants=xyz"])
        .assert()
        .code(2)
        .stderr(contains("no allocator xyz; accepted: glibc, jemalloc, "));
    lab()
        .args(["run", "malloc-pattern"])
        .assert()
        .code(2)
        .stderr(contains("no experiment malloc-pattern; did you mean malloc-patterns"));
    lab()
        .args(["run", "malloc-patterns", "--variants=glibc", "--only=triple"])
        .assert()
        .code(2)
        .stderr(contains("no pattern --only triple; accepted: pair-16, "));
    lab()
        .args(["run", "malloc-patterns", "--variants=glibc", "--baseline=hoard"])
        .assert()
        .code(2)
        .stderr(contains("no variant --baseline hoard; accepted: glibc"));
}

/// The test that other allocators publish: glibc gives nothing back.
#[test]
fn the_published_test_of_idle_memory_has_its_share() {
    let (_folder, place) = results();
    lab()
        .args(["run", "idle-return", "--variants=glibc", "--sizes=published", "--samples=1"])
        .args(["--rest=1", "--out"])
        .arg(&place)
        .assert()
        .success()
        .stdout(contains("The published test's objects, one object in 20 survives; MiB held 1 s"))
        .stdout(contains("given back"));
    for sample in samples(&place) {
        let figures = &sample["measurement"]["figures"];
        let live = 13.43;
        assert!((figures["live"].as_f64().unwrap() - live).abs() < 0.01, "{figures}");
        assert!(figures["given back"].as_f64().unwrap() < 50.0, "{figures}");
    }
}

#[test]
fn memory_of_an_idle_program_is_watched_and_drawn() {
    let (folder, place) = results();
    lab()
        .args(["run", "idle-return", "--variants=glibc", "--mib=16", "--samples=1"])
        .args(["--survivors=0,64", "--seed=3", "--svg"])
        .arg(folder.path())
        .arg("--out")
        .arg(&place)
        .assert()
        .success()
        .stdout(contains("16 MiB of objects of 16 bytes to 1 MiB, all freed"))
        .stdout(contains("one object in 64 survives"));
    let svg = fs::read_to_string(folder.path().join("memory-idle.svg")).unwrap();
    assert!(svg.contains("prefers-color-scheme") && svg.contains("glibc"), "{svg}");
    assert!(folder.path().join("memory-idle-64.svg").exists());
    for sample in samples(&place) {
        let readings = sample["timeline"]["readings"].as_array().unwrap();
        assert!(readings.len() > 20, "{} readings", readings.len());
        let most = readings.iter().map(|it| it["resident"].as_u64().unwrap()).max().unwrap();
        assert!(most > 16 << 20, "16 MiB were resident, {most} bytes seen");
        let served_by = sample["measurement"]["served_by"].as_str().unwrap();
        assert!(served_by.contains("libc.so"), "{served_by}");
    }
}

#[test]
fn growth_churn_and_start_up_print_their_tables() {
    lab()
        .args(["run", "growth", "--variants=glibc", "--mib=4", "--samples=1"])
        .assert()
        .success()
        .stdout(contains("| page faults per 4 KiB"))
        .stdout(contains("| objects of 200000 bytes |"));
    lab()
        .args(["run", "growth", "--variants=glibc", "--quick", "--sizes=1000", "--bursts=1,2"])
        .assert()
        .success()
        .stdout(contains("| objects of 1000 bytes "))
        .stdout(contains("| objects of 1000 bytes, burst 2 |"));
    lab()
        .args(["run", "churn", "--variants=glibc", "--seconds=1"])
        .assert()
        .success()
        .stdout(contains("| resident above live, MiB | phases | "));
    lab()
        .args(["run", "start-up", "--variants=glibc", "--quick"])
        .assert()
        .success()
        .stdout(contains("| bash -c :"))
        .stdout(contains("| sleep         |"));
    lab()
        .args(["run", "empty", "--quick"])
        .assert()
        .success()
        .stdout(contains("| steps "))
        .stdout(contains("| bare A/A |"));
    lab()
        .args(["run", "growth", "--sizes=4", "--variants=glibc"])
        .assert()
        .code(2)
        .stderr(contains("--sizes 4: objects have at least 8 bytes"));
}

#[test]
fn what_was_measured_survives_a_kill_and_nothing_is_overwritten() {
    let (_folder, place) = results();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_quarry-lab"));
    command.args(["run", "malloc-patterns", "--variants=glibc", "--only=pair-16"]);
    command.args(["--samples=100000", "--millis=2", "--out"]).arg(&place);
    let mut running = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let written = || fs::read(place.join("samples.jsonl")).unwrap_or_default();
    let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
    while lines(&written()) < 12 {
        assert_eq!(running.try_wait().unwrap(), None, "it was killed, and did not end by itself");
        std::thread::yield_now();
    }
    running.kill().unwrap();
    running.wait().unwrap();
    let before = written();
    assert_eq!(meta(&place)["rounds"], 100_000);
    lab()
        .args(["compare"])
        .arg(&place)
        .assert()
        .success()
        .stdout(contains("| workload "))
        .stdout(contains("| glibc A/A |"));
    lab()
        .args(["run", "malloc-patterns", "--variants=glibc", "--quick", "--out"])
        .arg(&place)
        .assert()
        .code(2)
        .stderr(contains("the directory is not empty, and results are never overwritten"));
    assert_eq!(written(), before);
}

/// `quarry lab compare` of directories below `folder`.
fn compare(folder: &Path, arguments: &[&str]) -> assert_cmd::assert::Assert {
    lab().current_dir(folder).args(["compare"]).args(arguments).assert()
}

#[test]
fn runs_stand_side_by_side_in_every_style() {
    let folder = tempfile::tempdir().unwrap();
    for (name, only) in [("one", "pair-16,pair-64"), ("two", "pair-16"), ("three", "pair-64")] {
        lab()
            .current_dir(folder.path())
            .args(["run", "malloc-patterns", "--variants=glibc", "--samples=6"])
            .args(["--millis=1", "--only", only, "--out", name])
            .assert()
            .success();
    }
    compare(folder.path(), &["one", "two"])
        .success()
        .stdout(contains("warning: left out, because not all have them: pair-64-1"))
        .stdout(contains("| glibc (two)"))
        .stdout(contains(", unpaired"));
    compare(folder.path(), &["one"])
        .success()
        .stdout(contains("| geometric mean of 2 |"))
        .stdout(contains("peak RSS, KiB"));
    compare(folder.path(), &["one", "two", "--baseline=glibc (two)", "--style=mmtests"])
        .success()
        .stdout(contains("Best99%Amean pair-16 "))
        .stdout(contains("(   0.00%)"));
    compare(folder.path(), &["one", "--style=tcp-rr"]).success().stdout(contains("threads"));
    compare(folder.path(), &["one", "--style=will-it-scale"]).success().stdout(contains("kern #"));
    compare(folder.path(), &["two", "three"])
        .code(2)
        .stderr(contains("nothing in common: two has pair-16-1; three has pair-64-1"));
    compare(folder.path(), &["one", "--baseline=glib"])
        .code(2)
        .stderr(contains("no variant --baseline glib; did you mean glibc"));
    compare(folder.path(), &["nowhere"])
        .code(2)
        .stderr(contains("nowhere/meta.json: no such file"));
    fs::write(folder.path().join("two/samples.jsonl"), "{}\n").unwrap();
    compare(folder.path(), &["two"]).code(1).stderr(contains("two/samples.jsonl:1: "));
}

#[test]
fn the_doctor_names_findings_with_remedies() {
    lab()
        .args(["doctor"])
        .assert()
        .success()
        .stdout(contains(" noise: a loop of 100 us varies by "))
        .stdout(contains(" serious, "));
    let mut strict = lab();
    strict.args(["doctor", "--json", "--strict"]);
    let output = strict.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "sequences are switched off");
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["schema"], "quarry-doctor/1");
    let findings = record["findings"].as_array().unwrap();
    let rseq = findings.iter().find(|it| it["about"] == "restartable sequences").unwrap();
    assert_eq!(
        (rseq["severity"].as_str(), rseq["mend"].as_str()),
        (Some("serious"), Some("unset GLIBC_TUNABLES"))
    );
}
