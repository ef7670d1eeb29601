//! Programs and shared objects in Rust that contain Quarry: with the feature `override` it serves
//! the C and C++ code of a program, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// The folder of a test, empty.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("override").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target folder is writable");
    folder
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs a command, which must succeed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, said(&output));
    said(&output)
}

/// The objects of the code in C and C++ that the program contains.
fn objects(folder: &Path) -> [PathBuf; 2] {
    [("cc", "work.c"), ("c++", "work.cpp")].map(|(compiler, source)| {
        let object = folder.join(format!("{source}.o"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/override").join(source);
        let mut command = Command::new(compiler);
        command.args(["-O1", "-g", "-fPIC", "-fno-builtin", "-Wall", "-c", "-o"]);
        run(command.arg(&object).arg(source));
        object
    })
}

/// Builds an example with these features, flags and arguments of the compiler, and copies `file` of
/// it to `place`.
fn build(
    (example, file): (&str, &str),
    features: &str,
    flags: &str,
    arguments: &[String],
    place: &Path,
) {
    // Builds of one example replace each other's files.
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let kind = if flags.is_empty() { "dynamic" } else { "static" };
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("override-builds").join(kind);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["rustc", "--quiet", "--package", env!("CARGO_PKG_NAME"), "--example", example]);
    cargo.args(["--features", features, "--target", HOST, "--target-dir"]).arg(&target);
    cargo.arg("--").args(arguments).env("RUSTFLAGS", flags);
    run(cargo.current_dir(env!("CARGO_MANIFEST_DIR")));
    let built = target.join(HOST).join("debug/examples").join(file);
    fs::copy(built, place).expect("it was built");
}

/// The shared object of `tests/plugin`.
fn plugin(folder: &Path, features: &str) -> PathBuf {
    let place = folder.join(format!("libplugin-{features}.so"));
    build(("plugin", "libplugin.so"), features, "", &[], &place);
    place
}

/// Only with a target do flags not hold for procedural macros, which are never static.
const HOST: &str = if cfg!(target_arch = "x86_64") {
    "x86_64-unknown-linux-gnu"
} else {
    "aarch64-unknown-linux-gnu"
};

/// The program, with the objects and with these libraries; a copy in `folder`.
fn program(folder: &Path, name: &str, flags: &str, libraries: &[&str]) -> PathBuf {
    let mut arguments: Vec<String> =
        objects(folder).iter().map(|it| format!("-Clink-arg={}", it.display())).collect();
    arguments.extend(libraries.iter().map(|library| format!("-Clink-arg={library}")));
    let program = folder.join(name);
    build(("one_heap", "one_heap"), "override", flags, &arguments, &program);
    program
}

#[test]
fn programs_have_one_heap() {
    let folder = scratch("programs");
    let own = ["-l:libstdc++.a", "-l:libgcc_eh.a", "-l:libc.a"];
    for (name, flags, libraries) in [
        ("dynamic", "", &["-lstdc++"][..]),
        ("own-libstdc++", "", &["-l:libstdc++.a"]),
        ("static-pie", "-Ctarget-feature=+crt-static", &own),
        ("static", "-Ctarget-feature=+crt-static -Crelocation-model=static", &own),
    ] {
        let program = program(&folder, name, flags, libraries);
        assert_eq!(run(&mut Command::new(&program)), "one heap\n", "{name}");
        let symbols = run(Command::new("nm").arg("--defined-only").arg(&program));
        let has = |symbol: &str| symbols.lines().any(|line| line.ends_with(symbol));
        assert!(has(" malloc") && has(" W _Znwm"), "{name}: its own, and weak");
    }
}

/// One line says which of two serves the C code.
#[test]
fn two_in_one_process() {
    let folder = scratch("two");
    let program = program(&folder, "program", "", &["-lstdc++"]);
    let plugin = plugin(&folder, "override");
    let text = run(Command::new(&program).arg(&plugin));
    let lines: Vec<&str> = text.lines().collect();
    let ["one heap", line] = lines[..] else { panic!("{text}") };
    assert!(
        line.contains("libplugin-override.so") && line.ends_with("the malloc of the program"),
        "{line}"
    );
}

/// An object that is opened with RTLD_DEEPBIND frees what the program has allocated.
#[test]
fn no_other_heap_in_what_is_bound_deep() {
    let folder = scratch("deep");
    let program = program(&folder, "program", "", &["-lstdc++"]);
    let [object, _] = objects(&folder);
    let plugin = folder.join("deep.so");
    run(Command::new("cc").args(["-shared", "-o"]).arg(&plugin).arg(object));
    assert_eq!(run(Command::new(&program).arg(&plugin)), "one heap\n");
}

const OPENER: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int blocked = 0;
    for (int i = 2; i < argc; i++)
        blocked += dlopen(argv[i], RTLD_NOW) == NULL;
    void *plugin = dlopen(argv[1], RTLD_NOW);
    if (plugin == NULL)
        return puts(dlerror()), 1;
    typedef unsigned long work(unsigned long);
    printf("%d %lu\n", blocked, ((work *)dlsym(plugin, "plugin_work"))(60000));
    return 0;
}
"#;

/// Sixty objects with thread-local storage at a fixed offset, of which the loader has 1.6 KiB left
/// for all that a program opens (glibc 2.36); Quarry takes 32 bytes of it.
fn greedy(folder: &Path) -> Vec<PathBuf> {
    let source = folder.join("greedy.c");
    let text = "__thread long own[2] __attribute__((tls_model(\"initial-exec\")));\n\
                char *get(void) { return own; }\n";
    fs::write(&source, text).expect("the folder is writable");
    let first = folder.join("greedy-0.so");
    run(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&first).arg(&source));
    let copy = |number| {
        let object = folder.join(format!("greedy-{number}.so"));
        fs::copy(&first, &object).expect("the folder is writable");
        object
    };
    std::iter::once(first.clone()).chain((1..60).map(copy)).collect()
}

/// Not "cannot allocate memory in static TLS block".
#[test]
fn opened_after_many_others() {
    let folder = scratch("opened");
    let source = folder.join("opener.c");
    fs::write(&source, OPENER).expect("the folder is writable");
    let opener = folder.join("opener");
    run(Command::new("cc").arg("-o").arg(&opener).arg(&source).arg("-ldl"));
    let greedy = greedy(&folder);
    for features in ["std", "override"] {
        let plugin = plugin(&folder, features);
        let text = run(Command::new(&opener).arg(plugin).args(&greedy));
        let answer = text.lines().next().and_then(|line| line.split_once(' '));
        let (blocked, calls) = answer.unwrap_or_else(|| panic!("{text}"));
        assert!(blocked == "0" && calls == "1", "{features}: {text}");
    }
}

#[test]
fn a_python_extension_after_many_others() {
    if Command::new("python3").arg("--version").output().is_err() {
        return eprintln!("skipped: python3 is not installed");
    }
    let folder = scratch("python");
    build(("python", "libpython.so"), "std", "", &[], &folder.join("quarry_inside.so"));
    let objects = greedy(&folder).iter().map(|it| format!("{it:?},")).collect::<String>();
    let script = format!(
        "import ctypes\nblocked = 0\nfor object in [{objects}]:\n    try:\n        \
         ctypes.CDLL(object)\n    except OSError:\n        blocked += 1\nimport quarry_inside\n\
         print(blocked, quarry_inside.__name__)"
    );
    let mut python = Command::new("python3");
    let text = run(python.args(["-c", &script]).env("PYTHONPATH", &folder));
    assert_eq!(text, "0 quarry_inside\n");
}
