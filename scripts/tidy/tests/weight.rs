//! The files of `make all` are small, and debuggers still find their symbols and lines.
//!
//! `QUARRY_LIBRARY` names the library, as in `scripts/test.sh`; the other files lie where
//! `make all` puts them, as far as they were built. Without `QUARRY_LIBRARY` there is nothing to
//! weigh: a plain `cargo build` strips nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Maximum number of bytes of `libquarry.so`.
const LIBRARY_LIMIT: u64 = 524 << 10;

/// Maximum number of bytes of `libquarry-full.so`, and of the library of another slab policy, which
/// contains all that the former does.
const FULL_LIMIT: u64 = 877 << 10;
const POLICY_LIMIT: u64 = 894 << 10;

/// Maximum number of bytes of the command, with the libraries that it carries.
const COMMAND_LIMIT: u64 = 7_360 << 10;

/// The slab policies that have a library of their own beside the default one.
fn policies() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let make = Command::new("make").args(["-s", "slabs"]).current_dir(root).output();
    let names = String::from_utf8(make.expect("make runs").stdout).expect("names are text");
    assert!(!names.is_empty(), "make names no slab policy");
    names.lines().map(str::to_owned).collect()
}

/// The files of `make build` with their limits.
fn built() -> Vec<(PathBuf, u64)> {
    let Some(library) = std::env::var_os("QUARRY_LIBRARY").map(PathBuf::from) else {
        println!("skipped: no QUARRY_LIBRARY, so no file of `make build` to weigh");
        return Vec::new();
    };
    let release = library.parent().expect("the library lies in a folder").to_owned();
    let policies = policies().into_iter().map(|slab| release.join(format!("libquarry-{slab}.so")));
    let mut others: Vec<_> = policies.map(|file| (file, POLICY_LIMIT)).collect();
    others.push((release.join("libquarry-full.so"), FULL_LIMIT));
    others.push((release.with_file_name("tools").join("quarry"), COMMAND_LIMIT));
    let others = others.into_iter().filter(|(file, _)| file.exists());
    [(library.clone(), LIBRARY_LIMIT)].into_iter().chain(others).collect()
}

/// Standard output of a tool that has to succeed.
fn output(tool: &str, arguments: &[&str], file: &Path) -> String {
    let output = Command::new(tool)
        .args(arguments)
        .arg(file)
        .output()
        .unwrap_or_else(|error| panic!("{tool} does not run: {error}"));
    assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn built_files_stay_within_their_limits() {
    for (file, limit) in built() {
        let size = file.metadata().expect("the file is there").len();
        println!("{}: {size} bytes", file.display());
        assert!(size <= limit, "{} has {size} bytes, the limit is {limit}", file.display());
    }
}

#[test]
fn stripped_files_lead_to_their_symbols_and_lines() {
    for (file, _) in built() {
        assert_eq!(output("nm", &[], &file), "", "{} is not stripped", file.display());
        let mut debug = file.clone().into_os_string();
        debug.push(".debug");
        let symbols = output("nm", &["--defined-only"], Path::new(&debug));
        let name = if file.ends_with("quarry") { "find_beside" } else { "alloc_on_process" };
        let inner = symbols.lines().find(|line| line.contains(" t ") && line.contains(name));
        let inner = inner.unwrap_or_else(|| panic!("{debug:?} names no inner function"));
        let [address, _, _] = inner.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("`{inner}` is no line of nm")
        };
        let command = format!("info line *0x{address}");
        let answer = output("gdb", &["-batch", "-nx", "-ex", &command], &file);
        let is_found = answer.contains(name) && answer.contains("Line ");
        assert!(is_found, "gdb finds no line of `{inner}` from {}: {answer}", file.display());
    }
}
