//! How `libquarry.so` is linked. `scripts/tidy` compares its exports and imports with lists.

use std::process::Command;

use crate::support::library;

fn readelf(option: &str) -> String {
    let library = library().expect("the library is under test");
    let answer = Command::new("readelf")
        .args([option, "--wide"])
        .arg(library)
        .output()
        .unwrap_or_else(|error| panic!("readelf does not run (Debian: binutils): {error}"));
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    String::from_utf8_lossy(&answer.stdout).into_owned()
}

/// Not unloaded, because of stale `rseq_cs`; not bound lazily, as that may run in the allocator.
#[test]
fn never_unloaded_and_bound_at_once() {
    let dynamic = readelf("--dynamic");
    for flag in ["NODELETE", "NOW"] {
        assert!(dynamic.contains(flag), "no {flag}:\n{dynamic}");
    }
    assert!(!dynamic.contains("TEXTREL"), "code is relocated:\n{dynamic}");
    let needed: Vec<&str> = dynamic.lines().filter(|line| line.contains("(NEEDED)")).collect();
    for line in &needed {
        let plain =
            ["[libc.so", "[ld-linux", "[libgcc_s.so"].iter().any(|name| line.contains(name));
        assert!(plain, "the library needs more than the C library:\n{dynamic}");
    }
}

/// No page is both written and executed: some systems refuse to map such a one.
#[test]
fn no_segment_is_writable_and_executable() {
    let segments = readelf("--segments");
    assert!(segments.contains(" R E "), "code is executable:\n{segments}");
    assert!(!segments.contains(" RWE "), "code is writable:\n{segments}");
}

/// Needs little static thread-local storage: the loader has little space for that of libraries.
#[test]
fn thread_local_storage_of_at_most_64_bytes() {
    let segments = readelf("--segments");
    let size = segments
        .lines()
        .filter(|line| line.trim_start().starts_with("TLS "))
        .map(|line| line.split_whitespace().nth(5).expect("MemSiz").trim_start_matches("0x"))
        .map(|size| u64::from_str_radix(size, 16).expect("hexadecimal"))
        .sum::<u64>();
    assert!(size <= 64, "{size} bytes:\n{segments}");
}

/// Weak symbols: strong ones would prevent loading on musl and on glibc before 2.35.
#[test]
fn symbols_of_new_glibc_are_weak() {
    let symbols = readelf("--dyn-syms");
    for line in symbols.lines().filter(|line| line.contains("__rseq_")) {
        assert!(line.contains(" WEAK "), "{line}");
    }
}

/// The instance is all zero bytes until it is built, so that it takes no space in the file, and
/// memory only for pages in use.
#[test]
fn the_instance_takes_no_room_in_the_file() {
    let sections = readelf("--sections");
    let line = sections.lines().find(|line| line.contains(" .data "));
    let size = line.and_then(|line| line.split_whitespace().rev().nth(5)).expect("a size");
    let size = u64::from_str_radix(size, 16).expect("hexadecimal");
    assert!(size < 8 << 10, "{size} bytes of data:\n{sections}");
}
