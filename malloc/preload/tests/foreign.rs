//! Tests, written anew, from suites of other allocators that are in no Debian package. `make
//! foreign` runs the suites that are in one.

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
