//! Groups, and threads inside them, from C.

use crate::support::{Run, example_with, linked_program, modes, skipped};

fn part(name: &str) -> Run {
    Run::full(linked_program("group_use.c")).arg(name)
}

/// Demands that a part succeeds in every mode.
fn succeeds(name: &str) {
    for mode in modes() {
        part(name).without_stats().in_mode(mode).finish().success();
    }
}

/// [`succeeds`] where few objects are samples, each of which takes a page.
fn succeeds_unsampled(name: &str) {
    for run in modes().filter_map(|mode| mode.with_few_samples(part(name).without_stats())) {
        run.finish().success();
    }
}

#[test]
fn every_function_charges_what_it_hands_out_inside() {
    succeeds("functions");
}

#[test]
fn a_group_at_its_limit_harms_no_other() {
    succeeds_unsampled("limit");
}

#[test]
fn the_function_of_the_group_at_its_limit_is_called() {
    succeeds("pressure");
}

#[test]
fn what_a_group_leaves_is_charged_to_the_group_above() {
    succeeds("rest");
}

#[test]
fn threads_end_inside_groups() {
    succeeds("threads");
}

#[test]
fn a_child_has_only_the_thread_that_forks() {
    succeeds("forks");
}

#[test]
fn heaps_in_a_group_share_its_limit() {
    succeeds("heaps");
}

#[test]
fn errors_have_their_errno() {
    succeeds("errors");
}

#[test]
fn a_tree_adds_up_after_random_requests() {
    succeeds("random");
}

#[test]
fn ten_thousand_groups() {
    part("many").without_stats().finish().success();
}

#[test]
fn there_are_none_where_the_c_library_serves() {
    part("disabled").env("QUARRY_DISABLE", "1").without_stats().finish().success();
}

/// The guide shows lines of the example, and what it prints; SQLite's pages make the sizes.
#[test]
fn the_example_of_the_guide_runs() {
    if !std::path::Path::new("/usr/include/sqlite3.h").exists() {
        return skipped("there is no sqlite3.h");
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).expect("it exists");
    let (guide, source) = (read("../../docs/tenants.md"), read("examples/tenants.c"));
    let (_, shown) = guide.split_once("```c\n").expect("an example");
    let (shown, _) = shown.split_once("```").expect("its end");
    assert!(source.contains(shown), "the guide shows other lines than the example has");
    let program = example_with("tenants.c", &["-Wl,--no-as-needed", "-lsqlite3"]);
    let outcome = Run::full(program).without_stats().finish().success();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    for (line, start) in
        lines.iter().zip(["north: not an error, ", "greedy: ", "south: not an error"])
    {
        assert!(line.starts_with(start), "{outcome}");
    }
    assert!(lines[1].starts_with("greedy: out of memory") && lines.len() == 3, "{outcome}");
}
