//! The packages that `make build` compiles: a list, so that it cannot grow unseen.

use quarry_tidy::workspace::{cargo_metadata, members, root};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The list: names of packages, one a line.
const LIST: &str = include_str!("../data/build.txt");

/// Packages of `cargo build` with these options, procedural macros and build scripts among them.
fn compiled(options: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--edges=normal,build", "--prefix=none"])
        .args(options)
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
    let mut compiled = compiled(&["-p", "quarry-preload", "-p", "quarry-cli"]);
    compiled.remove("");
    let added: Vec<_> = compiled.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&compiled).collect();
    assert!(
        added.is_empty() && gone.is_empty(),
        "scripts/tidy/data/build.txt lists what `make build` compiles. Not in it: {added:?}; no \
         longer compiled: {gone:?}. Who adds a line says in the commit what it buys, and how many \
         seconds it costs (`cargo build --timings`)."
    );
}

/// No library depends on the bench or the lab, even with all its features; and the command does not
/// depend on the lab.
#[test]
fn the_product_compiles_neither_bench_nor_lab() {
    let metadata = cargo_metadata();
    let of_part = |part: &str| -> Vec<String> {
        let folder = root().join(part);
        let is_in = |package: &&Value| {
            package["manifest_path"]
                .as_str()
                .is_some_and(|path| Path::new(path).starts_with(&folder))
        };
        let names =
            members(&metadata).into_iter().filter(is_in).filter_map(|it| it["name"].as_str());
        names.map(str::to_owned).collect()
    };
    let (bench, lab) = (of_part("bench"), of_part("lab"));
    assert!(bench.len() > 5 && lab.len() > 5, "{bench:?}, {lab:?}");
    let full = ["-p", "quarry-preload", "--features", "full"];
    for (options, others) in [
        (&["-p", "quarry-preload"][..], [&bench[..], &lab].concat()),
        (&full, [&bench[..], &lab].concat()),
        (&["-p", "quarry-sqlite-object"], [&bench[..], &lab].concat()),
        (&["-p", "quarry-cli"], lab),
    ] {
        let compiled = compiled(options);
        let strangers: Vec<_> = others.iter().filter(|name| compiled.contains(*name)).collect();
        assert!(strangers.is_empty(), "cargo build {options:?} compiles {strangers:?}");
    }
}
