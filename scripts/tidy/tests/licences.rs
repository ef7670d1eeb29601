//! Every package that Quarry is built from can be used under an accepted licence.

use quarry_tidy::licence::{ACCEPTED, is_accepted};
use quarry_tidy::workspace::{cargo_metadata, metadata_of, packages, root};
use quarry_tidy::{Breach, expect_none};

/// `cbindgen` is a tool of tests, which no distributed file contains. `inferno` draws flame graphs
/// in the command; the library does not contain it. `deny.toml` has the same exceptions.
const EXCEPTIONS: [(&str, &str); 2] = [("cbindgen", "MPL-2.0"), ("inferno", "CDDL-1.0")];

#[test]
fn every_package_has_an_accepted_licence() {
    let [product, lab] = cargo_metadata();
    let metadata = [product, lab, metadata_of("scripts/model")];
    let packages = packages(&metadata);
    assert!(packages.len() > 6, "cargo metadata lists the dependencies");
    let mut breaches = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let licence = package["license"].as_str().unwrap_or_default();
        if !is_accepted(licence) && !EXCEPTIONS.contains(&(name, licence)) {
            let message = format!("licence `{licence}`; accepted are {ACCEPTED:?}");
            breaches.push(Breach::new(name, 0, message));
        }
    }
    expect_none("licences", &breaches);
}

#[test]
fn cargo_deny_accepts_the_same_licences() {
    let deny = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml exists");
    let list = deny
        .split_once("\nallow = [")
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(list, _)| list)
        .expect("deny.toml has a list `allow`");
    let mut names: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    names.sort_unstable();
    assert_eq!(names, ACCEPTED);
}
