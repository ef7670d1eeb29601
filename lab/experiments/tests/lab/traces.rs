//! `quarry record` and `quarry simulate`, with what `make lab` has built.

use crate::support::{Workshop, lab, lab_is_built};
use quarry_trace::{Call, Trace};
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Two threads: one allocates and resizes, the other frees; and a child that allocates.
const HANDOVER: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
enum { ROUNDS = 5000 };
static void *blocks[ROUNDS];
static void *give_back(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        if (malloc_usable_size(blocks[i]) < 100) abort();
        free(blocks[i]);
    }
    return unused;
}
int main(void) {
    for (int i = 0; i < ROUNDS; i++) {
        void *block = i % 2 ? malloc(50) : calloc(5, 10);
        memset(block, 1, 50);
        blocks[i] = realloc(block, 100 + i % 3000);
    }
    void *aligned;
    if (posix_memalign(&aligned, 4096, 5000)) return 2;
    free(aligned);
    pthread_t thread;
    pthread_create(&thread, NULL, give_back, NULL);
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 1000; i++) free(malloc(77));
        _exit(0);
    }
    waitpid(child, NULL, 0);
    puts("done");
    fflush(stdout);
    _exit(7);
}
"#;

/// Four threads that resize blocks of one arena: an address that one gives up goes to another.
const RESIZES: &str = r#"
#include <pthread.h>
#include <stdlib.h>
static void *resize(void *seed) {
    unsigned long random = (unsigned long)seed;
    void *blocks[64] = {0};
    for (int i = 0; i < 40000; i++) {
        random = random * 6364136223846793005ul + 1442695040888963407ul;
        int at = random >> 58;
        blocks[at] = realloc(blocks[at], 2000 + (random >> 40) % 6000);
    }
    for (int i = 0; i < 64; i++) free(blocks[i]);
    return 0;
}
int main(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, resize, (void *)(i + 1));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;

fn handover(shop: &Workshop) -> PathBuf {
    let source =
        HANDOVER.replacen("#include <pthread.h>", "#include <malloc.h>\n#include <pthread.h>", 1);
    shop.compile("handover", &source, &["-O1", "-pthread"])
}

fn record(trace: &Path, arguments: &[&str]) -> assert_cmd::assert::Assert {
    lab().arg("record").arg("-o").arg(trace).args(arguments).assert()
}

fn stderr(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
}

/// Follows every block of a trace in the order of time: a resize frees at its start and allocates
/// at its end. Returns the number of allocations of 5,000 bytes, and of frees, without resizes.
fn follow(trace: &Trace) -> (usize, usize) {
    let mut moments = Vec::new();
    let mut counts = (0, 0);
    for event in trace.threads.iter().flatten() {
        match event.call {
            Call::Alloc { address, size, .. } => {
                moments.push((event.at_ns, address, true));
                counts.0 += usize::from(size == 5000);
            }
            Call::Free { address } => {
                moments.push((event.at_ns, address, false));
                counts.1 += 1;
            }
            Call::Resize { old, address, took_ns, .. } => {
                moments.push((event.at_ns, old, false));
                moments.push((event.at_ns + took_ns, address, true));
            }
        }
    }
    moments.sort_by_key(|(at_ns, ..)| *at_ns);
    let mut live = HashSet::new();
    for (_, address, begins) in moments {
        let changed = if begins { live.insert(address) } else { live.remove(&address) };
        assert!(changed, "{address:#x} is in use already, or not at all");
    }
    counts
}

#[test]
fn every_call_is_recorded_and_the_status_is_the_programs() {
    if !lab_is_built() {
        return;
    }
    let shop = Workshop::new();
    let (program, trace) = (handover(&shop), shop.path("trace"));
    let done = record(&trace, &["--", program.to_str().unwrap()]).code(7).stdout("done\n");
    let said = stderr(&done);
    let recorded = Trace::read(&trace).unwrap();
    assert!(said.contains("of 2 threads of"), "{said}");
    assert_eq!((recorded.threads.len(), recorded.lost), (2, 0));
    let (aligned, frees) = follow(&recorded);
    assert_eq!(aligned, 1);
    assert!(frees > 5000, "{frees} frees: the other thread's are among them");
    let bytes = std::fs::metadata(&trace).unwrap().len();
    assert!(bytes < 300_000, "the file is cut to what was recorded: {bytes}");
}

#[test]
fn blocks_that_threads_resize_at_the_same_time_are_told_apart() {
    if !lab_is_built() {
        return;
    }
    let shop = Workshop::new();
    let program = shop.compile("resizes", RESIZES, &["-O1", "-pthread"]);
    let trace = shop.path("trace");
    let mut command = lab();
    command.env("MALLOC_ARENA_MAX", "1").arg("record").arg("-o").arg(&trace);
    command.arg("--").arg(program).assert().success();
    let recorded = Trace::read(&trace).unwrap();
    assert_eq!((recorded.threads.len(), recorded.lost), (5, 0));
    assert!(follow(&recorded).1 >= 4 * 64, "the C library may free something as well");
}

#[test]
fn what_does_not_fit_is_counted() {
    if !lab_is_built() {
        return;
    }
    let shop = Workshop::new();
    let (program, trace) = (handover(&shop), shop.path("trace"));
    let program = program.to_str().unwrap();
    let said = stderr(&record(&trace, &["--limit", "20K", "--", program]).code(7));
    let recorded = Trace::read(&trace).unwrap();
    assert!(recorded.lost > 10_000, "{}", recorded.lost);
    assert!(said.contains("further calls: the trace was full"), "{said}");
    // A second run replaces the first one's trace, and the trace is complete though `sh` is killed.
    let said = stderr(&record(&trace, &["--", "sh", "-c", "kill -9 $$"]).code(137));
    assert!(said.contains("of 1 thread of `sh -c"), "{said}");
    assert_eq!(Trace::read(&trace).unwrap().lost, 0);
}

#[test]
fn children_record_where_they_shall() {
    if !lab_is_built() {
        return;
    }
    let shop = Workshop::new();
    let trace = shop.path("trace");
    let count = || {
        let names = std::fs::read_dir(trace.parent().unwrap()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("trace.")).count()
    };
    let arguments = ["--", "sh", "-c", "/bin/ls / > /dev/null; true"];
    record(&trace, &arguments).success();
    assert_eq!(count(), 0);
    record(&trace, &[&["--children"], &arguments[..]].concat()).success();
    assert_eq!(count(), 1);
    // If a program becomes another one by `exec`, the trace is that of the last.
    let said = stderr(&record(&trace, &["--", "sh", "-c", "exec env ls /"]).success());
    assert!(said.contains("of `ls /`"), "{said}");
}

#[test]
fn files_that_are_no_traces_stay() {
    if !lab_is_built() {
        return;
    }
    let shop = Workshop::new();
    let letter = shop.script("letter", "Dear reader\n");
    let said = stderr(&record(&letter, &["--", "true"]).code(2));
    assert!(said.contains("not a trace of `quarry record`: it begins with \"Dear rea\""), "{said}");
    assert_eq!(std::fs::read_to_string(&letter).unwrap(), "Dear reader\n");
    let said = stderr(&record(&shop.path("no/trace"), &["--", "true"]).code(2));
    assert!(said.contains("there is no such folder"), "{said}");
    let said = stderr(&record(&shop.path("trace"), &["--limit", "1K", "--", "true"]).code(2));
    assert!(said.contains("accepted: 12288 or more bytes"), "{said}");
    record(&shop.path("trace"), &["--", "/no/such/program"]).code(125);
}

fn simulate(trace: &Path, arguments: &[&str]) -> assert_cmd::assert::Assert {
    lab().arg("simulate").arg(trace).args(arguments).assert()
}

#[test]
fn a_trace_is_played_on_many_cpus() {
    if !lab_is_built() {
        return;
    }
    let shop = Workshop::new();
    let (program, trace) = (handover(&shop), shop.path("trace"));
    record(&trace, &["--", program.to_str().unwrap()]).code(7);
    let options = ["--cpus", "6", "--sockets", "2", "--slab", "sheaf,slab", "--calls", "40000"];
    let json = || {
        let output = simulate(&trace, &[&options[..], &["--json"]].concat()).success();
        output.get_output().stdout.clone()
    };
    let first = json();
    assert_eq!(first, json(), "the same seed gives the same bytes");
    let document: Value = serde_json::from_slice(&first).unwrap();
    let cells = document["cells"].as_array().unwrap();
    let of =
        |cell: &Value| (cell["slab"].as_str().unwrap().to_owned(), cell["cpus"].as_u64().unwrap());
    let expected = ["sheaf", "slab"].map(|slab| [1, 2, 4, 6].map(|cpus| (slab.to_owned(), cpus)));
    assert_eq!(cells.iter().map(of).collect::<Vec<_>>(), expected.concat());
    for cell in cells {
        let number = |name: &str| cell[name].as_f64().unwrap();
        assert_eq!(number("copies"), (number("cpus") / 2.0).ceil(), "two threads a copy: {cell}");
        assert!(number("calls_per_s") > 1e5 && number("call_ns") > 0.0, "{cell}");
        // Both threads run from the start here: blocks are freed while others are allocated.
        assert!(number("live_bytes") > 5e6 && number("peak_bytes") > 1e5, "{cell}");
        assert!(number("parked_bytes") < number("peak_bytes"), "{cell}");
    }
    let picture = shop.path("picture.svg");
    let drawn = [&options[..], &["--svg", picture.to_str().unwrap()]].concat();
    let printed = simulate(&trace, &drawn).success();
    let printed = String::from_utf8_lossy(&printed.get_output().stdout).into_owned();
    assert!(printed.contains("3 copies on 6 CPUs in 2 sockets"), "{printed}");
    assert!(std::fs::read_to_string(&picture).unwrap().contains("handover: calls of malloc"));
}

#[test]
fn recorded_jobs_are_packed_onto_a_machine() {
    if !lab_is_built() {
        return;
    }
    let shop = Workshop::new();
    let (program, trace) = (handover(&shop), shop.path("trace"));
    record(&trace, &["--", program.to_str().unwrap()]).code(7);
    let run = |trace: &Path| {
        let jobs = format!("--jobs={}=400", trace.display());
        let options = ["run", "containment", "--quick", "--mib=64", "--variants=slab,sheaf"];
        lab().args(options).arg(jobs).assert()
    };
    let printed = run(&trace).success();
    let printed = String::from_utf8_lossy(&printed.get_output().stdout).into_owned();
    assert!(printed.contains("a mix of 1 job on 64 MiB"), "{printed}");
    assert!(printed.contains("| slab        | "), "{printed}");
    let said = stderr(&run(&shop.path("none")).code(1));
    assert!(said.contains("none: No such file"), "{said}");
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    if !lab_is_built() {
        return;
    }
    let shop = Workshop::new();
    let trace = shop.path("trace");
    record(&trace, &["--", "true"]).success();
    let cases = [
        (&["--slab", "foo"][..], "--slab foo: no such policy; accepted: sheaf, "),
        (&["--pages", "foo"], "--pages foo: no such policy; accepted: "),
        (&["--cpus", "7", "--sockets", "2"], "--cpus 7: not a multiple of --sockets 2"),
        (&["--costs", "/no/such/file"], "--costs /no/such/file: "),
    ];
    for (arguments, expected) in cases {
        let said = stderr(&simulate(&trace, arguments).code(2));
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let foreign = stderr(&simulate(&shop.script("letter", "Dear reader\n"), &[]).code(2));
    assert!(foreign.contains("not a trace of `quarry record`"), "{foreign}");
}
