//! One budget, from C: shrinkers, pressure, limits that change under load, and forks.

use crate::support::{Run, linked_program};

#[test]
fn caches_of_the_program_give_way_while_it_allocates_forks_and_shrinks() {
    let outcome = Run::full(linked_program("budget.c")).finish().success();
    assert!(outcome.stdout.ends_with("done\n"), "{outcome}");
}

/// A burst takes clean pages at once, and shrinkers give their part while it goes on or after it,
/// also where a request waits for the background thread because the pages do not suffice.
#[test]
fn a_burst_takes_of_pages_and_objects_in_proportion() {
    for request in ["3000", "20000", "50000", "400000", "20000000", "31457280", "35000000"] {
        let outcome = Run::full(linked_program("budget_burst.c")).arg(request).finish().success();
        assert!(outcome.stdout.ends_with("done\n"), "requests of {request}\n{outcome}");
    }
}

/// Without a background thread, the program's threads reclaim, and run its callbacks.
#[test]
fn a_program_without_a_thread_reclaims_itself() {
    let run = Run::full(linked_program("budget_alone.c")).env("QUARRY_BACKGROUND", "0");
    let outcome = run.finish().success();
    assert!(outcome.stdout.ends_with("done\n"), "{outcome}");
}
