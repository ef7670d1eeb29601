//! A prediction prints the same bytes in every process, wherever the system and the allocator place
//! memory.
#![cfg(quarry_sim)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Documents with the options of a short run that still has every kind of replay of the document.
const DOCUMENTS: [&[&str]; 2] =
    [&["002", "--quick", "--only", "32"], &["004", "--quick", "--only", "4"]];

/// A way in which a process lays out its memory.
struct Layout {
    /// Options of `setarch`.
    flags: &'static [&'static str],
    variable: (&'static str, &'static str),
    /// Bytes of the environment.
    padding: usize,
}

/// Three layouts: the system's own; one without randomised addresses, and with an environment of
/// 60,000 bytes; and one with Linux's legacy order of mappings, in which each allocation above 600
/// bytes has a mapping of its own and begins in the middle of a cache line.
const LAYOUTS: [Layout; 3] = [
    Layout { flags: &[], variable: ("QUARRY_TEST", "1"), padding: 1 },
    Layout { flags: &["--addr-no-randomize"], variable: ("QUARRY_TEST", "1"), padding: 60_000 },
    Layout {
        flags: &["--addr-compat-layout"],
        variable: ("MALLOC_MMAP_THRESHOLD_", "600"),
        padding: 77,
    },
];

/// Returns whether the system lets a process choose its layout. If not, the layouts differ only in
/// the allocator and the environment.
fn has_setarch() -> bool {
    let tried = Command::new("setarch").args(["--addr-no-randomize", "true"]).output();
    tried.is_ok_and(|output| output.status.success())
}

/// Starts a prediction that writes its output to `file`.
fn start(words: &[&str], layout: usize, file: &Path) -> Child {
    let Layout { flags, variable: (name, value), padding } = LAYOUTS[layout];
    let program = env!("CARGO_BIN_EXE_quarry-predict");
    let mut command = if flags.is_empty() || !has_setarch() {
        Command::new(program)
    } else {
        let mut command = Command::new("setarch");
        command.args(flags).arg(program);
        command
    };
    command
        .args(words)
        .env(name, value)
        .env("QUARRY_TEST_PADDING", "x".repeat(padding))
        .stdout(fs::File::create(file).expect("a file of the test"))
        .stderr(Stdio::null());
    command.spawn().expect("the program starts")
}

#[test]
fn processes_print_the_same_bytes() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    for words in DOCUMENTS {
        let file = |layout: usize| folder.join(format!("layout-{}-{layout}.json", words[0]));
        let started: Vec<Child> =
            (0..LAYOUTS.len()).map(|layout| start(words, layout, &file(layout))).collect();
        for mut child in started {
            assert!(child.wait().expect("it ends").success(), "{words:?}");
        }
        let printed = |layout| fs::read_to_string(file(layout)).expect("text");
        let first = printed(0);
        assert!(first.contains("\"cells\":[{") && !first.contains("seconds"), "{first}");
        for layout in 1..LAYOUTS.len() {
            assert!(first == printed(layout), "{words:?}: {first}\n{}", printed(layout));
        }
    }
}
