//! The probes by which a tracer sees samples of the heap.

use crate::support::{Run, program};

/// As often as samples are usual, and with nearly every object a sample.
#[test]
fn a_tracer_sees_what_the_contract_says() {
    for mean in ["4096", "65536", "524288"] {
        let run = || Run::new(program("probes.c")).arg(mean).env("QUARRY_PROFILE_MEAN", mean);
        run().finish().success();
        run().env("QUARRY_RECORD", "0").finish().success();
        run().env("QUARRY_SANDBOX", "1").finish().success();
    }
}

/// A tracer that attaches ends no profile, and takes its samples from there.
#[test]
fn a_tracer_beside_a_profile() {
    let file = crate::support::scratch().join("profile");
    let run = Run::new(program("probes.c")).arg("4096").env("QUARRY_PROFILE", &file);
    run.env("QUARRY_PROFILE_MEAN", "4096").finish().success();
    assert!(std::fs::metadata(&file).is_ok_and(|file| file.len() > 4096), "the profile is there");
}
