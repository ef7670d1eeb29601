//! One library for each slab policy: what make builds, and what the command asks for.

use crate::support::Workshop;
use predicates::str::contains;
use quarry_core::slab::{SLAB_POLICIES, slab_names, slab_policy};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn make_builds_a_library_for_every_policy_but_the_default() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let make = Command::new("make").args(["-s", "slabs"]).current_dir(root).output();
    let names = String::from_utf8(make.expect("make runs").stdout).expect("names are text");
    let policies = SLAB_POLICIES.iter().skip(1).map(|policy| policy.name);
    assert!(names.lines().eq(policies), "make builds libraries for:\n{names}");
}

#[test]
fn every_name_of_a_policy_asks_for_its_library() {
    let shop = Workshop::new();
    for policy in SLAB_POLICIES.iter().skip(1) {
        let file = shop.path(&format!("libquarry-{}.so", policy.name));
        fs::copy(shop.path("libquarry.so"), file).expect("a copy");
    }
    for name in slab_names() {
        let file = match slab_policy(name).expect("it is a name").name {
            default if default == SLAB_POLICIES[0].name => "/libquarry.so\n".to_owned(),
            other => format!("/libquarry-{other}.so\n"),
        };
        let mut command = shop.run();
        command.args(["--slab", name, "--", "env"]).assert().success().stdout(contains(file));
    }
}
