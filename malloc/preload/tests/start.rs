//! The library's pages that a start touches: programs print their own `/proc/self/smaps`.

use crate::support::{DEFAULT_SLAB, Run, library, slab_policy};
use std::path::Path;

/// KiB that a start writes in the parts mapped from the file: three pages of addresses that the
/// loader relocates, and one of variables.
const WRITTEN_KIB: u64 = 4 * 4;

/// One mapping of the library: its access rights, and how many KiB are resident and written.
struct Part {
    access: String,
    resident: u64,
    anonymous: u64,
}

/// The `/proc/self/smaps` of a program that prints its own.
fn maps(program: &[&str]) -> String {
    let library = library().expect("the library is under test");
    let run = Run::bare(program[0]).args(&program[1..]).arg("/proc/self/smaps");
    run.env("LD_PRELOAD", library).finish().success().stdout
}

/// Starts five processes; returns the library's mappings in the one with the least of them in
/// memory. A process that a busy machine lets live for 25 ms publishes statistics, on more pages.
fn parts(program: &[&str]) -> Vec<Part> {
    let all = (0..5).map(|_| parts_in(&maps(program)));
    let resident = |parts: &Vec<Part>| parts.iter().map(|part| part.resident).sum::<u64>();
    all.min_by_key(resident).expect("five processes")
}

fn parts_in(maps: &str) -> Vec<Part> {
    let name = library().expect("under test").to_str().expect("a name in UTF-8");
    let mut parts = Vec::new();
    let mut is_ours = false;
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let kib = || words[1].parse().unwrap_or_else(|_| panic!("`{line}` has no KiB"));
        if !words[0].ends_with(':') {
            is_ours = line.ends_with(name);
            let access = words[1].to_owned();
            parts.extend(is_ours.then_some(Part { access, resident: 0, anonymous: 0 }));
        } else if is_ours && let Some(part) = parts.last_mut() {
            match words[0] {
                "Rss:" => part.resident = kib(),
                "Anonymous:" => part.anonymous = kib(),
                _ => {}
            }
        }
    }
    assert!(parts.len() >= 5, "{} parts of the library in:\n{maps}", parts.len());
    parts
}

/// `scripts/start-order.sh` writes the list of functions that a start calls into `text.ld`. If a
/// change makes a start call other functions, run the script again.
#[test]
fn a_start_executes_functions_of_the_first_segment_only() {
    if slab_policy(library().expect("the library is under test")) != DEFAULT_SLAB {
        println!("skipped: the list is that of {}", DEFAULT_SLAB);
        return;
    }
    for program in [&["cat"][..], &["sed", ""], &["grep", "-v", "no such line"]] {
        let parts = parts(program);
        let mut code = parts.iter().filter(|part| part.access == "r-xp");
        let (first, rest) = (code.next().expect("code"), code.next().expect("the rest of it"));
        assert!(first.resident > 0, "{program:?} executes nothing");
        assert_eq!(rest.resident, 0, "{program:?}: KiB of functions that no start needs");
        assert!(code.next().is_none(), "there are two segments of code");
    }
}

#[test]
fn a_start_writes_few_pages_of_the_file() {
    for program in [&["cat"][..], &["sed", ""]] {
        let written: u64 = parts(program).iter().map(|part| part.anonymous).sum();
        assert!(written > 0, "the loader writes addresses");
        assert!(written <= WRITTEN_KIB, "{program:?} writes {written} KiB");
    }
}

/// In a huge page one touched page takes 2 MiB if `transparent_hugepage/enabled` is `always`.
#[test]
fn what_a_start_maps_may_not_become_huge_pages() {
    if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        println!("skipped: the kernel has no huge pages");
        return;
    }
    for program in [&["cat"][..], &["sed", ""]] {
        let maps = maps(program);
        let (mut kib, mut is_anonymous, mut found) = (0, false, 0);
        for line in maps.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[0] {
                "Size:" => kib = words[1].parse().expect("a size in KiB"),
                "VmFlags:" if is_anonymous && kib >= 2048 => {
                    found += 1;
                    assert!(words.contains(&"nh"), "{program:?}: {kib} KiB may be huge in\n{maps}");
                }
                _ if !words[0].ends_with(':') => is_anonymous = words.len() == 5,
                _ => {}
            }
        }
        assert!(found >= 2, "{program:?} has the slots and the first memory of the heap");
    }
}
