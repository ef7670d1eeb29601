//! Statistics at exit and at a signal: their formats, their files, and their contents.

use crate::support::{Run, is_full, library, program, scratch, slab_policy};
use quarry_record::VERSION;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Stdio};

/// A short program with `QUARRY_STATS` set to `value`.
fn written(value: &str) -> Run {
    Run::new("ls").arg("/").without_stats().env("QUARRY_STATS", value)
}

#[test]
fn they_name_the_policies_and_who_serves() {
    let library = library().expect("the library is under test");
    let lru = if is_full(library) { "splice" } else { "none" };
    let outcome = written("1").finish().success();
    let slab = slab_policy(library);
    let names = format!("policies: slabs {slab}, pages v6.18, LRU {lru}; ");
    assert!(outcome.stderr.contains(&names), "{outcome}");
    let denied = Run::new(program("hostile_deny.c")).args(["38", "rseq", "/bin/ls", "/"]);
    let outcome = denied.without_stats().env("QUARRY_STATS", "1").finish().success();
    let names = format!("LRU {lru}; locked slots serve");
    assert!(outcome.stderr.contains(&names), "{outcome}");
}

/// Checks for some members in a line of JSON, which the tests of `quarry-record` parse.
fn assert_json(line: &str) {
    let start = format!("{{\"layout\":{VERSION},\"quarry\":\"");
    assert!(line.starts_with(&start) && line.ends_with('}'), "{line}");
    for member in ["\"program\":\"ls\"", "\"state\":\"ready\"", "\"memory\":{", "\"caches\":[{"] {
        assert!(line.contains(member), "{member} in {line}");
    }
}

#[test]
fn json_by_the_files_name_and_by_request() {
    let folder = scratch();
    let file = folder.join("stats.json");
    for _ in 0..2 {
        written(file.to_str().expect("UTF-8")).finish().success();
    }
    let text = fs::read_to_string(&file).expect("it was written");
    assert_eq!(text.lines().count(), 2, "each process appends a line");
    text.lines().for_each(assert_json);

    let outcome = written("1").env("QUARRY_STATS_FORMAT", "json").finish().success();
    outcome.stderr.lines().for_each(assert_json);
    let run = written(file.to_str().expect("UTF-8")).env("QUARRY_STATS_FORMAT", "text");
    run.finish().success();
    let text = fs::read_to_string(&file).expect("it was written");
    assert!(text.contains("slabinfo - version"), "{text}");
    let outcome = written("0").env("QUARRY_STATS_FORMAT", "xml").finish().success();
    assert!(outcome.stderr.contains("use text or json"), "{outcome}");
}

#[test]
fn a_file_for_each_process() {
    let folder = scratch();
    let name = folder.join("stats-%p-100%%");
    for _ in 0..2 {
        let mut command = written(name.to_str().expect("UTF-8")).into_command();
        let mut child = command.stdout(Stdio::null()).spawn().expect("ls is there");
        let number = child.id();
        assert!(child.wait().expect("it is our child").success());
        let own = folder.join(format!("stats-{number}-100%"));
        let text = fs::read_to_string(&own).expect("it has the number of the process");
        assert!(text.contains("slabinfo - version"), "{text}");
    }
    let outcome = written("stats-%d").finish().success();
    let expected = "quarry: no statistics: QUARRY_STATS=stats-%d: after % comes p for the number";
    assert!(outcome.stderr.starts_with(expected), "{outcome}");
}

/// Starts `record.c`, which waits for a command, and writes its statistics to `file`.
fn waiting(file: &Path, signal: Option<&str>) -> Child {
    let run = Run::new(program("record.c")).without_stats().env("QUARRY_STATS", file);
    let mut command = run.into_command();
    command.envs(signal.map(|signal| ("QUARRY_SIGNAL", signal)));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it was compiled")
}

/// The set of signals for which a process has installed handlers.
fn caught(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let set = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("has a set");
    u64::from_str_radix(set.trim(), 16).expect("hexadecimal")
}

/// Sends the signal until `is_done`, because a starting process may have missed the first one.
fn signal_until(child: &Child, signal: i32, is_done: impl Fn() -> bool) {
    let started = || caught(child.id()) & 1 << (signal - 1) != 0;
    while !started() {
        std::thread::yield_now();
    }
    while !is_done() {
        // SAFETY: kill takes numbers only; the child is ours and was not waited for.
        unsafe { libc::kill(child.id() as i32, signal) };
        std::thread::yield_now();
    }
}

#[test]
fn a_signal_has_them_written_at_once() {
    let file = scratch().join("stats");
    let mut child = waiting(&file, Some("SIGUSR2"));
    let tables = || fs::read_to_string(&file).unwrap_or_default().matches("slabinfo - ").count();
    signal_until(&child, libc::SIGUSR2, || tables() > 0);
    // The program still obeys commands, even while signals interrupt its work.
    let mut input = child.stdin.take().expect("a pipe");
    for _ in 0..3 {
        writeln!(input, "work").expect("it reads");
    }
    let before = tables();
    signal_until(&child, libc::SIGUSR2, || tables() > before + 3);
    drop(input);
    assert!(child.wait().expect("it is our child").success());
}

#[test]
fn a_small_alternate_stack_is_left_alone() {
    let file = scratch().join("stats");
    let run = Run::new(program("signal_stack.c")).without_stats().env("QUARRY_STATS", &file);
    run.env("QUARRY_SIGNAL", "SIGUSR2").finish().success();
    let tables = fs::read_to_string(&file).expect("it was written");
    assert_eq!(tables.matches("slabinfo - ").count(), 2, "after the signal, and at exit: {tables}");
}

#[test]
fn without_a_name_there_is_no_handler() {
    for signal in [None, Some("SIGKILL"), Some("10")] {
        let file = scratch().join("stats");
        let mut child = waiting(&file, signal);
        let mut input = child.stdin.take().expect("a pipe");
        writeln!(input, "work").expect("it reads");
        let serves =
            || fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap_or_default();
        while !serves().contains("memfd:quarry") {
            std::thread::yield_now();
        }
        assert_eq!(caught(child.id()), 0, "{signal:?}");
        drop(input);
        assert!(child.wait().expect("it is our child").success());
    }
}
