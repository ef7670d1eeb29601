//! The page cache, used from C.

use crate::support::{Run, example, linked_program, modes};

fn part(name: &str) -> Run {
    Run::full(linked_program("page_cache_use.c")).arg(name)
}

/// Demands that a part succeeds in every mode.
fn succeeds(name: &str) {
    for mode in modes() {
        part(name).in_mode(mode).finish().success();
    }
}

#[test]
fn pages_are_read_changed_and_written() {
    succeeds("use");
}

#[test]
fn errors_of_pages_have_their_errno() {
    succeeds("errors");
}

#[test]
fn a_file_lies_behind_a_mapping() {
    succeeds("files");
}

#[test]
fn threads_share_a_mapping() {
    succeeds("threads");
}

#[test]
fn a_child_leaves_its_parents_mapping_alone() {
    succeeds("forks");
}

#[test]
fn there_is_no_page_cache_where_the_c_library_serves() {
    part("disabled").env("QUARRY_DISABLE", "1").without_stats().finish().success();
}

#[test]
fn the_example_of_a_page_cache() {
    for mode in modes() {
        let run = Run::full(example("pages.c")).without_stats().in_mode(mode);
        let outcome = run.finish().success();
        assert_eq!(outcome.stdout, "1000 visits\nof the file: 1000 visits\n");
        assert_eq!(outcome.stderr, "");
    }
}

/// Misuses of `page_cache_misuse.c`, and how the reports end.
const MISUSE: [(&str, &str); 10] = [
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
];

#[test]
fn misuse_of_pages_is_reported() {
    for (mode, (kind, text)) in modes().flat_map(|mode| MISUSE.map(|misuse| (mode, misuse))) {
        let run = Run::full(linked_program("page_cache_misuse.c")).arg(kind);
        let outcome = run.without_stats().in_mode(mode).finish();
        let line = outcome.stderr.trim_end();
        assert!(line.starts_with("quarry: ") && line.ends_with(text), "{kind}: {text}\n{outcome}");
        assert!(!outcome.stdout.contains("survived"), "{outcome}");
    }
}
