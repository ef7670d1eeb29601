//! Memory goes back to the system, even when the program is idle, and is not held twice. Each test
//! covers a frequent complaint of users of other allocators.

use crate::support::{
    Group, Run, calls_between_marks, library, linked_program, program, slab_policy,
};

/// Runs in a control group of its own if possible, so that the kernel's charge is compared with the
/// resident memory.
fn idle(arguments: &str, settings: &[(&str, &str)]) {
    let group = Group::create_or_skip(None, "the count of the control group");
    let mut run = Run::new(program("memory_idle.c")).args(arguments.split_whitespace());
    for (name, value) in settings {
        run = run.env(name, value);
    }
    if let Some(group) = &group {
        run = run.in_group(group);
    }
    let outcome = run.finish().success();
    println!("{}", outcome.stdout);
}

#[test]
fn idle_program_gives_everything_back() {
    idle("count 0", &[]);
    idle("bytes 0", &[]);
}

#[test]
fn idle_program_gives_back_without_huge_pages() {
    idle("count 0", &[("QUARRY_THP", "0"), ("QUARRY_POPULATE", "0")]);
    idle("bytes 0", &[("QUARRY_THP", "0")]);
}

#[test]
fn survivors_do_not_pin_what_lies_around_them() {
    idle("count 64", &[]);
    idle("count 64", &[("QUARRY_THP", "0")]);
}

#[test]
fn small_survivors_pin_their_own_pages() {
    idle("small 64", &[]);
    idle("small 1024", &[("QUARRY_THP", "0")]);
}

/// Redis makes a few requests a second while it waits, and each look took their objects back.
#[test]
fn a_program_that_waits_for_its_timer_lets_the_thread_sleep() {
    Run::new(program("memory_ticks.c")).finish().success();
}

fn option_case(name: &str) -> Run {
    Run::new(program("memory_options.c")).arg(name)
}

#[test]
fn purge_delay_of_zero() {
    option_case("at-once").env("QUARRY_PURGE_DELAY", "0").finish().success();
}

#[test]
fn purge_delay_of_ever() {
    option_case("never").env("QUARRY_PURGE_DELAY", "-1").finish().success();
}

#[test]
fn without_a_background_thread() {
    option_case("no-thread").env("QUARRY_BACKGROUND", "0").finish().success();
}

#[test]
fn a_worker_with_two_threads_gives_back_what_one_request_took() {
    option_case("worker").finish().success();
}

#[test]
fn small_programs_have_no_second_thread() {
    option_case("small").finish().success();
}

/// The background thread exists before the first free, however the program creates threads.
#[test]
fn threads_that_only_free_in_a_grown_program() {
    option_case("late").finish().success();
    option_case("early").finish().success();
}

#[test]
fn trim_gives_back_what_can_be_given() {
    for thp in ["0", "1"] {
        let run = option_case("trim").env("QUARRY_BACKGROUND", "0").env("QUARRY_THP", thp);
        run.finish().success();
    }
}

#[test]
fn thread_that_only_frees() {
    let (uniform, mixed) = (
        ["64 64", "8192 8192", "100000 100000", "3000000 3000000"],
        [
            "16 8192",
            // Blocks of pages of all sizes, with little free memory between them.
            "16 1048576 115",
            "40000 1048576 115",
        ],
    );
    for sizes in uniform.into_iter().chain(mixed) {
        let run = Run::new(program("memory_handover.c")).args(sizes.split_whitespace());
        println!("{}", run.finish().success().stdout);
    }
}

/// Large blocks that a program touches here and there, after others that it has filled.
#[test]
fn tables_cost_what_is_touched() {
    let cases = ["zeroed", "several", "reused", "grown", "grown-from-filled", "any"];
    for case in cases.into_iter().chain(["after-a-filled-table"]) {
        Run::new(program("memory_tables.c")).arg(case).finish().success();
    }
}

#[test]
fn phases_of_different_sizes() {
    println!("{}", Run::new(program("memory_phases.c")).finish().success().stdout);
}

#[test]
fn threads_that_come_and_go() {
    println!("{}", Run::new(program("memory_threads.c")).finish().success().stdout);
}

/// System calls during `pairs` allocations and frees of each size, with `buffers` of them live. The
/// process publishes no statistics, because each publication takes two page faults.
fn calls_in_pairs(pairs: u32, buffers: u32, sizes: &[usize]) -> Vec<u64> {
    // Polls and purges come by the clock: on a busy machine, between any two pairs.
    let mut run = Run::new(program("memory_pairs.c"))
        .env("QUARRY_RECORD", "0")
        .env("QUARRY_PRESSURE", "off")
        .env("QUARRY_PURGE_DELAY", "3600000")
        .without_stats()
        .arg(pairs.to_string())
        .arg(buffers.to_string());
    for size in sizes {
        run = run.arg(size.to_string());
    }
    let spans = calls_between_marks(run.into_command());
    assert_eq!(spans.len(), sizes.len(), "one span per size");
    println!("{spans:?}");
    spans.iter().map(crate::support::Calls::total).collect()
}

/// From 1 to 64 MiB: a pair makes no system call (a few calls start the background thread); but
/// from 32 MiB on, where glibc unmaps, the three that reset a freed block's pages.
#[test]
fn large_pairs_make_no_system_calls() {
    let sizes: Vec<usize> = (0..=6).map(|power| 1 << (20 + power)).collect();
    for (size, calls) in sizes.iter().zip(calls_in_pairs(300, 1, &sizes)) {
        let most = if *size < 32 << 20 { 30 } else { 30 + 3 * 300 };
        assert!(calls <= most, "{calls} system calls in 300 pairs of {size} bytes");
    }
}

/// Sizes alternate between 7.0 and 7.1 MB, and around other boundaries. Neither system calls nor
/// page faults (which the program counts) increase, with one buffer and with many.
#[test]
fn no_cliff_between_sizes() {
    let sizes = [7_000_000, 7_100_000, 8_388_608, 8_388_609, 1_048_576, 1_048_577, 32_768, 32_769];
    for buffers in [1, 4, 16] {
        for (size, calls) in sizes.iter().zip(calls_in_pairs(300, buffers, &sizes)) {
            assert!(calls <= 30, "{calls} calls with {buffers} buffers of {size} bytes");
        }
    }
}

/// A program that asks which objects are worth moving, by Quarry's function or by jemalloc's, and
/// moves these, frees memory.
#[test]
fn objects_move_out_of_sparse_slabs() {
    for program in ["memory_moving.c", "memory_bins.c"] {
        let part = || Run::full(linked_program(program));
        let part = match slab_policy(library().expect("it is under test")) {
            "sheaf" => part(),
            "sheaf-6.18" | "slam" => part().arg("told"),
            _ => part().arg("untold"),
        };
        part.finish().success();
    }
}

#[test]
fn nothing_moves_where_nothing_can_be_said() {
    for (program, disabled) in [("memory_moving.c", "untold"), ("memory_bins.c", "disabled")] {
        let part = |how| Run::full(linked_program(program)).arg(how).without_stats();
        for (name, value) in [("QUARRY_DEBUG", "FZPU"), ("QUARRY_HARDEN", "1")] {
            part("untold").env(name, value).finish().success();
        }
        part(disabled).env("QUARRY_DISABLE", "1").finish().success();
    }
}

#[test]
fn what_was_freed_does_not_move() {
    for how in ["freed", "freed-densely"] {
        let outcome =
            Run::full(linked_program("memory_moving.c")).arg(how).without_stats().finish();
        let pointer = outcome.stdout.lines().next().unwrap_or_default();
        let said = format!("quarry: free({pointer}): ");
        assert!(outcome.stderr.starts_with(&said), "{outcome}");
        assert!(outcome.stderr.contains("freed already, or never allocated"), "{outcome}");
        assert!(!outcome.stdout.contains("survived"), "{outcome}");
    }
}
