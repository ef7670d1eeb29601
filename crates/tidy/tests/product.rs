//! The packages that `make build` compiles: a list, so that it cannot grow unseen.

use quarry_tidy::workspace::root;
use std::collections::BTreeSet;
use std::process::Command;

/// The list: names of packages, one a line.
const LIST: &str = include_str!("../data/build.txt");

/// Packages of `cargo build -p quarry-preload -p quarry-cli`, procedural
/// macros and build scripts among them.
fn compiled() -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--edges=normal,build", "--prefix=none"])
        .args(["-p", "quarry-preload", "-p", "quarry-cli"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn make_build_compiles_what_the_list_has() {
    let listed: BTreeSet<String> = LIST.lines().map(str::to_owned).collect();
    let mut compiled = compiled();
    compiled.remove("");
    let added: Vec<_> = compiled.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&compiled).collect();
    assert!(
        added.is_empty() && gone.is_empty(),
        "crates/tidy/data/build.txt lists what `make build` compiles. Not in it: {added:?}; no \
         longer compiled: {gone:?}. Who adds a line says in the commit what it buys, and how many \
         seconds it costs (`cargo build --timings`)."
    );
}

/// The lab stays out of the product.
#[test]
fn make_build_compiles_no_lab() {
    let compiled = compiled();
    let lab = ["quarry-lab", "quarry-sim", "quarry-predict", "quarry-replay", "quarry-trace"];
    for package in lab {
        assert!(!compiled.contains(package), "make build compiles {package}");
    }
    assert!(compiled.contains("quarry-compare"), "{compiled:?}");
}
