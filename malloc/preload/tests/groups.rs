//! Groups, and threads inside them, from C.

use crate::support::{Run, example_with, in_every_mode, linked_program, skipped, with_few_samples};

fn part(name: &str) -> Run {
    Run::full(linked_program("group_use.c")).arg(name)
}

#[test]
fn every_function_charges_what_it_hands_out_inside() {
    in_every_mode(|| part("functions"));
}

#[test]
fn a_group_at_its_limit_harms_no_other() {
    with_few_samples(|| part("limit"));
}

#[test]
fn the_function_of_the_group_at_its_limit_is_called() {
    in_every_mode(|| part("pressure"));
}

#[test]
fn what_a_group_leaves_is_charged_to_the_group_above() {
    in_every_mode(|| part("rest"));
}

#[test]
fn threads_end_inside_groups() {
    in_every_mode(|| part("threads"));
}

#[test]
fn a_child_has_only_the_thread_that_forks() {
    in_every_mode(|| part("forks"));
}

#[test]
fn heaps_in_a_group_share_its_limit() {
    in_every_mode(|| part("heaps"));
}

#[test]
fn errors_have_their_errno() {
    in_every_mode(|| part("errors"));
}

#[test]
fn a_tree_adds_up_after_random_requests() {
    in_every_mode(|| part("random"));
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
