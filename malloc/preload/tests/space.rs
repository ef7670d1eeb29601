//! Address space: limits that the program sets for itself, mappings of other code beside the
//! heap's, pages that cannot be moved, and too many mappings.

use crate::support::{Run, program};
use crate::surroundings::where_allowed;

fn start(source: &'static str) -> Run {
    Run::new(program(source))
}

/// If the heap reserved all its addresses, they would count against the limit: threads, mappings
/// and shared objects would find no addresses, and still nothing would bound the heap.
#[test]
fn limit_set_by_the_running_program() {
    start("space_limit.c").finish().success();
}

#[test]
fn address_space_in_proportion_to_what_is_in_use() {
    start("space_counted.c").finish().success();
}

/// The kernel leaves a hole in the heap's addresses. Objects must neither move there nor overwrite
/// memory that another part of the program has mapped there since.
#[test]
fn moves_that_fail_after_the_target_was_unmapped() {
    for who in ["nobody", "fills"] {
        start("space_moved.c").arg(who).finish().success();
    }
}

/// Other libraries have replaced the functions that map memory, and pass on less than they get.
#[test]
fn moves_where_the_calls_for_memory_are_replaced() {
    for how in ["four", "refuses", "elsewhere", "watches", "fails"] {
        start("space_hooks.c").arg(how).finish().success();
    }
}

/// Functions in place of libc's that allocate when they learn what leaves its addresses.
#[test]
fn calls_for_memory_replaced_by_functions_that_allocate() {
    for threads in ["one", "three"] {
        start("space_hooks_allocate.c").arg(threads).finish().success();
    }
}

#[test]
fn mappings_of_others_where_the_heap_grows() {
    let outcome = start("space_foreign.c").without_stats().finish();
    let address = outcome.stdout.trim().to_owned();
    let line = format!("quarry: free({address}): pointer was not allocated by quarry");
    outcome.aborted_with(&line);
}

/// A zone that grows needs no mapping, not even for a stack.
#[test]
fn as_many_mappings_as_the_kernel_allows() {
    for free in ["2", "3", "4"] {
        start("space_full.c").arg(free).without_stats().finish().success();
    }
}

#[test]
fn many_buffers_that_grow() {
    start("space_mappings.c").finish().success();
}

#[test]
fn more_addresses_than_memory() {
    start("space_sparse.c").finish().success();
}

#[test]
fn locked_memory_goes_back_or_is_used_again() {
    where_allowed(start("space_locked.c"));
}
