//! `quarry profile` on real processes, and their files in the real pprof.

use super::served::{Served, eventually};
use crate::support::{Workshop, quarry, real_library, skipped};
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The output of Go's pprof with these arguments; without Go prints that, and returns `None`.
fn pprof(arguments: &[&str], file: &Path) -> Option<String> {
    let run = Command::new("go").args(["tool", "pprof"]).args(arguments).arg(file).output();
    let Ok(output) = run else {
        skipped("Debian's package golang-go is not installed: pprof is not asked");
        return None;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "pprof {arguments:?}: {error}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(super) fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(super) const LEAKY: &str = r#"
#include <stdlib.h>
#include <string.h>
static void *volatile kept[50000];
__attribute__((noinline)) void *leaks(size_t size)
{
    void *object = malloc(size);
    memset(object, 1, size);
    return object;
}
__attribute__((noinline)) void tidies_up(size_t size)
{
    void *volatile object = malloc(size);
    free(object);
}
int main(void)
{
    for (int i = 0; i < 50000; i++) {
        kept[i] = leaks(400);
        tidies_up(2000);
    }
    return 0;
}
"#;

const LEAKY_CXX: &str = r#"
#include <string>
#include <vector>
namespace shop {
struct Order { char name[500]; };
static std::vector<Order *> *orders = new std::vector<Order *>;
__attribute__((noinline)) void take_order() { orders->push_back(new Order()); }
}
int main()
{
    for (int i = 0; i < 40000; i++)
        shop::take_order();
    return 0;
}
"#;

/// Runs a program that leaks; returns the file with its profile.
pub(super) fn leak(shop: &Workshop, library: &Path, program: &Path) -> std::path::PathBuf {
    let file = shop.path("leak.raw");
    let mut run = quarry();
    run.env("QUARRY_LIBRARY", library).env("QUARRY_PROFILE", &file);
    run.env("QUARRY_PROFILE_MEAN", "64K").args(["run", "--"]).arg(program).assert().success();
    file
}

#[test]
fn leaks_are_named_with_and_without_frame_pointers() {
    let Some(library) = real_library() else { return };
    let shop = Workshop::new();
    // The last program has a hole between the segments of its tables and its code.
    for (option, place) in [
        ("-fomit-frame-pointer", "-O2"),
        ("-fno-omit-frame-pointer", "-O2"),
        ("-fomit-frame-pointer", "-Wl,-Ttext=0x800000"),
    ] {
        let program = shop.compile("leaky", LEAKY, &["-O2", option, place]);
        let file = leak(&shop, &library, &program);
        let report = text(&quarry().arg("profile").arg(&file).output().expect("it runs"));
        let sites: Vec<&str> = report.split("\n\n").collect();
        assert!(sites[0].starts_with("leaky[") && sites[0].contains("MiB in use in"), "{report}");
        assert!(sites[1].contains("    leaks\n    main\n"), "{option} {place}: {report}");
        assert!(!report.contains("    tidies_up"), "it keeps nothing: {report}");
        // 20 MB with 300 samples: six standard deviations are a third.
        let held: f64 = sites[1].split(' ').next().and_then(|it| it.parse().ok()).expect(&report);
        assert!((12.0..26.0).contains(&held), "19.1 MiB: {report}");
        let mut command = quarry();
        command.arg("profile").arg(&file).args(["--view", "alloc", "--top", "1"]);
        let all = text(&command.output().expect("it runs"));
        assert!(all.contains("    tidies_up\n    main\n"), "{all}");
    }
}

#[test]
fn leaks_of_cxx_have_readable_names_and_pprof_opens_them() {
    let Some(library) = real_library() else { return };
    let shop = Workshop::new();
    let source = shop.path("orders.cpp");
    fs::write(&source, LEAKY_CXX).expect("a source");
    let program = shop.path("orders");
    let compiled =
        Command::new("c++").args(["-O2", "-g", "-o"]).arg(&program).arg(&source).status();
    assert!(compiled.expect("c++ is installed").success());
    let file = leak(&shop, &library, &program);
    let (pb, svg) = (shop.path("leak.pb.gz"), shop.path("leak.svg"));
    let mut command = quarry();
    command.arg("profile").arg(&file).arg("-o").arg(&pb).arg("-o").arg(&svg);
    command.assert().success().stdout("");
    let graph = fs::read_to_string(&svg).expect("text");
    assert!(graph.contains("<svg") && graph.contains("shop::take_order"), "a flame graph");
    assert!(graph.contains(">orders["), "its title names the process");
    if let Some(top) = pprof(&["-top", "-sample_index=inuse_space"], &pb) {
        assert!(top.contains("shop::take_order"), "{top}");
        assert!(top.contains("Type: inuse_space"), "{top}");
    }
    if let Some(lines) = pprof(&["-list=take_order", "-sample_index=inuse_space"], &pb) {
        assert!(lines.contains("orders->push_back"), "{lines}");
    }
    if let Some(raw) = pprof(&["-raw"], &pb) {
        for part in ["alloc_objects/count", "inuse_space/bytes", "Locations", "Mappings"] {
            assert!(raw.contains(part), "{part}: {raw}");
        }
    }
}

/// A program may have symbols of any bytes, and its file may be gone or replaced by a pipe.
#[test]
fn names_of_functions_are_text_and_their_files_are_files() {
    let Some(library) = real_library() else { return };
    let shop = Workshop::new();
    let program = shop.compile("leaky", LEAKY, &["-O2"]);
    let mut renaming = Command::new("objcopy");
    renaming.arg("--redefine-sym").arg("leaks=leaks\x1b[31m<&\u{202e}").arg(&program);
    assert!(renaming.status().expect("objcopy is installed").success());
    let file = leak(&shop, &library, &program);
    let report = text(&quarry().arg("profile").arg(&file).output().expect("it runs"));
    assert!(report.contains("    leaks?[31m<&?\n    main\n"), "{report}");
    let svg = shop.path("leak.svg");
    quarry().arg("profile").arg(&file).arg("-o").arg(&svg).assert().success();
    let graph = fs::read_to_string(&svg).expect("text");
    assert!(graph.contains("leaks?[31m&lt;&amp;?") && !graph.contains(['\x1b', '\u{202e}']));
    fs::remove_file(&program).expect("it was there");
    assert!(Command::new("mkfifo").arg(&program).status().expect("it runs").success());
    let mut command = quarry();
    command.arg("profile").arg(&file).timeout(std::time::Duration::from_secs(300));
    let report = text(&command.output().expect("it runs"));
    assert!(report.contains("    leaky+0x"), "{report}");
}

#[test]
fn growth_is_what_one_profile_has_beyond_another() {
    let Some(library) = real_library() else { return };
    let shop = Workshop::new();
    let program = shop.compile("leaky", LEAKY, &["-O2"]);
    let file = leak(&shop, &library, &program);
    let mut command = quarry();
    command.arg("profile").arg(&file).arg("--diff").arg(&file);
    let report = text(&command.output().expect("it runs"));
    assert!(report.contains("]: 0 B in use in 0 objects"), "{report}");
}

#[test]
fn a_running_process_is_profiled_from_outside() {
    let Some(served) = Served::python("") else { return };
    // Waits until the process has published.
    served.text(&["slabinfo"]);
    let folder = tempfile::tempdir().expect("a folder");
    let [pb, raw] = ["heap.pb.gz", "heap.raw"].map(|name| folder.path().join(name));
    let files = [pb.to_str().unwrap(), raw.to_str().unwrap()];
    let verb = ["profile", "--seconds", "1", "--wait", "100", "--frees", "--mean", "4096"];
    let output = served.look(&[&verb[..], &["-o", files[0], "-o", files[1]]].concat());
    text(&output);
    for view in ["alloc", "frees"] {
        let mut command = quarry();
        command.args(["profile", files[1], "--view", view]);
        let report = text(&command.output().expect("it runs"));
        assert!(report.contains("python3"), "{report}");
    }
    if let Some(top) = pprof(&["-top", "-sample_index=free_space"], &pb) {
        assert!(top.contains("Type: free_space"), "{top}");
    }
    // The profile ends when no reader wants it any more, and another one can begin. A try is a
    // reader too, so the pauses between tries become longer.
    let mut pause = std::time::Duration::from_millis(20);
    eventually("another profile", || {
        std::thread::sleep(pause);
        pause *= 2;
        let again = served.look(&["profile", "--seconds", "0", "--wait", "100"]);
        let name = format!("python3[{}]: ", served.pid());
        assert!(text(&again).starts_with(&name) && text(&again).contains("estimated from"));
        let error = String::from_utf8_lossy(&again.stderr).into_owned();
        if error.contains("was on already") { Err(error) } else { Ok(()) }
    });
}

/// One object in 50 lives for 20 bursts, among others that live for one.
const ENGINE: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) void *state(void) { return memset(malloc(100), 1, 100); }
__attribute__((noinline)) void *row(void) { return memset(malloc(100), 1, 100); }
int main(void)
{
    static void *rows[20000], *states[8000];
    for (int burst = 0;; burst++) {
        for (int i = 0; i < 20000; i++) {
            int at = (burst % 20) * 400 + i / 50;
            if (i % 50 == 0) {
                free(states[at]);
                states[at] = state();
            }
            rows[i] = row();
        }
        for (int i = 0; i < 20000; i++)
            free(rows[i]);
        if (burst == 0)
            write(1, "\n", 1);
        usleep(20000);
    }
}
"#;

/// The objects that live, and not those that are many, keep memory from going back.
#[test]
fn what_pins_memory_is_named() {
    let Some(library) = real_library() else { return };
    let shop = Workshop::new();
    let program = shop.compile("engine", ENGINE, &["-O1", "-fno-builtin"]);
    let mut run = Command::new(program);
    run.env("LD_PRELOAD", library).stdout(Stdio::piped());
    let mut engine = run.spawn().expect("it runs");
    let begun = engine.stdout.as_mut().expect("a pipe").read_exact(&mut [0]);
    begun.expect("the first burst");
    let pid = engine.id().to_string();
    let raw = shop.path("pins.raw");
    let mut command = quarry();
    command.args(["profile", "--pid", &pid, "--wait", "100", "--seconds", "3", "--mean", "4K"]);
    let report = command.args(["--view", "pinned", "-o"]).arg(&raw).output().expect("it runs");
    let _ = (engine.kill(), engine.wait());
    text(&report);
    let shown = |view: &str| {
        let mut command = quarry();
        command.arg("profile").arg(&raw).args(["--view", view]).output().expect("it runs")
    };
    let report = text(&shown("pinned"));
    let first = report.split("\n\n").nth(1).expect("a call site");
    assert!(first.contains(" pinned (") && first.contains(", the oldest of "), "{report}");
    assert!(first.contains("    state\n    main\n"), "{report}");
    let refused = shown("frees");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("take the profile with --frees"));
}

#[test]
fn redis_is_profiled_under_load() {
    let Some(library) = real_library() else { return };
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let port = port.to_string();
    let mut run = Command::new(env!("CARGO_BIN_EXE_quarry"));
    run.env("QUARRY_LIBRARY", library).args(["run", "--", "redis-server", "--port", &port]);
    run.args(["--save", "", "--appendonly", "no"]).stdout(Stdio::null());
    let Ok(mut redis) = run.spawn() else { return skipped("no redis-server") };
    let client =
        |arguments: &[&str]| Command::new("redis-cli").args(["-p", &port]).args(arguments).output();
    eventually("redis", || match client(&["ping"]) {
        Ok(output) if output.status.success() => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let mut load = Command::new("redis-benchmark")
        .args(["-p", &port, "-l", "-q", "-t", "set", "-r", "100000", "-d", "300"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it is in redis's package");
    let mut command = quarry();
    command.args(["profile", "--pid", &redis.id().to_string(), "--seconds", "1", "--wait", "100"]);
    let report = command.output().expect("it runs");
    let _ = (load.kill(), load.wait(), redis.kill(), redis.wait());
    let report = text(&report);
    assert!(report.contains("in use") && report.contains("redis"), "{report}");
}

#[test]
fn what_cannot_be_profiled_is_said() {
    let refused = |arguments: &[&str]| {
        let output = quarry().arg("profile").args(arguments).output().expect("it runs");
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let own = std::process::id().to_string();
    assert!(refused(&["--pid", &own]).contains("quarry run -- COMMAND"));
    assert!(refused(&["/dev/null"]).contains("no heap profile of Quarry"));
    assert!(refused(&["/dev/null", "-o", "x.html"]).contains(".pb.gz, .svg, .raw or .txt"));
    for pid in ["redis", "0", "-1", "4294967296"] {
        let error = refused(&[&format!("--pid={pid}")]);
        assert!(error.contains("accepted: the number of a process, 1 or more"), "{error}");
    }
    for mean in ["1", "2048", "6000", "4G"] {
        let error = refused(&["--pid", &own, "--mean", mean]);
        assert!(error.contains("accepted: a power of two from 4096 to 2147483648"), "{error}");
    }
    assert!(refused(&["/dev/null", "--pid", &own]).contains("cannot be used with"));
}

#[test]
fn a_profile_that_is_not_to_be_had_harms_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let [old, new] = ["old.pb.gz", "new.svg"].map(|name| folder.path().join(name));
    std::fs::write(&old, "an older profile").expect("a file");
    let own = std::process::id().to_string();
    let mut command = quarry();
    command.args(["profile", "--pid", &own, "-o"]).arg(&old).arg("-o").arg(&new);
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&old).expect("it is there"), "an older profile");
    assert!(!new.exists(), "an empty profile is not kept");
}
