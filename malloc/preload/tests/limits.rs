//! At a limit: requests fail with NULL and ENOMEM, the process is not killed, and the program goes
//! on; in C++ and Rust they fail as the language defines.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::support::{Group, Run, calls_between_marks, program, scratch};
use crate::surroundings::where_allowed;

/// Under the limit of a control group, if this machine lets the test make one.
fn in_limited_group(how: &str, thp: &str) {
    const LIMIT_MIB: u64 = 192;
    let Some(group) = Group::create_or_skip(Some(LIMIT_MIB << 20), how) else { return };
    let outcome = Run::new(program("limits_group.c"))
        .args([&LIMIT_MIB.to_string(), how])
        .env("QUARRY_THP", thp)
        .in_group(&group)
        .finish();
    assert_eq!(group.kills(), 0, "the kernel killed a process\n{outcome}");
    println!("{}", outcome.success().stdout);
}

#[test]
fn group_with_less_than_is_asked_for() {
    in_limited_group("alone", "1");
    in_limited_group("alone", "0");
}

#[test]
fn group_that_others_fill_as_well() {
    in_limited_group("shared", "1");
}

/// Bursts of two and of four workers, together more than the limit of their group.
#[test]
fn workers_of_one_group_share_its_limit() {
    for (limit_mib, workers, threads) in [(100, "2", "4"), (120, "2", "4"), (160, "4", "2")] {
        let what = "workers of a group";
        let Some(group) = Group::create_or_skip(Some(limit_mib << 20), what) else { return };
        let outcome = Run::new(program("limits_prefork.c"))
            .args([workers, threads, "16000", "20"])
            .in_group(&group)
            .finish();
        assert_eq!(group.kills(), 0, "the kernel killed a worker\n{outcome}");
        outcome.success();
    }
}

/// Under a group's limit, beside another process that ends, or beside page cache.
fn beside_a_neighbour(what: &str) {
    const LIMIT_MIB: u64 = 128;
    let Some(group) = Group::create_or_skip(Some(LIMIT_MIB << 20), what) else { return };
    let outcome = Run::new(program("limits_neighbour.c"))
        .args([what, &LIMIT_MIB.to_string()])
        .arg(scratch().join("cached"))
        .in_group(&group)
        .finish();
    assert_eq!(group.kills(), 0, "the kernel killed a process\n{outcome}");
    println!("{}", outcome.success().stdout);
}

#[test]
fn what_a_neighbour_releases_serves_small_requests() {
    beside_a_neighbour("released");
}

#[test]
fn page_cache_in_use_gives_way() {
    beside_a_neighbour("cache");
}

/// Control groups of both versions, simulated by files that the program writes.
fn in_group_of_files(case: &str, versions: &[&str]) {
    for version in versions {
        where_allowed(Run::new(program("limits_files.c")).args([case, version]));
    }
}

#[test]
fn small_requests_look_again_before_they_are_refused() {
    in_group_of_files("released", &["1", "2"]);
}

#[test]
fn limit_stays_when_descriptors_run_out() {
    in_group_of_files("descriptors", &["1", "2"]);
}

#[test]
fn memory_high_refuses_nothing() {
    in_group_of_files("high", &["2"]);
}

#[test]
fn page_cache_counts_as_used_where_it_is_dirty() {
    in_group_of_files("cache", &["1", "2"]);
    in_group_of_files("dirty", &["1", "2"]);
}

/// The library refuses an impossible size without a system call.
#[test]
fn impossible_requests_make_no_system_calls() {
    let run = Run::new(program("limits_impossible.c")).without_stats().arg("calls");
    let spans = calls_between_marks(run.into_command());
    assert_eq!(spans.len(), 9, "one span per size");
    for (number, calls) in spans.iter().enumerate() {
        assert_eq!(calls.total(), 0, "calls in span {number}: {calls:?}");
    }
}

#[test]
fn more_than_the_machine_has_is_refused_as_to_the_c_library() {
    where_allowed(Run::new(program("limits_impossible.c")).arg("machine"));
}

#[test]
fn a_program_sets_its_own_limit() {
    let program = program("limits_api.c");
    assert_eq!(Run::new(&program).finish().success().stdout, "done\n");
    let disabled = Run::new(&program).arg("disabled").env("QUARRY_DISABLE", "1").without_stats();
    disabled.finish().success();
}

#[test]
fn cxx_handlers_and_exceptions() {
    let run = Run::new(program("limits_cxx.cpp")).env("QUARRY_LIMIT", "64M");
    run.finish().success();
}

#[test]
fn rust_errors_and_the_end_of_what_nobody_checks() {
    let file = scratch().join("limits-rs");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rs/limits.rs");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let answer = Command::new(compiler)
        .args(["--edition=2024", "-Copt-level=1", "-o"])
        .arg(&file)
        .arg(source)
        .output()
        .expect("rustc runs");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));

    let outcome = Run::new(&file).env("QUARRY_LIMIT", "64M").finish().success();
    assert_eq!(outcome.stdout, "done\n", "{outcome}");
    let outcome = Run::new(&file).arg("abort").env("QUARRY_LIMIT", "64M").without_stats().finish();
    assert_eq!(outcome.status.signal(), Some(libc::SIGABRT), "{outcome}");
    let expected = "memory allocation of 1073741824 bytes failed";
    assert!(outcome.stderr.starts_with(expected), "{outcome}");
}
