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

/// Opens the plugin after all other objects, in the thread that its first argument names, and lets
/// it work in three threads, one of them older than the plugin, before it is closed and after it is
/// opened again, and in a child.
const OPENER: &str = r#"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
typedef unsigned long work(unsigned long);
static const char *path;
static void *plugin;
static unsigned long calls;
static pthread_barrier_t is_open, has_worked;
static void *open_plugin(void *unused)
{
    plugin = dlopen(path, RTLD_NOW);
    if (plugin == NULL)
        puts(dlerror());
    return unused;
}
static void *use(void *unused)
{
    calls = ((work *)dlsym(plugin, "plugin_work"))(20000);
    return unused;
}
static void *wait_and_use(void *unused)
{
    pthread_barrier_wait(&is_open);
    use(NULL);
    pthread_barrier_wait(&has_worked);
    return unused;
}
static void in_a_thread(void *(*what)(void *))
{
    pthread_t thread;
    pthread_create(&thread, NULL, what, NULL);
    pthread_join(thread, NULL);
}
int main(int argc, char **argv)
{
    pthread_t older;
    pthread_barrier_init(&is_open, NULL, 2);
    pthread_barrier_init(&has_worked, NULL, 2);
    pthread_create(&older, NULL, wait_and_use, NULL);
    int blocked = 0;
    for (int i = 3; i < argc; i++)
        blocked += dlopen(argv[i], RTLD_NOW) == NULL;
    path = argv[2];
    strcmp(argv[1], "thread") == 0 ? in_a_thread(open_plugin) : (void)open_plugin(NULL);
    if (plugin == NULL)
        return 1;
    pthread_barrier_wait(&is_open);
    pthread_barrier_wait(&has_worked);
    use(NULL);
    in_a_thread(use);
    dlclose(plugin);
    open_plugin(NULL);
    use(NULL);
    pid_t child = fork();
    if (child == 0) {
        use(NULL);
        _exit(calls != 5);
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("%d %lu %d\n", blocked, calls, status);
    pthread_join(older, NULL);
    return 0;
}
"#;

/// Sixty objects with thread-local storage at a fixed offset: more than glibc's loader has left for
/// what a program opens (1.6 KiB in glibc 2.36).
fn greedy(folder: &Path) -> Vec<PathBuf> {
    let source = folder.join("greedy.c");
    let text = "__thread long own[8] __attribute__((tls_model(\"initial-exec\")));\n\
                char *get(void) { return own; }\n";
    fs::write(&source, text).expect("the folder is writable");
    let first = folder.join("greedy-0.so");
    run(Command::new("cc").args(["-w", "-shared", "-fPIC", "-o"]).arg(&first).arg(&source));
    let copy = |number| {
        let object = folder.join(format!("greedy-{number}.so"));
        fs::copy(&first, &object).expect("the folder is writable");
        object
    };
    std::iter::once(first.clone()).chain((1..60).map(copy)).collect()
}

/// Not "cannot allocate memory in static TLS block". Without glibc's registration Quarry needs such
/// memory for its own: then the C library's `malloc` serves, as one line reports.
#[test]
fn opened_after_many_others() {
    let folder = scratch("opened");
    let source = folder.join("opener.c");
    fs::write(&source, OPENER).expect("the folder is writable");
    let opener = folder.join("opener");
    run(Command::new("cc").arg("-o").arg(&opener).arg(&source).args(["-ldl", "-lpthread"]));
    let greedy = greedy(&folder);
    for features in ["std", "override"] {
        let plugin = plugin(&folder, features);
        for (thread, tunables) in [("main", ""), ("thread", ""), ("main", "glibc.pthread.rseq=0")] {
            let is_served = tunables.is_empty();
            let mut opener = Command::new(&opener);
            opener.arg(thread).arg(&plugin).args(&greedy).env("GLIBC_TUNABLES", tunables);
            opener.env("TEST_SERVED", u8::from(is_served).to_string());
            let text = run(&mut opener);
            let line = text.lines().next().unwrap_or_default();
            let [blocked, calls, status] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{text}")
            };
            assert_ne!(blocked, "0", "the loader has space left: {text}");
            assert!(calls == "4" && status == "0", "{features}, {thread}, {tunables}: {text}");
            assert_ne!(text.contains("C library's malloc serves"), is_served, "{text}");
        }
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
    assert!(text.ends_with(" quarry_inside\n") && !text.starts_with("0 "), "{text}");
}
