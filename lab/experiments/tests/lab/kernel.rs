//! `quarry lab run kernel`: the running kernel's counts, and what happens where it refuses them.

use crate::runs::{results, samples};
use crate::support::{lab, skipped};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A count of a sample per operation; none where it was not counted.
fn per_operation(sample: &Value, count: &str) -> Option<f64> {
    let measurement = &sample["measurement"];
    Some(measurement["counters"][count].as_f64()? / measurement["operations"].as_f64()?)
}

/// The kernel's counts that follow from the workload alone, on every kernel: row, count, least and
/// most per operation.
const EXACT: [(&str, &str, f64, f64); 7] = [
    ("faults", "kmem:mm_page_alloc", 1.0, 1.0),
    // An interrupt may free pages of programs that have ended, at the end of a grace period (RCU).
    ("faults", "kmem:mm_page_free", 1.0, 1.25),
    // Interrupts on behalf of other programs allocate as well.
    ("udp-4096", "kmem:kmem_cache_alloc", 1.0, 1.1),
    // Two if the kernel reports a large `kmalloc` twice.
    ("udp-4096", "kmem:kmalloc", 1.0, 2.0),
    ("udp-8192", "kmem:mm_page_alloc", 1.0, 1.0),
    ("list-free-512", "kmem:mm_page_free", 1.0, 1.25),
    ("hackbench-sockets", "objects allocated", 2.0, 2.2),
];

/// Likewise, counts of a stack: row, counter, count per operation.
const ON_STACK: [(&str, &str, f64); 6] = [
    ("faults", "handed_out", 1.0 + 1.0 / 512.0),
    ("faults", "taken_back", 1.0 + 1.0 / 512.0),
    ("udp-8192", "handed_out", 1.0),
    ("tcp-rr", "objects allocated", 4.0),
    ("list-free-512", "taken_back", 1.0),
    ("hackbench-sockets", "objects allocated", 2.0),
];

#[test]
fn the_kernels_counts_stand_beside_a_stacks() {
    let (_folder, place) = results();
    let ran = lab().args(["run", "kernel", "--quick", "--seed=1", "--out"]).arg(&place).assert();
    let text = String::from_utf8(ran.success().get_output().stdout.clone()).unwrap();
    let samples = samples(&place);
    let is_counted = !text.contains("kernel: left out: ");
    let variants = if is_counted { 4 } else { 3 };
    let recorded: Vec<&Value> = samples.iter().filter(|sample| sample["round"] != 0).collect();
    assert_eq!(recorded.len(), 15 * variants, "{text}");
    for sample in &recorded {
        assert!(sample["failure"].is_null(), "{sample}");
        let is_of = |row: &str| sample["workload"] == row;
        let near = |count: &str, least: f64, most: f64| {
            let found = per_operation(sample, count).unwrap();
            assert!(least * 0.98 <= found && found <= most * 1.02, "{count} {found}: {sample}");
        };
        match sample["variant"].as_str().unwrap() {
            "kernel" | "kernel A/A" => {
                let of_row = EXACT.iter().filter(|(row, ..)| is_of(row));
                of_row.for_each(|(_, count, least, most)| near(count, *least, *most));
            }
            name if name.starts_with("kernel-uncounted") => {
                assert_eq!(per_operation(sample, "kmem:mm_page_alloc"), None);
            }
            _ => {
                let of_row = ON_STACK.iter().filter(|(row, ..)| is_of(row));
                of_row.for_each(|(_, count, expected)| near(count, *expected, *expected));
            }
        }
    }
    assert!(text.contains("faults: 128 MiB are mapped"), "{text}");
    assert!(text.contains("004: 705227 (4.15-rc2) 724944 (lru-lock-splice)"), "{text}");
    if !is_counted {
        return skipped("the running kernel does not count for this process");
    }
    assert!(text.contains("| page blocks handed out "), "{text}");
    assert!(text.contains("uncounted / kernel"), "{text}");
}

#[test]
fn without_tracepoints_the_rest_runs() {
    let empty = tempfile::tempdir().unwrap();
    lab()
        .args(["run", "kernel", "--quick", "--only=tcp-rr", "--tracefs"])
        .arg(empty.path())
        .assert()
        .success()
        .stdout(contains("kernel: left out: no tracefs with events of kmem is mounted; `sudo "))
        .stdout(contains("* kernel-uncounted: "))
        .stdout(contains("uncounted / kernel").not().or(contains("| tcp-rr |")));
    lab()
        .args(["run", "kernel", "--quick", "--variants=kernel", "--tracefs"])
        .arg(empty.path())
        .assert()
        .code(1)
        .stderr(contains("--variants: none of them is there"));
}

/// With `kernel` as a variant a replay's experiment has the kernel's counts as a column.
#[test]
fn the_kernel_is_a_variant_of_the_documents_experiments() {
    let run = |options: &[&str]| {
        lab().args(["run", "004", "--quick", "--tasks=1"]).args(options).assert()
    };
    let ran = run(&["--variants=kernel-uncounted,kernel,slub-4.9+order0"]).success();
    let text = String::from_utf8(ran.get_output().stdout.clone()).unwrap();
    assert!(text.contains("faults: 128 MiB are mapped"), "{text}");
    assert!(!text.contains("hackbench"), "only the rows of page faults: {text}");
    assert_eq!(text.contains("| kernel |"), !text.contains("kernel: left out: "), "{text}");
    run(&["--variants=kernel,slub", "--amount=9"])
        .code(2)
        .stderr(contains("--amount: nothing to choose with --variants kernel"));
}

/// Stands in for the emulator: takes the samples that a guest is asked for, on this machine.
const EMULATOR: &str = r#"#!/bin/sh
echo "ready 0.1"
while read -r work order; do "$QUARRY_TEST_LAB" __sample "$work" "$order" || echo failed; done
"#;

#[test]
fn a_guest_takes_the_samples_of_its_column() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("0.1")).unwrap();
    for name in ["0.1/vmlinuz", "0.1/initrd"] {
        fs::write(at(name), "").unwrap();
    }
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let run = |emulator: &str| {
        fs::write(at("qemu-system-x86_64"), emulator).unwrap();
        fs::set_permissions(at("qemu-system-x86_64"), fs::Permissions::from_mode(0o755)).unwrap();
        lab()
            .args(["run", "kernel", "--quick", "--only=tcp-rr", "--baseline=sheaf-6.18"])
            .args(["--variants=kernel,linux-0.1,linux-0.2,sheaf-6.18", "--guests"])
            .arg(folder.path())
            .env("PATH", &path)
            .env("QUARRY_TEST_LAB", env!("CARGO_BIN_EXE_quarry-lab"))
            .assert()
    };
    run("#!/bin/sh\n").code(1).stderr(contains("linux-0.1: ").and(contains("machine has ended")));
    let missing = format!("linux-0.2: left out: there is no {}", at("0.2/vmlinuz").display());
    let ran = run(EMULATOR).stdout(contains(missing));
    let text = String::from_utf8(ran.get_output().stdout.clone()).unwrap();
    if text.contains("kernel: left out: ") {
        return skipped("the running kernel does not count for this process");
    }
    if !Path::new("/trace").exists() {
        return skipped("tracefs is not at /trace, where a guest has it");
    }
    let ran = ran.success();
    ran.stdout(contains("| linux-0.1 |").and(contains("| instructions ")));
}

/// Root without the rights that tracepoints need is treated like any other user.
#[test]
fn a_process_without_rights_is_told_which_one_it_needs() {
    let without = |program: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-perfmon,-sys_admin", program]);
        command
    };
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let is_refused = paranoid.is_ok_and(|it| it.trim().parse::<i32>().is_ok_and(|it| it > 1));
    let is_dropped = without("true").output().is_ok_and(|it| it.status.success());
    if !is_refused || !is_dropped || !std::path::Path::new("/sys/kernel/tracing/events").is_dir() {
        return skipped("needs root, a tracefs and perf_event_paranoid of 2");
    }
    let ran = without(env!("CARGO_BIN_EXE_quarry-lab"))
        .args(["run", "kernel", "--quick", "--only=tcp-rr"])
        .output()
        .unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{text}");
    let refusal = "kernel: left out: perf_event_open refuses kmem:mm_page_alloc: ";
    assert!(text.starts_with(refusal) && text.contains("CAP_PERFMON"), "{text}");
}

#[test]
fn the_doctor_says_whether_the_kernel_counts() {
    let doctor = lab().args(["doctor"]).assert().success();
    let either = contains("counts of the running kernel: available, ")
        .or(contains("counts of the running kernel: not available: "));
    doctor.stdout(either);
}
