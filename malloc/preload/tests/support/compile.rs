//! Compiles `tests/c/NAME` to an executable, once per test run.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use super::library::full_library;
use super::run::own_folder;

/// The executable of `tests/c/SOURCE`; `.c` is compiled by `cc`, `.cpp` by `c++`.
pub(crate) fn program(source: &'static str) -> PathBuf {
    compiled(source, &["-fPIE", "-pie"])
}

/// The executable of `tests/c/SOURCE`, which includes `quarry.h` and is linked with the full
/// library: for [`Run::full`](super::Run::full).
pub(crate) fn linked_program(source: &'static str) -> PathBuf {
    let standard = if source.ends_with(".cpp") { "-std=c++17" } else { "-std=gnu11" };
    once(source, |source| linked(&format!("tests/c/{source}"), &[standard, "-D_GNU_SOURCE"]))
}

/// The executable of `examples/SOURCE`, compiled with the warnings that a user may enable.
pub(crate) fn example(source: &'static str) -> PathBuf {
    example_with(source, &[])
}

/// [`example`] with further options.
pub(crate) fn example_with(source: &'static str, options: &[&str]) -> PathBuf {
    let standard = if source.ends_with(".cpp") { "-std=c++17" } else { "-std=c99" };
    let all: Vec<&str> = [standard, "-pedantic"].iter().chain(options).copied().collect();
    once(source, |source| linked(&format!("examples/{source}"), &all))
}

fn linked(path: &str, options: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = own_folder().join(path.replace(['.', '/'], "-"));
    let mut command = compiler(path);
    command.args(options).args(["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", "-I"]);
    command.arg(folder.join("include")).arg("-o").arg(&output).arg(folder.join(path));
    let library = full_library().expect("the library is under test");
    // Musl's loader looks for the library's name, although it is preloaded.
    command.arg(format!("-Wl,-rpath,{}", library.parent().expect("it is absolute").display()));
    run(command.arg(library), path);
    output
}

/// The compiler of a source: `c++`; for C `cc`, or `TEST_CC` with its options.
fn compiler(source: &str) -> Command {
    if source.ends_with(".cpp") {
        return Command::new("c++");
    }
    let chosen = std::env::var("TEST_CC").unwrap_or("cc".to_owned());
    let mut words = chosen.split_whitespace();
    let mut command = Command::new(words.next().expect("TEST_CC names a compiler"));
    command.args(words);
    command
}

/// Runs a compiler, which must print nothing.
fn run(command: &mut Command, source: &str) {
    let answer = command.output().unwrap_or_else(|error| {
        panic!("{:?} does not run (Debian: build-essential): {error}", command.get_program())
    });
    assert!(
        answer.status.success() && answer.stderr.is_empty(),
        "{:?} complains about {source}:\n{}",
        command.get_program(),
        String::from_utf8_lossy(&answer.stderr)
    );
}

/// The executable of `tests/c/SOURCE`, linked at a fixed address.
pub(crate) fn fixed_program(source: &'static str) -> PathBuf {
    compiled(source, &["-fno-pie", "-no-pie"])
}

/// `tests/c/SOURCE` as a shared object that a program can open.
pub(crate) fn plugin(source: &'static str) -> PathBuf {
    compiled(source, &["-fPIC", "-shared"])
}

/// One cell per source, so that only tests of the same program wait for its compilation.
type Cells = Mutex<HashMap<&'static str, Arc<OnceLock<PathBuf>>>>;

fn compiled(source: &'static str, form: &[&str]) -> PathBuf {
    once(source, |source| compile(source, form))
}

fn once(source: &'static str, compile: impl FnOnce(&str) -> PathBuf) -> PathBuf {
    static CELLS: OnceLock<Cells> = OnceLock::new();
    let cells = CELLS.get_or_init(Cells::default);
    let cell =
        Arc::clone(cells.lock().expect("no panic under this lock").entry(source).or_default());
    cell.get_or_init(|| compile(source)).clone()
}

fn compile(source: &str, form: &[&str]) -> PathBuf {
    compiled_with(source, own_folder().join(source.replace('.', "-")), form)
}

/// Compiles `tests/c/SOURCE` to `output`, with these options too.
pub(crate) fn compiled_with(source: &str, output: PathBuf, form: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let standard = if source.ends_with(".cpp") { "-std=c++17" } else { "-std=gnu11" };
    // -fno-builtin, because the compiler may remove a pair of malloc and free.
    let mut command = compiler(source);
    command
        .args([standard, "-O1", "-g", "-fno-builtin", "-Wall", "-Wextra", "-pthread"])
        .args(form)
        .arg("-o")
        .arg(&output)
        .arg(folder.join(source))
        .arg("-ldl");
    run(&mut command, source);
    output
}

/// Links objects to the program `output`, as one in C++.
pub(crate) fn linked_with(objects: &[PathBuf], output: PathBuf, options: &[&str]) -> PathBuf {
    let mut command = Command::new("c++");
    command.args(options).arg("-o").arg(&output).args(objects).arg("-ldl");
    run(&mut command, "objects");
    output
}
