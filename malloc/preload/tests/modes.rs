//! The errors that `QUARRY_DEBUG`, `QUARRY_HARDEN` and `QUARRY_GUARD` find. Correct programs run as
//! without these options.

use crate::programs;
use crate::support::{Outcome, Run, program};
use std::os::unix::process::ExitStatusExt;

const DEBUG: (&str, &str) = ("QUARRY_DEBUG", "FZPU");
const HARDEN: (&str, &str) = ("QUARRY_HARDEN", "1");
const GUARD: (&str, &str) = ("QUARRY_GUARD", "all");

/// Runs one misuse of `safety.c` in a mode.
fn misuse((name, value): (&str, &str), which: &str) -> Outcome {
    Run::new(program("safety.c")).without_stats().env(name, value).arg(which).finish()
}

/// Demands that a misuse ends in a report whose first line contains `what`, and that the report
/// comes before the faulty function returns, or, if `is_late`, after that.
#[track_caller]
fn is_found(mode: (&str, &str), which: &str, what: &str, is_late: bool) -> Outcome {
    let outcome = misuse(mode, which);
    let line = outcome.stderr.lines().next().unwrap_or_default();
    assert!(line.starts_with("quarry: ") && line.contains(what), "{which}: `{what}`\n{outcome}");
    assert_eq!(outcome.status.signal(), Some(libc::SIGABRT), "{outcome}");
    let has_returned = outcome.stdout.starts_with("returned\n");
    assert_eq!(has_returned, is_late, "{outcome}");
    outcome
}

#[test]
fn debug_finds_what_is_written_beside_objects_and_after_free() {
    for (which, what) in [
        ("past_1_small", "object of 40 bytes was written past its end: byte 40"),
        ("string_end", "object of 40 bytes was written past its end: byte 40"),
        ("past_zero", "object of 0 bytes was written past its end: byte 0"),
        ("past_shrunk", "object of 900 bytes was written past its end: byte 950"),
        ("past_1_large", "object of 307200 bytes was written past its end"),
        ("past_1_never_freed", "object of 40 bytes was written past its end"),
        ("before_1_small", "object of 40 bytes was written in front of its start: byte -1"),
        ("write_freed_small", "object of 40 bytes was written after it was freed: byte 24"),
        ("write_freed_paged", "object of 10000 bytes was written after it was freed"),
        ("write_moved", "object of 1000 bytes was written after it was freed: byte 8"),
    ] {
        is_found(DEBUG, which, what, true);
    }
    for (which, what) in [
        ("twice_late", "object of 40 bytes is not in use"),
        ("twice_huge", "no block in use starts there"),
        ("realloc_freed", "object of 1000 bytes is not in use"),
        ("delete_near_size", "33 bytes is the wrong size for an allocation of 40"),
        ("write_freed_huge", "object of 4194304 bytes"),
    ] {
        is_found(DEBUG, which, what, false);
    }
}

#[test]
fn owners_are_named_with_their_callers() {
    let outcome = is_found(DEBUG, "write_freed_medium", "after it was freed", true);
    for what in ["allocated ", "freed ", "found by thread "] {
        let mut lines = outcome.stderr.lines();
        let has_line =
            lines.any(|line| line.trim_start_matches("quarry:").trim().starts_with(what));
        assert!(has_line, "`{what}`\n{outcome}");
    }
    if cfg!(target_arch = "x86_64") {
        let of_program = |line: &&str| line.contains("#0 0x") && line.contains("safety");
        assert!(outcome.stderr.lines().filter(of_program).count() >= 2, "{outcome}");
    }
}

#[test]
fn only_the_named_classes_are_debugged() {
    let of_others = ("QUARRY_DEBUG", "FZP,malloc-1024");
    let outcome = misuse(of_others, "write_freed_small");
    assert_eq!(outcome.stdout, "returned\nsurvived\n", "{outcome}");
    is_found(of_others, "past_1_medium", "object of 1000 bytes was written past its end", true);
    let bad = misuse(("QUARRY_DEBUG", "FZ,dentry"), "past_1_small");
    assert!(bad.stderr.contains("QUARRY_DEBUG=FZ,dentry is not accepted"), "{bad}");
}

#[test]
fn harden_finds_canaries_and_guard_pages() {
    is_found(HARDEN, "past_1_small", "object of 40 bytes was written past its end", true);
    is_found(HARDEN, "write_freed_small", "object of 40 bytes was written after", true);
    is_found(HARDEN, "past_page_large", "past the end of the block", false);
    is_found(HARDEN, "twice_late", "object of 40 bytes is not in use", false);
    is_found(HARDEN, "write_second_large", "was freed", false);
}

/// From objects of each size, in heaps of each history, whatever makes the guards.
#[test]
fn hardened_overflows_meet_a_guard() {
    for heap in ["fresh", "aged", "thread", "fork", "trim", "locked", "old"] {
        for access in ["read", "write"] {
            let run = Run::new(program("modes_overflow.c")).without_stats().args([heap, access]);
            let run = run.env(HARDEN.0, HARDEN.1).env("QUARRY_BACKGROUND", "0");
            let outcome = run.finish().success();
            assert!(outcome.stdout.lines().count() > 40, "{heap}\n{outcome}");
            let what = if access == "read" { "quarry: read of 0x" } else { "quarry: write to 0x" };
            for end in ["past the end of objects that take ", "past the end of the block at 0x"] {
                let says = |line: &str| line.starts_with(what) && line.contains(end);
                assert!(outcome.stderr.lines().any(says), "{heap}: {end}\n{outcome}");
            }
        }
    }
}

/// The limit leaves no room for guards that count.
#[test]
fn guards_leave_memory_and_mappings() {
    for system in ["now", "old", "none"] {
        let run = Run::new(program("modes_guards.c")).arg(system).env(HARDEN.0, HARDEN.1);
        run.env("QUARRY_LIMIT", "240M").env("QUARRY_BACKGROUND", "0").finish().success();
    }
}

#[test]
fn guard_pages_fault_at_once() {
    let text = "object of 1000 bytes at 0x";
    let outcome = is_found(GUARD, "write_freed_medium", text, false);
    assert!(outcome.stderr.contains("was freed"), "{outcome}");
    is_found(GUARD, "read_freed_small", "object of 40 bytes at 0x", false);
    is_found(GUARD, "twice_small", "is not in use", false);
}

#[test]
fn hardened_objects_of_no_bytes_fault() {
    is_found(HARDEN, "past_zero", "byte 0 of an object of 0 bytes at 0x", false);
    Run::new(program("modes_zero.c")).env(HARDEN.0, HARDEN.1).finish().success();
}

/// Two runs of a program get their objects in different orders.
#[test]
fn hardened_objects_come_in_random_order() {
    let order = || {
        let run = Run::new(program("modes_order.c")).without_stats();
        run.env(HARDEN.0, HARDEN.1).finish().success().stdout
    };
    let first = order();
    assert!(first.lines().count() == 1 && first != order(), "{first}");
}

/// If the program installed a SIGSEGV handler before, that handler still gets the program's faults.
#[test]
fn faults_of_the_program_are_its_own() {
    for (name, value) in [DEBUG, HARDEN, GUARD] {
        let run = Run::new(program("modes_fault.c")).without_stats().env(name, value);
        let outcome = run.finish();
        assert_eq!(outcome.status.signal(), Some(libc::SIGSEGV), "{outcome}");
        assert_eq!(outcome.stderr, "", "{outcome}");
    }
}

#[test]
fn real_programs_run_as_without() {
    for (name, value) in [DEBUG, HARDEN, ("QUARRY_GUARD", "10")] {
        programs::short::runs_in_mode(name, value);
    }
}

#[test]
fn threads_forks_and_signals() {
    for (name, value) in [DEBUG, HARDEN, ("QUARRY_GUARD", "1")] {
        let run = Run::new(program("stress.c")).env(name, value);
        run.args(["4", "8", "4000", "fork", "signals"]).finish().success();
        Run::new(program("life_fork.c")).env(name, value).finish().success();
    }
}
