//! RTLD_DEEPBIND: objects that look up `malloc` and `free` in the C library first.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Run, fixed_program, plugin, program, scratch};

fn deepbind(owner: &str) -> Run {
    Run::new(program("deepbind.c")).arg(plugin("deepbind_plugin.c")).arg(owner)
}

#[test]
fn what_a_plugin_frees_is_ours() {
    deepbind("libquarry").finish().success();
}

/// A program at a fixed address, where `malloc` has the address of the program's PLT entry.
#[test]
fn programs_at_fixed_addresses() {
    let run = Run::new(fixed_program("deepbind_fixed.c")).arg(plugin("deepbind_plugin.c"));
    run.arg("libquarry").finish().success();
}

/// `dlopen` leaves the flag set if the C library serves, and if the user requests it.
#[test]
fn kept_where_nothing_is_split_or_on_request() {
    for variable in ["QUARRY_DISABLE", "QUARRY_DEEPBIND"] {
        deepbind("libc.so").env(variable, "1").without_stats().finish().success();
    }
    let own = Run::new(program("deepbind_own.c")).arg(plugin("deepbind_plugin.c"));
    own.arg("libc.so").without_stats().finish().success();
    deepbind("libquarry").env("QUARRY_DEEPBIND", "0").finish().success();
}

/// An object that `dlmopen` loads with a C library of its own uses that library's allocator.
#[test]
fn namespaces_of_their_own_are_left_alone() {
    deepbind("separate").without_stats().finish().success();
}

/// With our `dlopen`, the loader still finds the caller by the return address, for RUNPATH.
#[test]
fn the_loader_still_sees_who_calls() {
    let folder = scratch();
    let beside = folder.join("beside");
    fs::create_dir(&beside).expect("scratch is writable");
    fs::copy(plugin("deepbind_plugin.c"), beside.join("libbeside.so")).expect("a copy");
    let caller = folder.join("libcaller.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/deepbind_caller.c");
    let answer = Command::new("cc")
        .args(["-O1", "-fPIC", "-shared", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/beside", "-o"])
        .args([caller.as_os_str(), source.as_os_str(), "-ldl".as_ref()])
        .output()
        .expect("cc runs");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let run = Run::new(program("deepbind_search.c")).arg(&caller);
    run.args(["libbeside.so", "beside"]).finish().success();
}
