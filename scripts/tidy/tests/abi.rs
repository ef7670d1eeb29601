//! The shared object exports the ABI and nothing else, and carries no Rust runtime.
//!
//! The object is the one that `QUARRY_LIBRARY` names, else the release build beside these tests.
//! `scripts/test.sh` builds the library first and names it. Where neither exists, a test prints a
//! line and checks nothing.

use quarry_tidy::workspace::root;
use quarry_tidy::{Breach, expect_none};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const ABI: &str = "malloc/preload/abi.txt";
const ABI_FULL: &str = "malloc/preload/abi-full.txt";

/// The library, and `libquarry-full.so` if it lies beside it.
fn libraries() -> Vec<PathBuf> {
    let Some(library) = library() else { return Vec::new() };
    let full = library.with_file_name("libquarry-full.so");
    let others = [full].into_iter().filter(|full| *full != library && full.is_file());
    [library.clone()].into_iter().chain(others).collect()
}

/// The symbols that a file lists.
fn listed(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(file)).expect("the list exists");
    let symbols = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    symbols.map(str::to_owned).collect()
}

fn library() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("QUARRY_LIBRARY") {
        let named = PathBuf::from(named);
        assert!(named.is_file(), "QUARRY_LIBRARY={} is no file", named.display());
        return Some(named);
    }
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?.join("release/libquarry.so");
    if !built.is_file() {
        println!("skipped: no QUARRY_LIBRARY and no {}", built.display());
        return None;
    }
    Some(built)
}

/// Names of all functions in the library; for a stripped one, from the `.debug` file beside it.
fn all_names(library: &Path) -> BTreeSet<String> {
    let own = names(&nm(library, &[]));
    if !own.is_empty() {
        return own;
    }
    let mut debug = library.to_owned().into_os_string();
    debug.push(".debug");
    names(&nm(Path::new(&debug), &[]))
}

/// The output of `nm` with `options`, line by line.
fn nm(library: &Path, options: &[&str]) -> Vec<String> {
    let output =
        Command::new("nm").args(options).arg(library).output().expect("nm (binutils) runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Names of the symbols that `nm` prints, without their versions.
fn names(lines: &[String]) -> BTreeSet<String> {
    let last = |line: &String| line.split_whitespace().next_back().map(str::to_owned);
    let bare = |name: String| name.split('@').next().unwrap_or_default().to_owned();
    lines.iter().filter_map(last).map(bare).collect()
}

#[test]
fn the_libraries_export_the_abi_and_nothing_else() {
    for library in libraries() {
        let is_full = library.file_name().is_some_and(|name| name != "libquarry.so");
        let lists = if is_full { &[ABI, ABI_FULL][..] } else { &[ABI] };
        let listed: BTreeSet<String> = lists.iter().flat_map(|list| listed(list)).collect();
        let exported = names(&nm(&library, &["-D", "--defined-only"]));
        assert!(exported.contains("malloc"), "nm lists the exports: {exported:?}");
        let missing = listed.difference(&exported);
        let mut breaches: Vec<Breach> = missing
            .map(|name| Breach::new(ABI, 0, format!("{name} is listed and not exported")))
            .collect();
        breaches.extend(exported.difference(&listed).map(|name| {
            Breach::new(ABI, 0, format!("{name} is exported and not listed: hide it or list it"))
        }));
        expect_none(&format!("exports of {}", library.display()), &breaches);
    }
}

#[test]
fn the_library_needs_nothing_that_allocates_to_start() {
    // `thread_local!` in a shared object calls __tls_get_addr, which may call malloc.
    let banned =
        ["__tls_get_addr", "_Unwind_Resume", "__cxa_thread_atexit_impl", "pthread_key_create"];
    for library in libraries() {
        // The full library makes a key for the first thread that enters a group.
        let is_lean = library.file_name().is_some_and(|name| name == "libquarry.so");
        let banned = if is_lean { &banned[..] } else { &banned[..3] };
        let breaches: Vec<Breach> = names(&nm(&library, &["-D", "--undefined-only"]))
            .iter()
            .filter(|name| banned.contains(&name.as_str()))
            .map(|name| Breach::new("libquarry.so", 0, format!("needs {name}")))
            .collect();
        expect_none(&format!("imports of {}", library.display()), &breaches);
    }
}

#[test]
fn the_library_contains_no_std() {
    // `std` as the first path segment of a mangled name, in the legacy and in the v0 form.
    let is_std = |name: &&String| {
        name.starts_with("_ZN3std") || name.starts_with("_R") && name.contains("_3std")
    };
    for library in libraries() {
        let all = all_names(&library);
        assert!(all.iter().any(|name| name.contains("quarry_mm")), "nm lists our own functions");
        let breaches: Vec<Breach> = all
            .iter()
            .filter(is_std)
            .map(|name| Breach::new("libquarry.so", 0, format!("contains {name}")))
            .collect();
        expect_none(&format!("std in {}", library.display()), &breaches);
    }
}
