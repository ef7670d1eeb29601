//! From before main to after exit: threads, signals, libraries opened by `dlopen`, forks.

use crate::support::{Run, library, plugin, program, scratch};
use std::fs;

#[test]
fn before_main_and_after_it() {
    let outcome = Run::new(program("life_early.cpp")).finish().success();
    assert_eq!(outcome.stdout, "every stage passed\n", "{outcome}");
}

/// Whichever function of the library a program calls first, the call initialises Quarry.
#[test]
fn first_call_of_the_program() {
    for entry in [
        "malloc",
        "malloc-of-nothing",
        "malloc-of-a-block",
        "malloc-of-a-mapping",
        "malloc-of-too-much",
        "calloc",
        "realloc",
        "memalign",
        "posix_memalign",
        "free",
        "malloc_usable_size",
        "malloc_trim",
        "mallopt",
        "mallinfo2",
        "dlopen",
    ] {
        // Without statistics at exit, which the test `before_main_and_after_it` covers.
        Run::new(program("life_first.c")).arg(entry).without_stats().finish().success();
    }
}

#[test]
fn destructors_of_threads() {
    Run::new(program("life_tls.cpp")).finish().success();
}

#[test]
fn ten_thousand_short_threads() {
    Run::new(program("life_threads.c")).finish().success();
}

/// No function is a cancellation point: a cancelled thread would leave locks held.
#[test]
fn no_cancellation_point() {
    Run::new(program("life_cancel.c")).finish().success();
}

#[test]
fn smallest_stacks() {
    Run::new(program("life_small_stack.c")).finish().success();
}

#[test]
fn library_opened_and_closed() {
    Run::new(program("life_dlopen.c")).arg(plugin("life_plugin.c")).finish().success();
}

/// However late a program opens it, the library serves those who ask it. On musl it does not,
/// because that loader gives no object that is opened a fixed place, and one line reports it.
#[test]
fn library_opened_late() {
    let Some(library) = library() else { return };
    let folder = scratch();
    let greedy = (0..60).map(|number| {
        let copy = folder.join(format!("greedy-{number}.so"));
        fs::copy(plugin("life_greedy.c"), &copy).expect("the folder is writable");
        copy
    });
    let run = Run::bare(program("life_late.c")).arg(library).args(greedy);
    let outcome = run.finish().success();
    let is_left = outcome.stderr.contains("the C library's malloc serves it");
    assert!(outcome.stdout == "112\n112\n" || is_left, "{outcome}");
}

#[test]
fn storm_of_signals() {
    Run::new(program("life_signals.c")).finish().success();
}

#[test]
fn two_hundred_forks() {
    Run::new(program("life_fork.c")).finish().success();
}

#[test]
fn exec_and_spawn() {
    Run::new(program("life_exec.c")).finish().success();
}
