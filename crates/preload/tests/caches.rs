//! Caches of objects, and pages, from C and C++.

use crate::support::{Run, example, library, linked_program, skipped, slab_policy};

fn part(name: &str) -> Run {
    Run::full(linked_program("cache_use.c")).arg(name)
}

#[test]
fn objects_come_and_go() {
    part("use").finish().success();
}

#[test]
fn constructors_make_each_object_once() {
    let outcome = part("constructor").finish().success();
    let made = outcome.stdout.lines().find_map(|line| line.strip_prefix("made "));
    let made: u32 = made.and_then(|count| count.parse().ok()).expect("a count");
    // Five rounds with 300 objects. Without the partial lists of CPUs (Linux 3.2), SLUB discards
    // nearly every slab that becomes empty, and so constructs its objects again.
    let policy = slab_policy(library().expect("it is under test"));
    let discards = ["slub-2.6.29", "slub-3.0", "slub-3.1"].contains(&policy);
    let most = if discards { 5 * 300 + 300 } else { 900 };
    assert!(made < most, "{made} objects were made");
}

#[test]
fn a_reserve_gives_when_nothing_else_does() {
    let outcome = part("reserve").without_stats().finish().success();
    let line = "quarry: quarry_cache_destroy: cache reserve: 1 object is still in use: 0x";
    assert!(outcome.stderr.starts_with(line), "{outcome}");
}

#[test]
fn caches_that_share_slabs_get_what_they_ask_for() {
    part("shared").finish().success();
}

#[test]
fn errors_have_their_errno() {
    part("errors").finish().success();
}

#[test]
fn pages_of_every_order() {
    part("pages").finish().success();
}

#[test]
fn caches_come_and_go_beside_other_threads() {
    part("threads").finish().success();
}

#[test]
fn children_have_caches() {
    part("forks").finish().success();
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

#[test]
fn misuse_is_reported() {
    for (kind, text) in [
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
    ] {
        let run = Run::full(linked_program("cache_misuse.c")).arg(kind);
        let outcome = run.without_stats().finish();
        let pointer = outcome.stdout.lines().next().unwrap_or_default().to_owned();
        let text = text.replace("{}", &pointer);
        let line = outcome.stderr.trim_end();
        assert!(line.starts_with("quarry: ") && line.ends_with(&text), "{kind}: {text}\n{outcome}");
        assert!(!outcome.stdout.contains("survived"), "{outcome}");
    }
}

#[test]
fn the_example_in_c() {
    let outcome = Run::full(example("sessions.c")).without_stats().finish().success();
    assert_eq!(
        outcome.stdout,
        "1000 sessions in prepared objects: yes\ntwo ends: yes\neight pages of zeroes: yes\n\
         forgotten: 1\nforgotten: 0\n"
    );
    let said = "quarry: quarry_cache_destroy: cache sessions: 1 object is still in use: 0x";
    assert!(outcome.stderr.starts_with(said), "{outcome}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome}");
}

#[test]
fn the_example_in_cxx() {
    let outcome = Run::full(example("orders.cpp")).without_stats().finish().success();
    assert_eq!(outcome.stdout, "100 orders, 5050 pieces\nrefused: no pieces\n");
    assert_eq!(outcome.stderr, "", "no owner is lost");
}
