//! All sizes, threads, frees by other threads, forks and signals, with checksums in every object.

use std::time::{Duration, Instant};

use crate::support::{Run, calls_between_marks, linked_program, program};

fn stress(arguments: &str) {
    Run::new(program("stress.c")).args(arguments.split_whitespace()).finish().success();
}

#[test]
fn one_thread() {
    stress("1 1 300000");
}

#[test]
fn two_threads() {
    stress("2 2 200000");
}

#[test]
fn sixty_four_threads() {
    stress("3 64 6000");
}

/// In each round a thread allocates giants until a request fails, and then frees everything.
#[test]
fn giants_until_there_is_no_memory() {
    Run::new(program("stress_giants.c")).args(["60", "20"]).finish().success();
}

/// A round allocates a dozen mappings. Only mappings of more than 64 MiB are given back to the
/// system, and nothing when the last request is refused. The C library makes 24 system calls in
/// each round. Three calls reset each of the ten freed blocks of 32 MiB and more, and the thread
/// that gives memory back hears of them.
#[test]
fn a_refused_giant_costs_no_more_than_what_was_allocated() {
    let run = Run::new(program("stress_giants.c")).without_stats().args(["1", "20", "marks"]);
    let spans = calls_between_marks(run.into_command());
    let [calls] = &spans[..] else { panic!("{spans:?}") };
    assert!(calls.total() <= 20 * (15 + 30 + 12), "{calls:?}");
}

#[test]
fn forks_and_signals() {
    stress("4 6 40000 fork signals");
}

fn stress_heaps(arguments: &str) {
    let run = Run::full(linked_program("stress_heaps.c")).without_stats();
    run.args(arguments.split_whitespace()).finish().success();
}

#[test]
fn heaps_and_groups_that_come_and_go() {
    stress_heaps("5 8 500");
}

/// Runs `QUARRY_SOAK_SECONDS=N` seconds with new seeds; otherwise one round.
#[test]
fn soak() {
    let seconds = std::env::var("QUARRY_SOAK_SECONDS")
        .map(|text| {
            text.parse().unwrap_or_else(|_| {
                panic!("QUARRY_SOAK_SECONDS={text}: a number of seconds is accepted")
            })
        })
        .unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(seconds);
    for seed in 100_u64.. {
        for shape in ["1 100000", "2 100000 signals", "8 20000 fork", "64 3000 fork signals"] {
            stress(&format!("{seed} {shape}"));
        }
        stress_heaps(&format!("{seed} 8 2000"));
        if Instant::now() >= end {
            break;
        }
    }
}
