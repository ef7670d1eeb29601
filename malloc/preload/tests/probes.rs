//! The probes by which a tracer sees samples of the heap.

use crate::support::{Run, program};

/// The program is its own tracer, by breakpoints, whose signal kills where it is blocked: as it is
/// while Quarry starts its background thread. (The kernel's own breakpoints need no signal.)
fn traced(mean: &str) -> Run {
    let run = Run::new(program("probes.c")).arg(mean).env("QUARRY_BACKGROUND", "0");
    run.env("QUARRY_PROFILE_MEAN", mean)
}

/// As often as samples are usual, and with nearly every object a sample.
#[test]
fn a_tracer_sees_what_the_contract_says() {
    for mean in ["4096", "65536", "524288"] {
        traced(mean).finish().success();
        traced(mean).env("QUARRY_RECORD", "0").finish().success();
        traced(mean).env("QUARRY_SANDBOX", "1").finish().success();
    }
}

/// A tracer that attaches ends no profile, and takes its samples from there.
#[test]
fn a_tracer_beside_a_profile() {
    let file = crate::support::scratch().join("profile");
    traced("4096").env("QUARRY_PROFILE", &file).finish().success();
    assert!(std::fs::metadata(&file).is_ok_and(|file| file.len() > 4096), "the profile is there");
}
