//! Errors of the program: one line that describes the error, then SIGABRT.

use crate::support::{Outcome, Run, libraries, library, program};
use std::os::unix::process::ExitStatusExt;

/// Runs one misuse. Returns how it ended, the pointer as the program printed it, and the usable
/// size of its object.
fn misuse(arguments: &str) -> (Outcome, String, usize) {
    let outcome =
        Run::new(program("misuse.c")).args(arguments.split_whitespace()).without_stats().finish();
    let mut lines = outcome.stdout.lines();
    let announced = lines.next().and_then(|line| line.split_once(' '));
    let Some((pointer, usable)) = announced else {
        panic!("the program did not say what it misuses\n{outcome}");
    };
    assert_eq!(lines.next(), None, "the program survived\n{outcome}");
    let usable = usable.parse().expect("a number of bytes");
    let pointer = pointer.to_owned();
    (outcome, pointer, usable)
}

/// Demands the line `quarry: ENTRY(POINTER): WHAT`, where WHAT may name the object's size.
#[track_caller]
fn aborts(arguments: &str, what: impl Fn(usize) -> String) {
    let (outcome, pointer, usable) = misuse(arguments);
    let entry = arguments.split_whitespace().next().expect("an entry");
    outcome.aborted_with(&format!("quarry: {entry}({pointer}): {}", what(usable)));
}

const ENTRIES: [&str; 3] = ["free", "realloc", "malloc_usable_size"];
/// Objects in a small slab, in a slab of several pages, and of the largest class.
const OBJECTS: [usize; 5] = [8, 64, 100, 2000, 32768];
/// Blocks of pages, and mappings.
const BLOCKS: [usize; 4] = [40_000, 500_000, 5_000_000, 100_000_000];

fn foreign(_: usize) -> String {
    "pointer was not allocated by quarry".to_owned()
}

/// The message if no record shows whether the memory was ever allocated.
fn not_in_use(bytes: usize) -> String {
    format!("object of {bytes} bytes is not in use: freed already, or never allocated")
}

fn no_block(_: usize) -> String {
    "no block in use starts there: freed already, or never allocated".to_owned()
}

#[test]
fn object_freed_twice() {
    for size in OBJECTS {
        for kind in ["freed", "freed-beside-another"] {
            aborts(&format!("free {kind} {size}"), not_in_use);
        }
    }
}

#[test]
fn object_of_64_bytes_is_called_so() {
    let (outcome, pointer, _) = misuse("free freed 64");
    outcome.aborted_with(&format!("quarry: free({pointer}): {}", not_in_use(64)));
}

#[test]
fn block_freed_twice() {
    for size in BLOCKS {
        for kind in ["freed", "freed-beside-another"] {
            aborts(&format!("free {kind} {size}"), no_block);
        }
    }
}

#[test]
fn foreign_pointer() {
    for entry in ENTRIES {
        for kind in ["stack", "static", "mmap", "libc"] {
            aborts(&format!("{entry} {kind}"), foreign);
        }
    }
}

/// Reports addresses far from all memory; arithmetic with them must not wrap around.
#[test]
fn wild_address() {
    for entry in ENTRIES {
        for address in
            ["0x10", "0x1000", "0x7fffffffffffff00", "0xffff800000000000", "0xfffffffffffffff0"]
        {
            aborts(&format!("{entry} address {address}"), foreign);
        }
    }
}

/// An address far after an object, where no object ever was. It may be in the reserved window,
/// where a frame without an owner looks like a freed one.
#[test]
fn address_behind_the_heap() {
    for entry in ENTRIES {
        let (outcome, pointer, _) = misuse(&format!("{entry} inside 64 0x400000000"));
        let texts = [foreign(0), no_block(0)];
        let line = |text: &String| format!("quarry: {entry}({pointer}): {text}\n");
        let said = texts.iter().map(line).any(|line| line == outcome.stderr);
        assert!(said, "none of {texts:?}\n{outcome}");
        outcome.aborted_with(outcome.stderr.trim_end());
    }
}

#[test]
fn pointer_into_an_object() {
    for entry in ENTRIES {
        for size in OBJECTS {
            for offset in [1, size / 2 + 1, size - 1] {
                aborts(&format!("{entry} inside {size} {offset}"), |n| {
                    format!("pointer into the middle of an object of {n} bytes")
                });
            }
        }
        aborts(&format!("{entry} inside 64 16"), |_| {
            "pointer into the middle of an object of 64 bytes".to_owned()
        });
    }
}

#[test]
fn pointer_into_a_block() {
    for entry in ENTRIES {
        for size in BLOCKS {
            for offset in [1, 16, 4096, 8208, size - 1] {
                aborts(&format!("{entry} inside {size} {offset}"), |_| {
                    "pointer into the middle of a block".to_owned()
                });
            }
        }
    }
}

/// How a program of `misuse_kinds.c` ends: unnoticed, by a report, by a report when it exits, by a
/// fault, or unnoticed after it has read zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Survived,
    Reported,
    Late,
    Faulted,
    ReadZeros,
}

use End::{Faulted, Late, ReadZeros, Reported, Survived};

impl End {
    fn of(kind: &str, run: Run) -> Self {
        let outcome = run.arg(kind).without_stats().finish();
        let survived = outcome.stdout == "survived\n";
        match outcome.status.signal() {
            None if survived && outcome.status.success() => Survived,
            None if outcome.stderr.contains(": stopped") => ReadZeros,
            Some(libc::SIGABRT) if survived => Late,
            Some(libc::SIGABRT) => Reported,
            Some(libc::SIGSEGV | libc::SIGBUS) if !survived => Faulted,
            _ => panic!("{kind} ends in a way of its own\n{outcome}"),
        }
    }
}

/// The kinds of misuse in the tests of hardened_malloc, then some more, and how each ends under
/// `sheaf`, under `slub`, and with `QUARRY_HARDEN=1`. `docs/safety.md` has this table, and a column
/// for glibc.
const KINDS: &[(&str, End, End, End)] = &[
    ("delete_type_size_mismatch", Survived, Survived, Reported),
    ("double_free_large", Reported, Reported, Reported),
    ("double_free_large_delayed", Reported, Reported, Reported),
    ("double_free_small", Reported, Reported, Reported),
    ("double_free_small_delayed", Reported, Survived, Reported),
    ("invalid_free_protected", Reported, Reported, Reported),
    ("invalid_free_small_region", Reported, Reported, Reported),
    ("invalid_free_small_region_far", Reported, Reported, Reported),
    ("invalid_free_unprotected", Reported, Reported, Reported),
    ("invalid_malloc_usable_size_small", Reported, Reported, Reported),
    ("invalid_malloc_usable_size_small_quarantine", Reported, Survived, Reported),
    ("overflow_large_1_byte", Survived, Survived, Reported),
    ("overflow_large_8_byte", Survived, Survived, Reported),
    ("overflow_small_1_byte", Survived, Survived, Reported),
    ("overflow_small_8_byte", Survived, Survived, Reported),
    ("read_after_free_large", Faulted, Faulted, Reported),
    ("read_after_free_small", Survived, Survived, ReadZeros),
    ("read_zero_size", Survived, Survived, Reported),
    ("string_overflow", Survived, Survived, ReadZeros),
    ("unaligned_free_large", Reported, Reported, Reported),
    ("unaligned_free_small", Reported, Reported, Reported),
    ("unaligned_malloc_usable_size_small", Reported, Reported, Reported),
    ("uninitialized_free", Reported, Reported, Reported),
    ("uninitialized_malloc_usable_size", Reported, Reported, Reported),
    ("uninitialized_realloc", Reported, Reported, Reported),
    ("write_after_free_large", Faulted, Faulted, Reported),
    ("write_after_free_large_reuse", Faulted, Faulted, Reported),
    ("write_after_free_small", Survived, Survived, Late),
    ("write_after_free_small_reuse", Survived, Survived, Late),
    ("write_zero_size", Survived, Survived, Reported),
    ("double_free_after_seven", Survived, Survived, Reported),
    ("overflow_into_bits", Reported, Survived, Survived),
    ("free_sized_too_large", Survived, Survived, Reported),
    ("aligned_delete_mismatch", Survived, Survived, Reported),
    ("free_stack", Reported, Reported, Reported),
];
/// Number of kinds, at the front of the list, from the tests of hardened_malloc.
const OF_HARDENED_MALLOC: usize = 30;

fn stopped(ends: impl Iterator<Item = End>) -> usize {
    ends.take(OF_HARDENED_MALLOC).filter(|end| *end != Survived).count()
}

#[test]
fn kinds_of_misuse_end_as_documented() {
    let kinds = || program("misuse_kinds.c");
    let names = Run::new(kinds()).without_stats().finish().stdout;
    assert!(names.lines().eq(KINDS.iter().map(|(name, ..)| *name)), "{names}");
    let of = |run: fn() -> Run| KINDS.iter().map(move |(name, ..)| End::of(name, run()));
    let sheaf: Vec<End> = of(|| Run::new(program("misuse_kinds.c"))).collect();
    let hardened = || Run::new(program("misuse_kinds.c")).env("QUARRY_HARDEN", "1");
    let harden: Vec<End> = of(hardened).collect();
    let glibc: Vec<End> = of(|| Run::bare(program("misuse_kinds.c"))).collect();
    for ((name, ..), (sheaf, glibc)) in KINDS.iter().zip(sheaf.iter().zip(&glibc)) {
        println!("{name}: {sheaf:?}, glibc {glibc:?}");
    }
    println!("{} of {OF_HARDENED_MALLOC} stopped by glibc", stopped(glibc.into_iter()));
    assert_eq!(sheaf, KINDS.iter().map(|(_, sheaf, ..)| *sheaf).collect::<Vec<_>>());
    assert_eq!(harden, KINDS.iter().map(|(.., harden)| *harden).collect::<Vec<_>>());
    assert!(stopped(sheaf.into_iter()) >= 19);
    assert_eq!(stopped(harden.into_iter()), OF_HARDENED_MALLOC);
}

/// A wrong size is ignored, as in all other allocators, because POV-Ray deletes objects as their
/// base class. Modes that look for errors report it.
#[test]
fn a_wrong_size_is_counted_and_reported_to_those_who_look_for_errors() {
    for kind in ["delete_type_size_mismatch", "free_sized_too_large", "aligned_delete_mismatch"] {
        let run = || Run::new(program("misuse_kinds.c")).arg(kind);
        let outcome = run().env("QUARRY_GUARD", "all").finish().success();
        assert_eq!(outcome.stderr, "", "{outcome}");
        let stats = outcome.stats();
        assert_eq!(stats.wrong_sizes(), 1, "{kind}\n{}", stats.text());
        for (mode, value) in [("QUARRY_DEBUG", "F"), ("QUARRY_HARDEN", "1")] {
            let outcome = run().without_stats().env(mode, value).finish();
            let is_told = outcome.stderr.contains(" bytes is the wrong size for an allocation of ");
            assert!(is_told && outcome.status.signal() == Some(libc::SIGABRT), "{outcome}");
        }
    }
}

/// Needs the library with policy `slub`, which `make policies` puts beside the default library.
#[test]
fn kinds_of_misuse_end_as_documented_under_slub() {
    let slub = library().map(|library| library.with_file_name("libquarry-slub-4.9.so"));
    let Some(slub) = slub.filter(|slub| slub.exists()) else { return };
    for (name, _, expected, _) in KINDS {
        let run = Run::new(program("misuse_kinds.c")).env("LD_PRELOAD", &slub);
        assert_eq!(End::of(name, run), *expected, "{name}");
    }
}

/// Every policy reports at least the errors that `slub` reports, each in one line. How the overflow
/// of a string ends depends on which of two objects is at the higher address.
#[test]
fn kinds_of_misuse_end_no_worse_under_any_policy() {
    let by_chance = |name: &str| name == "string_overflow";
    for library in libraries() {
        for (name, _, under_slub, _) in KINDS.iter().filter(|(name, ..)| !by_chance(name)) {
            let run = Run::new(program("misuse_kinds.c")).env("LD_PRELOAD", &library);
            let end = End::of(name, run);
            let is_no_worse = end == *under_slub || [Reported, ReadZeros].contains(&end);
            assert!(is_no_worse, "{name} under {}: {end:?}", library.display());
        }
    }
}

/// Whatever memory the program overwrites by error, no object gets two owners, and if the process
/// is stopped, a report says why.
#[test]
fn stray_writes_give_no_object_two_owners() {
    let outcome = Run::new(program("misuse_fuzz.c")).arg("400").without_stats().finish().success();
    let is_report = |line: &str| {
        line.starts_with("quarry: 0x") && line.contains(": overwritten")
            || line.starts_with("quarry: free(0x") && line.contains(" is not in use: ")
    };
    assert!(outcome.stderr.lines().all(is_report), "{outcome}");
    assert!(outcome.stderr.lines().count() > 4, "hardly anything was found\n{outcome}");
}

/// Not a misuse: while a freed block is being made inaccessible, the system refuses.
#[test]
fn a_block_that_could_be_hidden_in_part_only_is_handed_out_whole() {
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    if limit.trim().parse().unwrap_or(u32::MAX) > 66_000 {
        println!("skipped: the system allows more mappings than the program makes");
        return;
    }
    Run::new(program("misuse_withheld.c")).without_stats().finish().success();
}
