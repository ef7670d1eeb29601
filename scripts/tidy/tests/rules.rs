//! The house rules that a text search can check; `CONTRIBUTING.md` says why each exists.

use quarry_tidy::rust::{RustFile, functions, line_of, words};
use quarry_tidy::workspace::{file_names, text_files};
use quarry_tidy::{Breach, expect_none};

const FILE_LINES_MAX: usize = 800;
const FILE_LINES_WARN: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// Where `unsafe` may stand in shipped code: the door to OS and CPU, access to frames and objects,
/// entry points, and what the lab measures. Everything else is arithmetic on frame numbers.
const UNSAFE_ALLOWED: &[&str] = &[
    "malloc/sys/src/",
    "malloc/cache/src/stack/",
    "malloc/mm/src/frame/",
    "malloc/mm/src/slab/",
    "malloc/mm/src/heap/",
    "malloc/cache/src/page_cache/",
    "malloc/mm/src/stack/",
    "malloc/watch/src/",
    "bench/tracer/src/",
    "lab/eras/src/slab/",
    // Coroutines: their stacks, and the machine that all of them reach.
    "lab/sim/src/machine.rs",
    "lab/sim/src/simulate/play.rs",
    "lab/sim/src/simulation.rs",
    "lab/sim/src/task.rs",
    "malloc/quarry/src/",
    "malloc/preload/src/",
    "malloc/sqlite/src/",
    "malloc/sqlite-object/src/",
    "lab/sqlite-load/src/",
    "lab/experiments/src/containment/machine.rs",
    "lab/experiments/src/patterns/",
    "bench/profile/src/bell.rs",
    "lab/replay/src/",
    "lab/jobs/",
    "lab/redb/",
    "lab/rusqlite/",
    "bench/compare/witness/",
    "scripts/heaps/",
    "scripts/fuzz/targets/",
];

/// Modules that forbid `unsafe`. A file inside them that cannot do without declares it to
/// the compiler, by `#[expect(unsafe_code, reason = "..")]`.
const UNSAFE_DENIED: &[&str] = &[
    "malloc/mm/src/zone/",
    "malloc/mm/src/pcp/",
    "malloc/cache/src/lru/",
    "lab/eras/src/lru/",
    "lab/eras/src/pages/",
];

/// Files that may name what the seam replaces, and the reason for each.
const SEAM_ALLOWED: &[(&str, &str)] = &[
    ("malloc/sys/src/primitive/", "it is the seam"),
    ("malloc/sys/src/os/fake.rs", "counts calls of a test; no interleaving depends on it"),
];

/// Services that a model checker or a simulated machine replaces, and the module that offers each.
const BEHIND_SEAM: &[(&str, &str)] = &[
    ("sync::atomic", "atomics come from quarry_sys::primitive, so that the model sees them"),
    ("spin_loop", "a task that waits calls quarry_sys::primitive::relax"),
    ("SYS_futex", "futexes are in quarry_sys::primitive::futex"),
    ("clock_gettime", "the clock is quarry_sys::clock"),
    ("gettimeofday", "the clock is quarry_sys::clock"),
    ("nanosleep", "sleeping is in quarry_sys::primitive::timer"),
    ("usleep", "sleeping is in quarry_sys::primitive::timer"),
    ("timedwait", "sleeping is in quarry_sys::primitive::futex"),
    ("timedlock", "sleeping is in quarry_sys::primitive::futex"),
    ("sched_yield", "a task that waits calls quarry_sys::primitive::relax"),
    ("pthread_self", "quarry_sys::primitive::task identifies the running task"),
    ("gettid", "quarry_sys::primitive::task identifies the running task"),
];

/// Crates that a model checker or a simulated machine must be able to watch.
const MODELLED: &[&str] = &[
    "malloc/sys/src/",
    "malloc/mm/src/",
    "malloc/cache/src/",
    "malloc/watch/src/",
    "lab/eras/src/",
    "malloc/quarry/src/",
    "malloc/preload/src/",
];

#[test]
fn files_and_functions_are_short_enough_to_read_in_one_sitting() {
    let mut breaches = Vec::new();
    for file in RustFile::all() {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            let message = format!("{lines} lines; at most {FILE_LINES_MAX}: split it by noun");
            breaches.push(Breach::new(&file.path, 0, message));
        } else if lines > FILE_LINES_WARN {
            println!("note: {} has {lines} lines; {FILE_LINES_WARN} is the aim", file.path);
        }
        for function in functions(&file.code) {
            if function.lines > FUNCTION_LINES_MAX {
                let message = format!(
                    "fn {} has {} lines; at most {FUNCTION_LINES_MAX}",
                    function.name, function.lines
                );
                breaches.push(Breach::new(&file.path, function.line, message));
            }
        }
    }
    expect_none("length", &breaches);
}

#[test]
fn lines_fit_into_100_columns() {
    let mut breaches = Vec::new();
    for file in
        text_files(&[".rs", ".sh", ".toml", ".py", ".c", ".cc", ".h", "Makefile", ".ci/run"])
    {
        for (index, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                let message = format!("{columns} columns; at most {COLUMNS_MAX}");
                breaches.push(Breach::new(&file.path, index + 1, message));
            }
        }
    }
    expect_none("columns", &breaches);
}

#[test]
fn nothing_unfinished_and_nothing_silenced() {
    let banned = [
        ("todo!", "is unfinished: finish it or leave it out"),
        ("unimplemented!", "is unfinished: finish it or leave it out"),
        ("dbg!", "is a leftover of debugging"),
        ("#[allow(", "hides: use #[expect(.., reason = \"..\")]"),
        ("#![allow(", "hides: use #![expect(.., reason = \"..\")]"),
    ];
    let mut breaches = Vec::new();
    for file in RustFile::all() {
        for (text, why) in banned {
            for (offset, _) in file.code.match_indices(text) {
                let line = line_of(&file.code, offset);
                breaches.push(Breach::new(&file.path, line, format!("`{text}` {why}")));
            }
        }
        for (offset, _) in file.code.match_indices("[expect(") {
            let attribute = file.code[offset..].split(']').next().unwrap_or_default();
            if words(attribute, "reason").is_empty() {
                let line = line_of(&file.code, offset);
                breaches.push(Breach::new(&file.path, line, "#[expect] without a reason"));
            }
        }
    }
    expect_none("leftovers", &breaches);
}

#[test]
fn unsafe_stands_only_where_it_must() {
    let mut breaches = Vec::new();
    for file in RustFile::all() {
        if UNSAFE_DENIED.iter().any(|folder| file.path == format!("{folder}mod.rs"))
            && !file.code.contains("#![deny(unsafe_code)]")
        {
            let message = "lacks `#![deny(unsafe_code)]`";
            breaches.push(Breach::new(&file.path, 1, message));
        }
        let is_excepted = UNSAFE_DENIED.iter().any(|folder| file.path.starts_with(folder))
            && file.code.contains("[expect(unsafe_code");
        if is_excepted || UNSAFE_ALLOWED.iter().any(|folder| file.path.starts_with(folder)) {
            continue;
        }
        for offset in words(&file.shipped, "unsafe") {
            let line = line_of(&file.shipped, offset);
            let message = format!("`unsafe` belongs into one of {UNSAFE_ALLOWED:?}");
            breaches.push(Breach::new(&file.path, line, message));
        }
    }
    expect_none("place of unsafe", &breaches);
}

/// Clippy's `undocumented_unsafe_blocks` reads syntax; this one also reads what clippy's build did
/// not compile (other architectures, other `cfg`s).
#[test]
fn every_unsafe_block_says_why_it_is_sound() {
    let mut breaches = Vec::new();
    for file in RustFile::all() {
        let text: Vec<&str> = file.text.lines().collect();
        let code: Vec<&str> = file.code.lines().collect();
        for offset in words(&file.code, "unsafe") {
            let rest = file.code[offset + "unsafe".len()..].trim_start();
            let line = line_of(&file.code, offset);
            if (rest.starts_with('{') || rest.starts_with("impl"))
                && !is_justified(&text, &code, line)
            {
                let message = "`unsafe` without a SAFETY comment in front of its statement";
                breaches.push(Breach::new(&file.path, line, message));
            }
        }
    }
    expect_none("SAFETY comments", &breaches);
}

/// Returns whether a comment with SAFETY stands on `line` (from 1) or above it in the same
/// statement.
fn is_justified(text: &[&str], code: &[&str], line: usize) -> bool {
    let mut index = line - 1;
    loop {
        if text[index].contains("SAFETY") && !code[index].contains("SAFETY") {
            return true;
        }
        let is_comment = code[index].trim().is_empty() && !text[index].trim().is_empty();
        let ends = code[index].trim_end();
        let is_end_of_another =
            index + 1 < line && !is_comment && (ends.ends_with(';') || ends.ends_with('}'));
        if index == 0 || text[index].trim().is_empty() || is_end_of_another {
            return false;
        }
        index -= 1;
    }
}

#[test]
fn the_search_for_safety_comments_stays_in_the_statement() {
    let text = ["// SAFETY: a.", "let a = unsafe {", "};", "let b =", "    unsafe { c };"];
    let code = ["", "let a = unsafe {", "};", "let b =", "    unsafe { c };"];
    assert!(is_justified(&text, &code, 2));
    assert!(!is_justified(&text, &code, 5));
}

#[test]
fn what_tasks_share_comes_through_the_seam() {
    let mut breaches = Vec::new();
    for file in RustFile::all() {
        let modelled = MODELLED.iter().any(|folder| file.path.starts_with(folder));
        if !modelled || SEAM_ALLOWED.iter().any(|(path, _)| file.path.starts_with(path)) {
            continue;
        }
        for (name, message) in BEHIND_SEAM {
            for (offset, _) in file.shipped.match_indices(name) {
                let line = line_of(&file.shipped, offset);
                breaches.push(Breach::new(&file.path, line, *message));
            }
        }
    }
    expect_none("the seam", &breaches);
}

/// Paths and hosts of one machine have no meaning on another.
#[test]
fn no_file_names_a_machine() {
    // Put together here, so that this file does not breach its own rule.
    let folders = ["home", "root", "work", "tmp", "Users"].map(|name| format!("/{name}/"));
    let hosts = [("crates", "io"), ("pypi", "org"), ("npmjs", "org"), ("debian", "org/debian")]
        .map(|(name, top)| format!("{name}.{top}"));
    let mut breaches = Vec::new();
    for file in text_files(&[]).into_iter().filter(|file| !file.path.ends_with("Cargo.lock")) {
        for (index, line) in file.text.lines().enumerate() {
            for needle in folders.iter().chain(&hosts) {
                for (offset, _) in line.match_indices(needle.as_str()) {
                    // After a name it is a folder of ours; only a path from the root is foreign.
                    let inside =
                        line[..offset].ends_with(|c: char| c.is_alphanumeric() || c == '.');
                    if !inside || !needle.starts_with('/') {
                        let message = format!("names `{needle}`, a place of one machine");
                        breaches.push(Breach::new(&file.path, index + 1, message));
                    }
                }
            }
        }
    }
    expect_none("machine names", &breaches);
}

/// Where cargo does not look for tests by itself, `tests/main.rs` names every file beside it.
#[test]
fn every_file_of_tests_is_compiled() {
    let mut breaches = Vec::new();
    for manifest in text_files(&["Cargo.toml"]) {
        if !manifest.text.contains("autotests = false") {
            continue;
        }
        let folder = manifest.path.replace("Cargo.toml", "tests/");
        let main = text_files(&[&format!("{folder}main.rs")]).pop().expect("a main.rs").text;
        for file in file_names().iter().filter_map(|file| file.strip_prefix(&folder)) {
            let Some(module) = file.strip_suffix(".rs").filter(|name| !name.contains('/')) else {
                continue;
            };
            if module != "main" && !main.contains(&format!("mod {module};")) {
                breaches.push(Breach::new(&folder, 0, format!("main.rs lacks mod {module}")));
            }
        }
    }
    expect_none("files of tests", &breaches);
}
