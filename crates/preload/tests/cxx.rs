//! C++: operators new and delete, failures, exceptions.

use crate::support::{Run, plugin, program};

#[test]
fn every_operator() {
    let outcome = Run::new(program("cxx_operators.cpp")).finish().success();
    assert_eq!(outcome.stats().wrong_sizes(), 0, "{outcome}");
}

#[test]
fn failure_and_exceptions() {
    Run::new(program("cxx_failure.cpp")).finish().success();
}

/// A program in C opens a plugin in C++: RTLD_NEXT does not find the C++ library then.
#[test]
fn plugin_of_a_c_program() {
    Run::new(program("cxx_opened_by_c.c")).arg(plugin("cxx_plugin.cpp")).finish().success();
}
