//! One library for each slab policy: what make builds, and what the command asks for.

use crate::support::Workshop;
use predicates::str::contains;
use quarry_cli::policies;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn make_builds_a_library_for_every_policy_but_the_default() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let make = Command::new("make").args(["-s", "slabs"]).current_dir(root).output();
    let names = String::from_utf8(make.expect("make runs").stdout).expect("names are text");
    let others = policies::names().filter(|name| policies::named(name) == Some(name));
    assert!(names.lines().eq(others.skip(1)), "make builds libraries for:\n{names}");
}

#[test]
fn every_name_of_a_policy_asks_for_its_library() {
    let shop = Workshop::new();
    for policy in policies::names().skip(1) {
        let file = shop.path(&format!("libquarry-{policy}.so"));
        fs::copy(shop.path("libquarry.so"), file).expect("a copy");
    }
    for name in policies::names() {
        let file = match policies::named(name).expect("it is a name") {
            policies::DEFAULT => "/libquarry.so\n".to_owned(),
            other => format!("/libquarry-{other}.so\n"),
        };
        let mut command = shop.run();
        command.args(["--slab", name, "--", "env"]).assert().success().stdout(contains(file));
    }
}

/// The command alone, in a folder that has nothing else of Quarry.
fn alone(shop: &Workshop) -> PathBuf {
    let folder = shop.path("alone");
    fs::create_dir(&folder).unwrap();
    let command = folder.join("quarry");
    fs::copy(env!("CARGO_BIN_EXE_quarry"), &command).unwrap();
    command
}

#[test]
fn a_command_without_the_lab_says_how_to_build_it() {
    let shop = Workshop::new();
    let command = alone(&shop);
    for verb in ["lab", "record", "simulate"] {
        let output = Command::new(&command).args([verb, "--help"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{verb}: {said}");
        let expected = format!("quarry: `quarry {verb}` needs quarry-lab: quarry-lab is not in /");
        assert!(said.starts_with(&expected) && said.contains("make lab"), "{verb}: {said}");
    }
}

/// As `make build` leaves it: the library is a section of the command.
#[test]
fn a_command_that_carries_the_library_preloads_it() {
    let shop = Workshop::new();
    let command = alone(&shop);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/embed.sh");
    for _ in 0..2 {
        let embed = Command::new(&script).arg(&command).arg(shop.path("libquarry.so")).status();
        assert!(embed.unwrap().success(), "also where it carries one already");
    }
    let cache = shop.path("cache");
    let output = Command::new(&command)
        .args(["run", "--", "cat", "/proc/self/maps"])
        .env("XDG_CACHE_HOME", &cache)
        .env_remove("QUARRY_LIBRARY")
        .env_remove("LD_PRELOAD")
        .output()
        .unwrap();
    let maps = String::from_utf8_lossy(&output.stdout);
    let library = cache.join("quarry").join(env!("CARGO_PKG_VERSION")).join("libquarry.so");
    assert!(maps.contains(library.to_str().unwrap()), "{output:?}");
    assert_eq!(fs::read(library).unwrap(), fs::read(shop.path("libquarry.so")).unwrap());
}
