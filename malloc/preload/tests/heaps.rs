//! Heaps of the program, from C.

use crate::support::{Run, example, in_every_mode, linked_program, modes, with_few_samples};

fn part(name: &str) -> Run {
    Run::full(linked_program("heap_use.c")).arg(name)
}

#[test]
fn objects_come_and_go_by_the_standard_functions() {
    in_every_mode(|| part("use"));
}

#[test]
fn realloc_into_a_heap_moves() {
    in_every_mode(|| part("moves"));
}

#[test]
fn a_reset_frees_all() {
    with_few_samples(|| part("reset"));
}

#[test]
fn the_limit_is_told_before_it_refuses() {
    with_few_samples(|| part("limit"));
}

#[test]
fn errors_have_their_errno() {
    in_every_mode(|| part("errors"));
}

#[test]
fn containers_of_cxx() {
    with_few_samples(|| Run::full(linked_program("cxx_heaps.cpp")));
}

#[test]
fn a_hundred_thousand_heaps() {
    part("many").without_stats().finish().success();
}

#[test]
fn threads_share_a_heap_and_have_their_own() {
    in_every_mode(|| part("threads"));
}

#[test]
fn children_use_every_heap() {
    in_every_mode(|| part("forks"));
}

#[test]
fn there_are_none_where_the_c_library_serves() {
    part("disabled").env("QUARRY_DISABLE", "1").without_stats().finish().success();
}

const NOT_IN_USE: &str = "free({}): object of 128 bytes of heap apples is not in use: freed \
                          already, or never allocated";

/// Misuses of `heap_misuse.c`, and how the reports end.
const MISUSE: [(&str, &str); 16] = [
    ("gone", "quarry_heap_malloc: heap apples was destroyed before"),
    ("gone-calloc", "quarry_heap_calloc: heap apples was destroyed before"),
    ("gone-reset", "quarry_heap_reset: heap apples was destroyed before"),
    ("gone-used", "quarry_heap_used: heap apples was destroyed before"),
    ("twice-destroyed", "quarry_heap_destroy: heap apples was destroyed before"),
    ("gone-free", "free({}): memory of heap apples, which was destroyed"),
    ("gone-free-block", "free({}): memory of heap apples, which was destroyed"),
    ("gone-realloc", "realloc({}): memory of heap apples, which was destroyed"),
    ("gone-usable", "malloc_usable_size({}): memory of heap apples, which was destroyed"),
    ("twice", NOT_IN_USE),
    ("twice-later", NOT_IN_USE),
    ("inside", "pointer into the middle of an object of 128 bytes of heap apples"),
    ("inside-block", "pointer into the middle of a block"),
    ("reset", NOT_IN_USE),
    ("number", "quarry_heap_malloc: there is no such heap"),
    ("thread", "quarry_heap_malloc: heap apples was destroyed before"),
];

#[test]
fn misuse_is_reported_with_the_name_of_the_heap() {
    for (mode, (kind, text)) in modes().flat_map(|mode| MISUSE.map(|it| (mode, it))) {
        let run = Run::full(linked_program("heap_misuse.c")).arg(kind).without_stats();
        let Some(run) = mode.with_few_samples(run) else { continue };
        let outcome = run.finish();
        let pointer = outcome.stdout.lines().next().unwrap_or_default().to_owned();
        let text = text.replace("{}", &pointer);
        let line = outcome.stderr.trim_end();
        assert!(line.starts_with("quarry: ") && line.ends_with(&text), "{kind}: {text}\n{outcome}");
        assert!(!outcome.stdout.contains("survived"), "{outcome}");
    }
}

#[test]
fn the_examples_of_the_guide_run() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).expect("it exists");
    let guide = read("../../docs/heaps.md");
    for (fence, file) in [("```c\n", "queries.c"), ("```c++\n", "rows.cpp")] {
        let (_, block) = guide.split_once(fence).expect("an example");
        let (block, _) = block.split_once("```").expect("its end");
        let source = read(&format!("examples/{file}"));
        assert!(source.contains(block), "the guide shows other lines than {file} has");
    }
    Run::full(example("rows.cpp")).without_stats().finish().success();
    let outcome = Run::full(example("queries.c")).without_stats().finish().success();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines[0], "small: 10 rows in 1072 bytes", "{outcome}");
    assert!(lines[1].starts_with("greedy: "), "{outcome}");
}
