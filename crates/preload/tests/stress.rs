//! All sizes, threads, frees on other threads, forks and signals, with checksums in every object.

use std::time::{Duration, Instant};

use crate::support::{Run, program};

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

#[test]
fn forks_and_signals() {
    stress("4 6 40000 fork signals");
}

/// `QUARRY_SOAK_SECONDS=N` goes on with fresh seeds; one round otherwise.
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
        if Instant::now() >= end {
            break;
        }
    }
}
