//! The page cache, used from C.

use crate::support::{Run, example, linked_program};

fn part(name: &str) -> Run {
    Run::full(linked_program("page_cache_use.c")).arg(name)
}

#[test]
fn pages_are_read_changed_and_written() {
    part("use").finish().success();
}

#[test]
fn errors_of_pages_have_their_errno() {
    part("errors").finish().success();
}

#[test]
fn a_file_lies_behind_a_mapping() {
    part("files").finish().success();
}

#[test]
fn threads_share_a_mapping() {
    part("threads").finish().success();
}

#[test]
fn a_child_leaves_its_parents_mapping_alone() {
    part("forks").finish().success();
}

#[test]
fn there_is_no_page_cache_where_the_c_library_serves() {
    part("disabled").env("QUARRY_DISABLE", "1").without_stats().finish().success();
}

#[test]
fn the_example_of_a_page_cache() {
    let outcome = Run::full(example("pages.c")).without_stats().finish().success();
    assert_eq!(outcome.stdout, "1000 visits\nof the file: 1000 visits\n");
    assert_eq!(outcome.stderr, "");
}

#[test]
fn misuse_of_pages_is_reported() {
    for (kind, text) in [
        ("unpin-twice", "): no page that is pinned"),
        ("unpin-listed", "): no page that is pinned"),
        ("pin-none", "quarry_page_pin(0x0): no page that is pinned"),
        ("bytes-none", "quarry_page_bytes(0x0): no page that is pinned"),
        ("lock-other", "): no page that is pinned"),
        ("unlock", "): nobody has locked the page so"),
        ("unlock-exclusive", "): nobody has locked the page so"),
        ("unlock-thread", "): another thread has locked the page"),
        ("dirty-mapping", "): a page of another mapping"),
        ("dirty-unpinned", "): no page that is pinned"),
    ] {
        let run = Run::full(linked_program("page_cache_misuse.c")).arg(kind);
        let outcome = run.without_stats().finish();
        let line = outcome.stderr.trim_end();
        assert!(line.starts_with("quarry: ") && line.ends_with(text), "{kind}: {text}\n{outcome}");
        assert!(!outcome.stdout.contains("survived"), "{outcome}");
    }
}
