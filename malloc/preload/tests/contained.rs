//! Programs that contain Quarry: `libquarry.a` in C, C++ and Go, in each way to link it.

use crate::support::{
    Run, archive, compiled_with, library, linked_with, plugin, scratch, skipped, testing_a_peer,
};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names and options of the ways to link a program.
const FORMS: [(&str, &[&str]); 4] = [
    ("pie", &["-fPIE", "-pie"]),
    ("fixed", &["-fno-pie", "-no-pie"]),
    ("static", &["-static", SILENT]),
    ("static-pie", &["-fPIE", "-static-pie", SILENT]),
];

/// The programs of `tests/c` have calls of `dlopen`, of which the linker warns in static programs.
const SILENT: &str = "-Wl,--no-warnings";

/// As `quarry-static.pc` has it: the object of the archive is part of the program in any case.
const WANTED: &str = "-Wl,--undefined=quarry_version";

/// `tests/c/SOURCE` with the archive inside.
fn containing(source: &str, folder: &Path, form: &str, options: &[&str]) -> PathBuf {
    let archive = archive().to_str().expect("UTF-8");
    let options: Vec<&str> = options.iter().copied().chain([WANTED, archive]).collect();
    compiled_with(source, folder.join(format!("{source}-{form}")), &options)
}

/// A run of a program of `tests/c`, which looks for no shared object then.
fn own(program: impl AsRef<OsStr>) -> Run {
    Run::containing(program).env("TEST_PEER", "1")
}

#[test]
fn programs_in_every_form() {
    if testing_a_peer() {
        return;
    }
    let folder = scratch();
    for (form, options) in FORMS {
        for source in [
            "abi_basic.c",
            "abi_calloc.c",
            "abi_realloc.c",
            "abi_aligned.c",
            "abi_errors.c",
            "life_threads.c",
            "life_fork.c",
            "cxx_operators.cpp",
            "cxx_failure.cpp",
        ] {
            let program = containing(source, &folder, form, options);
            own(program).finish().success();
        }
    }
}

/// Each global symbol of the archive's one object, and its kind as `nm` has it.
fn symbols() -> Vec<(String, String)> {
    let mut nm = Command::new("nm");
    nm.args(["--defined-only", "--extern-only", "--portability"]).arg(archive());
    let output = nm.output().expect("nm runs (Debian: binutils)");
    let text = String::from_utf8(output.stdout).expect("names are ASCII");
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, rest)| (name.to_owned(), rest.chars().take(1).collect()))
        .filter(|(name, _): &(String, String)| !name.ends_with(':') && !name.contains('['))
        .collect()
}

/// `abi.txt` is the list, but for `dlopen`, which needs a loader, and for the forms of `operator
/// new` that return null. The operators of C++ are weak.
#[test]
fn the_archive_defines_what_the_list_says() {
    let list = include_str!("../abi.txt").lines().filter(|line| !line.starts_with('#'));
    let is_left_out = |name: &str| name.starts_with("_Zn") && name.ends_with("nothrow_t");
    let list = list.filter(|name| !name.is_empty() && *name != "dlopen" && !is_left_out(name));
    let wanted: BTreeSet<&str> = list.collect();
    let symbols = symbols();
    let found: BTreeSet<&str> = symbols.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(found, wanted);
    for (name, kind) in &symbols {
        assert_eq!(kind == "W", name.starts_with("_Z"), "{name} is {kind}");
    }
}

/// A program with a `malloc` of its own would have two heaps: it is not linked.
#[test]
fn a_part_that_the_program_defines_is_an_error_of_the_linker() {
    let folder = scratch();
    for (name, part) in [
        ("free", "void free(void *pointer) { (void)pointer; }"),
        ("realloc", "void *realloc(void *old, unsigned long size) { (void)size; return old; }"),
        ("malloc_usable_size", "unsigned long malloc_usable_size(void *it) { return !it; }"),
    ] {
        let source = folder.join(format!("{name}.c"));
        fs::write(&source, format!("{part}\nint main(void) {{ return 0; }}\n")).unwrap();
        for (_, options) in FORMS {
            let options = options.iter().filter(|option| **option != SILENT);
            let mut cc = Command::new("cc");
            cc.args(options).args(["-fno-builtin", "-o"]).arg(folder.join("program"));
            let output = cc.arg(&source).arg(WANTED).arg(archive()).output().expect("cc runs");
            let text = String::from_utf8_lossy(&output.stderr);
            let is_named = text.contains(&format!("multiple definition of `{name}'"));
            assert!(!output.status.success() && is_named, "{cc:?}: {text}");
        }
    }
}

/// The others call the program's, in the order of the standard.
#[test]
fn operators_of_the_program() {
    let folder = scratch();
    let sets: [&[&str]; 4] = [
        &["_Znwm", "_ZdlPv"],
        &["_Znam", "_ZdlPv"],
        &["_ZnwmSt11align_val_t", "_ZdlPvSt11align_val_t", "_Znwm", "_ZdlPv"],
        &["_ZdaPvSt11align_val_t"],
    ];
    for (code, form) in [("-fPIE", "-pie"), ("-fno-pie", "-no-pie")] {
        let object = |source, name: &str, option: &str| {
            compiled_with(source, folder.join(format!("{name}{code}.o")), &["-c", code, option])
        };
        let main = object("cxx_replaced.cpp", "main", "-O1");
        for set in sets {
            let own = set
                .iter()
                .map(|symbol| object("cxx_replacement.c", symbol, &format!("-DSYMBOL={symbol}")));
            let objects: Vec<PathBuf> = own.chain([main.clone(), archive().to_owned()]).collect();
            let output = folder.join(set.concat() + code);
            let program = linked_with(&objects, output, &[form, "-rdynamic", WANTED]);
            Run::containing(program).finish().success();
        }
    }
}

/// Static programs have no other `malloc`; the others have the C library's.
#[test]
fn disabled() {
    let folder = scratch();
    for (form, options) in FORMS {
        let program = containing("abi_basic.c", &folder, form, options);
        let outcome = own(program).without_stats().env("QUARRY_DISABLE", "1").finish().success();
        let serves = outcome.stderr.contains("this program contains Quarry and no other malloc");
        assert_eq!(serves, form.starts_with("static"), "{outcome}");
    }
}

/// One line says which of them serves, and the program runs.
#[test]
fn beside_a_preloaded_library() {
    let Some(library) = library() else { return };
    let program = containing("life_threads.c", &scratch(), "pie", &["-fPIE", "-pie"]);
    let outcome = own(&program).env("LD_PRELOAD", library).finish().success();
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    let [line] = lines[..] else { panic!("{outcome}") };
    let names = [program.to_str().unwrap(), library.to_str().unwrap(), "do not preload"];
    assert!(names.iter().all(|name| line.contains(name)), "{outcome}");
}

/// A shared object cannot serve what calls the program's `malloc`, as one line tells.
#[test]
fn in_a_shared_object() {
    let folder = scratch();
    let object = containing("life_plugin.c", &folder, "object", &["-fPIC", "-shared"]);
    let plain = compiled_with("contained_opener.c", folder.join("plain"), &[]);
    let opener = containing("contained_opener.c", &folder, "pie", &["-fPIE", "-pie"]);
    for (program, serving) in [(&plain, "libc.so.6"), (&opener, "the program")] {
        let outcome = own(program).without_stats().arg(&object).finish().success();
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        let [line] = lines[..] else { panic!("{outcome}") };
        assert!(line.contains(object.to_str().unwrap()) && line.ends_with(serving), "{outcome}");
    }
    own(&opener).arg(plugin("life_plugin.c")).finish().success();
}

/// Of a static program for musl, too.
const GO: &str = include_str!("../../../scripts/musl/contained.go");

#[test]
fn go_with_cgo() {
    if Command::new("go").arg("version").output().is_err() {
        return skipped("go is not installed");
    }
    for (name, flags) in [("dynamic", "-linkmode external"), ("static", "-extldflags -static")] {
        let folder = scratch();
        fs::write(folder.join("main.go"), GO).unwrap();
        fs::write(folder.join("go.mod"), "module contained\n\ngo 1.19\n").unwrap();
        let output = Command::new("go")
            .args(["build", "-o", "program", "-ldflags", flags, "."])
            .env("CGO_ENABLED", "1")
            .env("CGO_LDFLAGS_ALLOW", ".*")
            .env("CGO_LDFLAGS", format!("{WANTED} {}", archive().display()))
            .env("GOFLAGS", "-mod=mod")
            .env("GOCACHE", folder.join("cache"))
            .current_dir(&folder)
            .output()
            .expect("go runs");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        // Go ends without the C library's exit.
        let outcome = Run::bare(folder.join("program")).finish().success();
        assert_eq!(outcome.stdout, format!("{} 112", env!("CARGO_PKG_VERSION")), "{name}");
    }
}

const MAIN: &str = r#"#include <quarry.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    free(malloc(100));
    puts(quarry_version());
    return 0;
}
"#;
const CMAKE: &str = "\
cmake_minimum_required(VERSION 3.13)
project(prog C)
find_package(PkgConfig REQUIRED)
pkg_check_modules(QUARRY REQUIRED IMPORTED_TARGET quarry-static)
add_executable(prog prog.c)
target_link_libraries(prog PRIVATE PkgConfig::QUARRY)
";
const MESON: &str = "\
project('prog', 'c')
executable('prog', 'prog.c', dependencies: dependency('quarry-static'))
";

/// `make install` into a folder of the test, without building anything.
fn installed() -> PathBuf {
    let folder = scratch();
    let target = folder.join("target");
    let file = |name: &str| {
        let file = target.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        file
    };
    for name in ["release/libquarry.so", "release/libquarry-full.so", "tools/quarry"] {
        fs::write(file(name), "").unwrap();
    }
    fs::write(file("pages/man/quarry.1"), "").unwrap();
    fs::copy(archive(), file("release/libquarry.a")).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let prefix = folder.join("usr");
    let place = |inner: &str| prefix.join(inner);
    let output = Command::new(root.join("scripts/install.sh"))
        .envs([("TARGET", target.clone()), ("PREFIX", prefix.clone()), ("LIBDIR", place("lib"))])
        .envs([("MANDIR", place("man")), ("BASHDIR", place("b")), ("ZSHDIR", place("z"))])
        .envs([("FISHDIR", place("f")), ("DESTDIR", PathBuf::new())])
        .envs([("VERSION", "1"), ("ABI", "0"), ("SLABS", "slub"), ("PROGRAMS_BUILT", "job")])
        .output()
        .expect("bash runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    prefix
}

/// Runs a tool that finds Quarry by pkg-config; false if the tool is not installed.
fn tool<A: AsRef<OsStr>>(name: &str, arguments: &[A], folder: &Path, prefix: &Path) -> bool {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(folder);
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let Ok(output) = command.output() else {
        skipped(&format!("{name} is not installed"));
        return false;
    };
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {text}");
    true
}

/// The snippets of docs/deploy.md, in which users copy them.
#[test]
fn pkg_config_cmake_and_meson_find_the_archive() {
    let page = include_str!("../../../docs/deploy.md");
    assert!(page.contains(CMAKE) && page.contains(MESON), "docs/deploy.md has both");
    let (prefix, folder) = (installed(), scratch());
    for (name, text) in [("prog.c", MAIN), ("CMakeLists.txt", CMAKE), ("meson.build", MESON)] {
        fs::write(folder.join(name), text).unwrap();
    }
    let check = |program: &str| {
        let outcome = Run::containing(folder.join(program)).finish().success();
        assert_eq!(outcome.stdout.trim(), env!("CARGO_PKG_VERSION"), "{program}");
    };
    let script = "cc -static -Wl,--fatal-warnings -o by-hand prog.c \
                  $(pkg-config --cflags --libs quarry-static)";
    if tool("pkg-config", &["--version"], &folder, &prefix) {
        assert!(tool("sh", &["-c", script], &folder, &prefix));
        check("by-hand");
    }
    if tool("cmake", &["-S", ".", "-B", "cmake"], &folder, &prefix) {
        assert!(tool("cmake", &["--build", "cmake"], &folder, &prefix));
        check("cmake/prog");
    }
    if tool("meson", &["setup", "meson"], &folder, &prefix) {
        assert!(tool("ninja", &["-C", "meson"], &folder, &prefix));
        check("meson/prog");
    }
}
