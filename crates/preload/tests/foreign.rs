//! Cases of other allocators' suites that no package brings, written anew; `make foreign` runs
//! those that one does.

use crate::support::{Run, program};

#[test]
fn musl_objects_of_no_bytes() {
    Run::new(program("foreign_musl.c")).finish().success();
}

#[test]
fn musl_break_that_cannot_grow() {
    Run::new(program("foreign_musl.c")).arg("stuck").without_stats().finish().success();
}

#[test]
fn musl_all_that_there_is() {
    Run::new(program("foreign_musl.c")).arg("everything").without_stats().finish().success();
}
