//! Caches of objects, and pages, from C and C++.

use crate::support::{
    Mode, Run, example, full_library, linked_program, modes, skipped, slab_policy,
};

fn part(name: &str) -> Run {
    Run::full(linked_program("cache_use.c")).arg(name)
}

/// Demands that a part succeeds in every mode.
fn succeeds(name: &str) {
    for mode in modes() {
        part(name).in_mode(mode).finish().success();
    }
}

#[test]
fn objects_come_and_go() {
    succeeds("use");
}

#[test]
fn constructors_make_each_object_once() {
    let most = most_constructed();
    for mode in modes() {
        let outcome = part("constructor").in_mode(mode).finish().success();
        let made = outcome.stdout.lines().find_map(|line| line.strip_prefix("made "));
        let made: u32 = made.and_then(|count| count.parse().ok()).expect("a count");
        assert!(made < most, "{made} objects were made\n{outcome}");
    }
}

/// Five rounds with 300 objects. Without the partial lists of CPUs (Linux 3.2), SLUB discards
/// nearly every slab that becomes empty, and so constructs its objects again.
fn most_constructed() -> u32 {
    let policy = slab_policy(full_library().expect("it is under test"));
    let discards = ["slub-2.6.29", "slub-3.0", "slub-3.1"].contains(&policy);
    if discards { 5 * 300 + 300 } else { 900 }
}

#[test]
fn a_reserve_gives_when_nothing_else_does() {
    for mode in modes() {
        let outcome = part("reserve").without_stats().in_mode(mode).finish().success();
        let line = "quarry: quarry_cache_destroy: cache reserve: 1 object is still in use: 0x";
        assert!(outcome.stderr.starts_with(line), "{outcome}");
    }
}

#[test]
fn caches_that_share_slabs_get_what_they_ask_for() {
    succeeds("shared");
}

#[test]
fn errors_have_their_errno() {
    succeeds("errors");
}

#[test]
fn only_memory_bounds_the_number_of_caches() {
    for mode in modes() {
        part("many").without_stats().in_mode(mode).finish().success();
    }
}

#[test]
fn pages_of_every_order() {
    succeeds("pages");
}

#[test]
fn caches_come_and_go_beside_other_threads() {
    succeeds("threads");
}

#[test]
fn children_have_caches() {
    succeeds("forks");
}

/// An error about objects in use counts separately those that are parked on other CPUs.
#[test]
fn objects_out_of_reach_are_named_as_such() {
    let outcome = Run::full(linked_program("cache_unreached.c")).without_stats().finish().success();
    if outcome.stdout.starts_with("reached") {
        return skipped("there is one CPU, or there are no restartable sequences");
    }
    let (said, parked) = outcome.stdout.trim_end().split_once(' ').expect("two numbers");
    let line =
        format!("quarry: quarry_cache_destroy: cache far: {said} objects are still in use: 0x");
    assert!(outcome.stderr.starts_with(&line), "{outcome}");
    let end = format!("; {parked} of them are parked on CPUs that could not be reached\n");
    assert!(outcome.stderr.ends_with(&end), "{outcome}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome}");
}

#[test]
fn there_are_none_where_the_c_library_serves() {
    part("disabled").env("QUARRY_DISABLE", "1").without_stats().finish().success();
}

/// Misuses of `cache_misuse.c`, and how the reports end.
const MISUSE: [(&str, &str); 16] = [
    ("other", "free({}): object of cache pears was given to cache apples"),
    ("bulk", "object of cache pears was given to cache apples"),
    ("inside", "free({}): pointer into the middle of an object of 128 bytes"),
    ("class", "free({}): object of cache malloc-128 was given to cache apples"),
    ("block", "free({}): the block is no object of cache apples"),
    ("foreign", "free({}): pointer was not allocated by quarry"),
    ("twice", "free({}): object of 128 bytes is not in use: freed already, or never allocated"),
    ("gone", " is no cache"),
    ("no-reserve", "quarry_reserve_free({}): no reserve is there"),
    ("reserve-of-malloc", "quarry_reserve_free({}): no reserve is there"),
    ("unregister", "quarry_unregister({}): nothing is registered there"),
    ("unregister-number", "quarry_unregister({}): nothing is registered there"),
    ("constructor", "the constructor of cache plums has asked for an object of it"),
    ("pages-of-object", "quarry_pages_free({}): no block of 4 pages in use starts there"),
    ("pages-of-order", "quarry_pages_free({}): no block of 4 pages in use starts there"),
    ("pages-inside", "quarry_pages_free({}): no block of 4 pages in use starts there"),
];

#[test]
fn misuse_is_reported() {
    // While frees are checked, no object freed twice is overlooked, whatever happened in between.
    let late = (
        "twice-late",
        "free({}): object of 128 bytes is not in use: freed already, or never allocated",
    );
    let of_mode = |mode: Mode| MISUSE.into_iter().chain(mode.sees_frees().then_some(late));
    for (mode, (kind, text)) in modes().flat_map(|mode| of_mode(mode).map(move |it| (mode, it))) {
        let run = Run::full(linked_program("cache_misuse.c")).arg(kind);
        let outcome = run.without_stats().in_mode(mode).finish();
        let pointer = outcome.stdout.lines().next().unwrap_or_default().to_owned();
        let text = text.replace("{}", &pointer);
        let line = outcome.stderr.trim_end();
        // An instrument may give malloc another object than a small one of its class.
        let other = kind == "class" && !mode.is_plain();
        let is_said = match other {
            true => line.contains(" of cache ") && line.ends_with(" cache apples"),
            false => line.ends_with(&text),
        };
        assert!(line.starts_with("quarry: ") && is_said, "{kind}: {text}\n{outcome}");
        assert!(!outcome.stdout.contains("survived"), "{outcome}");
    }
}

#[test]
fn the_example_in_c() {
    for mode in modes() {
        let run = Run::full(example("sessions.c")).without_stats().in_mode(mode);
        let outcome = run.finish().success();
        assert_eq!(
            outcome.stdout,
            "1000 sessions in prepared objects: yes\ntwo ends: yes\neight pages of zeroes: yes\n\
             forgotten: 1\nforgotten: 0\n"
        );
        let said = "quarry: quarry_cache_destroy: cache sessions: 1 object is still in use: 0x";
        assert!(outcome.stderr.starts_with(said), "{outcome}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome}");
    }
}

#[test]
fn the_example_in_cxx() {
    for mode in modes() {
        let run = Run::full(example("orders.cpp")).without_stats().in_mode(mode);
        let outcome = run.finish().success();
        assert_eq!(outcome.stdout, "100 orders, 5050 pieces\nrefused: no pieces\n");
        assert_eq!(outcome.stderr, "", "no owner is lost");
    }
}
