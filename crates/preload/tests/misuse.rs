//! Errors of the program: one line that says what was wrong, then SIGABRT.

use crate::support::{Outcome, Run, program};

/// Runs one misuse and returns how it ended, the pointer as the program printed it, and the usable
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
/// One in a small slab, one in a slab of several pages, the largest class.
const OBJECTS: [usize; 5] = [8, 64, 100, 2000, 32768];
/// Page orders, and requests that get a mapping.
const BLOCKS: [usize; 4] = [40_000, 500_000, 5_000_000, 100_000_000];

fn foreign(_: usize) -> String {
    "pointer was not allocated by quarry".to_owned()
}

/// Nothing that is recorded says whether it was ever handed out.
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

/// Nowhere near anything: the arithmetic on them must not wrap around.
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

/// Far behind an object, where nothing was ever handed out: it may lie in what is reserved, where a
/// frame without an owner looks like one that was freed.
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
