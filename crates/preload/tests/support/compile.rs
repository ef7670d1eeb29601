//! `tests/c/NAME` to an executable, once per test run.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use super::run::own_folder;

/// The executable of `tests/c/SOURCE`; `.c` goes through `cc`, `.cpp` through `c++`.
pub(crate) fn program(source: &'static str) -> PathBuf {
    compiled(source, &["-fPIE", "-pie"])
}

/// The executable of `tests/c/SOURCE` that lies at a fixed address.
pub(crate) fn fixed_program(source: &'static str) -> PathBuf {
    compiled(source, &["-fno-pie", "-no-pie"])
}

/// `tests/c/SOURCE` as a shared object that a program can open.
pub(crate) fn plugin(source: &'static str) -> PathBuf {
    compiled(source, &["-fPIC", "-shared"])
}

/// One cell per source, so that a slow compilation holds up only those who want that program.
type Cells = Mutex<HashMap<&'static str, Arc<OnceLock<PathBuf>>>>;

fn compiled(source: &'static str, form: &[&str]) -> PathBuf {
    static CELLS: OnceLock<Cells> = OnceLock::new();
    let cells = CELLS.get_or_init(Cells::default);
    let cell =
        Arc::clone(cells.lock().expect("no panic under this lock").entry(source).or_default());
    cell.get_or_init(|| compile(source, form)).clone()
}

fn compile(source: &str, form: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let output = own_folder().join(source.replace('.', "-"));
    let (compiler, standard) =
        if source.ends_with(".cpp") { ("c++", "-std=c++17") } else { ("cc", "-std=gnu11") };
    // -fno-builtin: the compiler may drop a malloc that it sees freed, and then nothing is tested.
    let answer = Command::new(compiler)
        .args([standard, "-O1", "-g", "-fno-builtin", "-Wall", "-Wextra", "-pthread"])
        .args(form)
        .arg("-o")
        .arg(&output)
        .arg(folder.join(source))
        .arg("-ldl")
        .output()
        .unwrap_or_else(|error| {
            panic!("{compiler} does not run (Debian: build-essential): {error}")
        });
    assert!(
        answer.status.success() && answer.stderr.is_empty(),
        "{compiler} complains about {source}:\n{}",
        String::from_utf8_lossy(&answer.stderr)
    );
    output
}
