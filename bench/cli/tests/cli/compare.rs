//! `quarry compare` on real programs: what is proven, reported, refused and left over.

use crate::support::{Workshop, quarry, real_library};
use assert_cmd::Command;
use clap::Parser;
use predicates::prelude::*;
use predicates::str::{contains, starts_with};
use quarry_harness::tables::CompareArgs;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Spends a good part of its time in malloc, and prints two numbers.
pub(crate) const ALLOCATES: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    volatile unsigned sum = 0;
    for (int i = 0; i < BLOCKS; i++) {
        char *block = malloc(64 + i % 64);
        memset(block, i, 64);
        for (int j = 0; j < TURNS; j++) sum += j;
        free(block);
    }
    char line[4096];
    int bytes = 0, length;
    while ((length = read(0, line, sizeof line)) > 0) bytes += length;
    printf("warming up: 7 units\nread %d bytes\ndone: 1,250.5 units\n", bytes);
    return 0;
}
"#;

/// Few blocks, and few turns on each; `MUCH` takes a time well above the clock's grain.
pub(crate) const LITTLE: [&str; 2] = ["-DBLOCKS=20000", "-DTURNS=300"];
const MUCH: [&str; 2] = ["-DBLOCKS=100000", "-DTURNS=1000"];

/// Source of an allocator that is glibc's, but spins for `turns` turns in each `malloc`.
pub(crate) fn allocator_that_spins(turns: u32) -> String {
    format!(
        "#include <stddef.h>\nvoid *__libc_malloc(size_t);\n\
         void *malloc(size_t n) {{\n\
         for (volatile int i = 0; i < {turns}; i++) {{}}\n\
         return __libc_malloc(n); }}\n"
    )
}

/// `quarry compare` with a seed and `options`; the caller adds what follows.
pub(crate) fn compare(options: &[&str]) -> Command {
    let mut command = quarry();
    command.env_remove("PYTHONMALLOC").args(["compare", "--seed=7"]).args(options);
    command
}

pub(crate) fn shared_object(shop: &Workshop, name: &str, source: &str) -> String {
    let file = shop.compile(&format!("lib{name}.so"), source, &["-shared", "-fPIC"]);
    format!("{name}={}", file.display())
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn verdict<'a>(recording: &'a Value, variant: &str, metric: &str) -> &'a Value {
    let mut verdicts = recording["verdicts"].as_array().unwrap().iter();
    let is_it = |it: &&Value| it["variant"] == variant && it["metric"] == metric;
    verdicts.find(is_it).unwrap_or_else(|| panic!("{variant} {metric}: {}", recording["verdicts"]))
}

/// What `quarry lab compare` reads and prints.
#[derive(Parser)]
struct Tables {
    #[command(flatten)]
    arguments: CompareArgs,
}

#[test]
fn every_run_proves_who_served_it_and_is_kept() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    let own = shared_object(&shop, "own", &allocator_that_spins(1));
    let (file, out, page) = (shop.path("run.json"), shop.path("run"), shop.path("run.html"));
    compare(&["--runs=2", &format!("--allocators=glibc,{own}"), "--json"])
        .arg(&file)
        .arg("--html")
        .arg(&page)
        .arg("--out")
        .arg(&out)
        .arg("--")
        .arg(&program)
        .assert()
        .success()
        .stdout(contains("2 rounds in shuffled order, seed 7"))
        .stdout(contains("It asks for memory 2"))
        .stdout(contains("| glibc A/A |"))
        .stdout(contains("* own: libown.so; 2 runs served by "));
    let recording = json(&file);
    assert_eq!(recording["schema"], "quarry-compare/1");
    assert_eq!(recording["meta"]["seed"], 7);
    let allocations = recording["probe"]["allocations"].as_u64().unwrap();
    assert!((20_000..21_000).contains(&allocations), "{allocations}");
    let samples = recording["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 9, "two rounds and the warm-up, two allocators and the copy");
    for sample in samples {
        let measurement = &sample["measurement"];
        let library = if sample["variant"] == "own" { "libown.so" } else { "libc.so" };
        assert!(measurement["served_by"].as_str().unwrap().contains(library), "{sample}");
        let counter = |name: &str| measurement["counters"][name].as_u64().unwrap();
        assert!(counter("peak_bytes") > 500_000 && counter("page_faults") > 50, "{sample}");
        assert!(measurement["wall_ns"].as_u64().unwrap() > 0, "{sample}");
        assert!(sample["timeline"]["readings"].is_array(), "{sample}");
    }
    let orders: Vec<Vec<&str>> = samples
        .chunks(3)
        .map(|block| block.iter().map(|it| it["variant"].as_str().unwrap()).collect())
        .collect();
    for order in &orders {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, ["glibc", "glibc A/A", "own"], "each block is complete");
    }
    let mut text = Vec::new();
    Tables::parse_from([Path::new("tables"), &out]).arguments.run(&[], &mut text).unwrap();
    assert!(String::from_utf8(text).unwrap().contains("allocates"), "the lab reads the recording");
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("Speed against memory"), "{text}");
    let mut again = compare(&["--runs=2", "--allocators=glibc", "--html"]);
    again.arg(&page).arg("--").arg(&program);
    again.assert().code(2).stderr(contains("there already; never replaced; accepted: a new file"));
    assert_eq!(fs::read_to_string(&page).unwrap(), text);
}

#[test]
fn a_planted_slow_allocator_is_worse() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", MUCH[0], MUCH[1]]);
    let slow = shared_object(&shop, "slow", &allocator_that_spins(9_000));
    let file = shop.path("run.json");
    compare(&["--runs=6", &format!("--allocators=glibc,{slow}"), "--json"])
        .arg(&file)
        .arg("--")
        .arg(&program)
        .assert()
        .success()
        .stdout(contains("| slow "));
    let recording = json(&file);
    let user = verdict(&recording, "slow", "user");
    assert_eq!(user["verdict"], "worse", "{user}");
    assert!(user["ratio"].as_f64().unwrap() > 3.0, "{user}");
    assert_eq!(user["pairs"], 6);
    let wall = verdict(&recording, "slow", "wall");
    assert!(wall["noise"].is_array(), "the copy ran along: {wall}");
}

#[test]
fn programs_that_nothing_reaches_get_reason_and_remedy() {
    let shop = Workshop::new();
    let source = "#include <stdlib.h>\nint main(void) { for (volatile long i = 0; i < 1000000000; \
                  i++) {} return !malloc(10); }\n";
    let fixed = shop.compile("fixed", source, &["-static"]);
    let go = format!("__attribute__((section(\".go.buildinfo\"))) char info[] = \"go\";\n{source}");
    let go = shop.compile("go", &go, &["-static"]);
    let own = "#include <stddef.h>\nstatic char heap[64];\n\
               void *malloc(size_t n) { return n < 64 ? heap : NULL; }\n\
               int main(void) { return !malloc(10); }\n";
    let own = shop.compile("own", own, &["-rdynamic"]);
    let refused = |program: &Path, why: &str, remedy: &str| {
        let text = format!("no verdict: {} {why}", program.display());
        let mut command = compare(&["--allocators=glibc", "--"]);
        let refusal = command.arg(program).assert().code(1).stdout(starts_with(text));
        refusal.stdout(contains(format!("\nwhat would help: {remedy}")));
    };
    refused(&fixed, "is statically linked: no library can be preloaded", "link it dynamically");
    refused(&go, "is a Go program: its runtime allocates without malloc", "nothing outside it");
    refused(&own, "defines malloc itself", "relink it without an allocator of its own");
    let inside = "#include <stddef.h>\nstatic char heap[64];\n\
                  __attribute__((noinline)) void *mi_malloc(size_t n) { return heap + n % 64; }\n\
                  int main(void) { for (volatile long i = 0; i < 1000000000; i++) {}\n\
                  return !mi_malloc(10); }\n";
    let inside = shop.compile("inside", inside, &["-O0"]);
    compare(&["--allocators=glibc", "--"])
        .arg(&inside)
        .assert()
        .code(1)
        .stdout(contains(": it carries mimalloc inside"))
        .stdout(contains("what would help: relink it without mimalloc"));
    // Only running a shell shows which program it starts.
    compare(&["--allocators=glibc", "--", "sh", "-c"])
        .arg(format!("{}; true", fixed.display()))
        .assert()
        .code(1)
        .stdout(contains(format!("no verdict: {} is statically linked", fixed.display())));
    compare(&["--allocators=glibc", "--", "true"])
        .assert()
        .code(1)
        .stdout(contains("true asked for memory "))
        .stdout(contains("what would help: a workload that allocates more"));
}

#[test]
fn a_set_user_id_program_gets_reason_and_remedy() {
    let shop = Workshop::new();
    let program = shop.compile("setuid", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    // Only root may give a file to another user; without that there is nothing to test.
    match chown(&program, Some(65534), None) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return,
        result => result.unwrap(),
    }
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    compare(&["--allocators=glibc", "--"])
        .arg(&program)
        .assert()
        .code(1)
        .stdout(contains("is set-user-ID or set-group-ID"))
        .stdout(contains("what would help: compare a copy of it that gains no privileges"));
}

fn python() -> Option<PathBuf> {
    // The first `python3` in PATH may be a script that starts another one.
    let found = Some(PathBuf::from("/usr/bin/python3")).filter(|path| path.exists());
    if found.is_none() {
        println!("skipped: no /usr/bin/python3");
    }
    found
}

#[test]
fn python_serves_itself_until_it_is_told_not_to() {
    let Some(python) = python() else { return };
    let script = "x = 0\nfor i in range(1500000): x = x + i * i\nprint(x)";
    compare(&["--runs=1", "--allocators=glibc", "--"])
        .arg(&python)
        .args(["-S", "-c", script])
        .assert()
        .code(1)
        .stdout(contains(": Python serves its small objects itself"))
        .stdout(contains("what would help: set PYTHONMALLOC=malloc"));
    compare(&["--runs=1", "--allocators=glibc", "--"])
        .env("PYTHONMALLOC", "malloc")
        .arg(&python)
        .args(["-S", "-c", script])
        .assert()
        .success()
        .stdout(contains("Medians:"));
}

#[test]
fn glibc_is_measured_where_the_program_links_another_malloc() {
    let shop = Workshop::new();
    let source = allocator_that_spins(1);
    let other = shop.compile("libother.so", &source, &["-shared", "-fPIC"]);
    let folder = other.parent().unwrap().display().to_string();
    let options = [format!("-L{folder}"), format!("-Wl,-rpath,{folder}")];
    let options =
        [&options[0], &options[1], "-Wl,--no-as-needed", "-lother", "-O0", LITTLE[0], LITTLE[1]];
    // The library stands before the source here, so `--no-as-needed` must keep it in the program.
    let program = shop.compile("linked", ALLOCATES, &options);
    compare(&["--runs=1", "--allocators=glibc", "--"])
        .arg(&program)
        .assert()
        .success()
        .stdout(contains("* glibc: the C library's own; 1 run served by "))
        .stdout(contains("libc.so.6\n"));
}

#[test]
fn figures_that_the_program_prints_are_compared() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    let (input, file) = (shop.path("input"), shop.path("run.json"));
    fs::write(&input, "x".repeat(10_000)).unwrap();
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_quarry"))
        .args(["compare", "--allocators=glibc", "--target-ci=1%", "--max-runs=20"])
        .args(["--metric", r"higher:(?<speed>[\d,.]+) units", "--metric", r"read (\d+) bytes"])
        .arg("--json")
        .arg(&file)
        .arg("--")
        .arg(&program)
        .stdin(File::open(&input).unwrap())
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(
        text.contains("speed (higher is better)") && text.contains(r"read (\d+) bytes"),
        "{text}"
    );
    let recording = json(&file);
    let samples = recording["samples"].as_array().unwrap();
    for sample in samples {
        let figures = &sample["measurement"]["figures"];
        assert_eq!(figures["speed"], 1250.5, "the last match: {sample}");
        assert_eq!(
            figures[r"read (\d+) bytes"], 10_000.0,
            "each run reads the file anew: {sample}"
        );
    }
    // The figure has no noise: the interval is narrow as soon as there are runs enough for one.
    assert_eq!(samples.len(), (6 + 1) * 2, "{text}");
    let speed = verdict(&recording, "glibc A/A", "speed");
    assert_eq!((&speed["verdict"], &speed["interval"]), (&"same".into(), &vec![1.0, 1.0].into()));
}

/// Such a figure can be neither better nor worse, so the verdict is on the time.
#[test]
fn a_figure_without_direction_is_shown_and_not_judged() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    let slow = shared_object(&shop, "slow", &allocator_that_spins(5000));
    compare(&["--runs=6", "--metric", r"done: (?<did>[\d,.]+) units"])
        .arg(format!("--allocators=glibc,{slow}"))
        .arg("--")
        .arg(&program)
        .assert()
        .success()
        .stdout(contains("| did (no direction given) "))
        .stdout(predicate::str::is_match("noise floor: .* % in cpu\n").unwrap())
        .stdout(contains(
            "In short: no other is better than glibc in cpu or in peak RSS; slow has",
        ));
}

#[test]
fn a_target_out_of_reach_ends_at_the_cap() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    compare(&["--allocators=glibc", "--target-ci=0.000001%", "--max-runs=7", "--"])
        .arg(&program)
        .assert()
        .success()
        .stdout(contains("7 rounds (until every interval is within "))
        .stdout(contains("at most 7) in shuffled order"));
}

#[test]
fn a_figure_that_is_not_printed_is_a_failure() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    let knots = ["--runs=3", "--allocators=glibc", "--metric", "(?<speed>[0-9]+) knots"];
    // The first run already shows that the figure is missing, so there is no second run.
    let count = shop.path("count");
    let script = "echo x >> \"$COUNT\"; \"$0\"";
    for verb in ["compare", "advise"] {
        let _ = fs::remove_file(&count);
        let mut command = quarry();
        command.args([verb, "--metric", "higher:(?<speed>[0-9]+) knots", "--", "sh", "-c", script]);
        let assert = command.arg(&program).env("COUNT", &count).assert().code(1);
        assert.stderr(
            "quarry: --metric '(?<speed>[0-9]+) knots' finds no number in what the program \
             printed; the end of that: \"warming up: 7 units\", \"read 0 bytes\", \"done: 1,250.5 \
             units\"\n",
        );
        assert_eq!(fs::read_to_string(&count).unwrap(), "x\n", "{verb}");
    }
    compare(&knots).args(["--", "true"]).assert().code(1).stderr(
        "quarry: --metric '(?<speed>[0-9]+) knots' finds no number in what the program printed; \
         the end of that: nothing\n",
    );
    // This program prints the figure only while its calls of malloc are counted.
    let moody = ALLOCATES.replace(
        "    printf(",
        "    if (strstr(getenv(\"LD_PRELOAD\"), \"counter\")) puts(\"5 knots\");\n    printf(",
    );
    let moody = shop.compile("moody", &moody, &["-O0", LITTLE[0], LITTLE[1]]);
    compare(&knots)
        .arg("--")
        .arg(&moody)
        .assert()
        .code(1)
        .stdout(contains("No round was completed."))
        .stdout(contains("glibc: 1 of 1 run failed, warm-up included: "))
        .stdout(contains("--metric '(?<speed>[0-9]+) knots' finds no number in what the program "));
}

#[test]
fn failures_are_reported_and_never_averaged_away() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    // An allocator that fails after a hundred blocks, in every run but the first.
    let source = "#include <stddef.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
                  #include <fcntl.h>\nvoid *__libc_malloc(size_t); static int calls, broken;\n\
                  void *malloc(size_t n) {\n\
                  if (++calls == 1 && getenv(\"MARK\"))\n\
                  broken = open(getenv(\"MARK\"), O_CREAT | O_EXCL, 0600) < 0;\n\
                  if (broken && calls > 100) { write(2, \"heap lost\\n\", 10); abort(); }\n\
                  return __libc_malloc(n); }\n";
    let breaks = shared_object(&shop, "breaks", source);
    compare(&["--runs=3", &format!("--allocators=glibc,{breaks}"), "--"])
        .env("MARK", shop.path("mark"))
        .arg(&program)
        .assert()
        .code(1)
        .stdout(predicate::str::is_match(r"\| breaks    \| 3 of 3 failed \| +- \|").unwrap())
        .stdout(contains(
            "breaks: 3 of 4 runs failed, warm-up included: ended by signal 6: heap lost",
        ))
        .stdout(predicate::str::is_match(r"\| breaks +\| +failed \|").unwrap());
    compare(&["--runs=3", "--allocators=glibc", "--", "sh", "-c", "echo bad luck >&2; exit 3"])
        .assert()
        .code(1)
        .stdout(contains("No round was completed."))
        .stdout(contains("\n-i (--ignore-failure) counts runs whatever their exit status is\n"))
        .stdout(contains("1 of 1 run failed, warm-up included: exit status 3: bad luck\n"));
}

#[test]
fn outputs_that_differ_are_shown() {
    let shop = Workshop::new();
    let source = ALLOCATES.replace("\"warming", "\"process %d, warming").replace("bytes);", "0);");
    let source = source.replace("units\\n\", ", "units\\n\", getpid(), ");
    let program = shop.compile("differs", &source, &["-O0", LITTLE[0], LITTLE[1]]);
    compare(&["--runs=1", "--allocators=glibc", "--check-output", "--"])
        .arg(&program)
        .assert()
        .code(1)
        .stdout(contains("rounds").not())
        .stderr(contains(
            "--check-output: two runs on glibc print different things (line 1: \"proc",
        ))
        .stderr(contains("leave --check-output out, or let the program print the same each time"));
    compare(&["--runs=1", "--allocators=glibc", "--"]).arg(&program).assert().success();
    // It prints the same on glibc, and something else on another allocator.
    let wrong = "#include <stddef.h>\n#include <unistd.h>\nvoid *__libc_malloc(size_t);\n\
                 static int told; void *malloc(size_t n) {\n\
                 if (!told++ && write(1, \"hello\\n\", 6) < 0) return NULL;\n\
                 return __libc_malloc(n); }\n";
    let wrong = shared_object(&shop, "wrong", wrong);
    let steady = shop.compile("steady", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    compare(&["--runs=1", "--check-output", &format!("--allocators=glibc,{wrong}"), "--"])
        .arg(&steady)
        .assert()
        .code(1)
        .stdout(contains("wrong: 1 of 2 runs failed").or(contains("wrong: 2 of 2 runs failed")))
        .stdout(contains("printed something else than on glibc: line 1: \"hello\" instead of"));
}

#[test]
fn a_run_that_takes_too_long_is_ended_with_all_its_processes() {
    let shop = Workshop::new();
    let pids = shop.path("pids");
    let script = "sleep 600 & echo $! >> \"$PIDS\"; echo $$ >> \"$PIDS\"; wait";
    compare(&["--runs=3", "--allocators=glibc", "--timeout=1s", "--", "sh", "-c", script])
        .env("PIDS", &pids)
        .assert()
        .code(1)
        .stdout(contains("1 of 1 run failed, warm-up included: not done after 1 s (--timeout)"));
    expect_gone(&pids);
}

/// Checks that the processes whose numbers a file lists have ended.
fn expect_gone(pids: &Path) {
    let text = fs::read_to_string(pids).unwrap();
    assert!(text.lines().count() >= 2, "{text}");
    for pid in text.lines() {
        assert!(!Path::new("/proc").join(pid).exists(), "process {pid} still runs");
    }
}

#[test]
fn what_lives_on_is_watched_while_idle_and_ended() {
    let shop = Workshop::new();
    let pids = shop.path("pids");
    let server = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
                  int main(void) { for (int i = 0; i < 20000; i++) memset(malloc(400), 1, 400);\n\
                  pause(); }\n";
    let server = shop.compile("server", server, &["-O0"]);
    let file = shop.path("run.json");
    compare(&["--runs=1", "--allocators=glibc", "--json"])
        .env("PIDS", &pids)
        .arg(&file)
        .args(["--", "sh", "-c"])
        .arg(format!("{} & echo $! >> \"$PIDS\"", server.display()))
        .assert()
        .success()
        .stdout(contains("| idle RSS, MiB |"));
    for sample in json(&file)["samples"].as_array().unwrap() {
        let counter = |name: &str| sample["measurement"]["counters"][name].as_u64().unwrap();
        assert!(counter("idle_bytes") > 8_000_000, "{sample}");
        assert_eq!(counter("left_running"), 1, "{sample}");
        let readings = sample["timeline"]["readings"].as_array().unwrap();
        assert!(readings.len() > 5, "{sample}");
        let watched = readings.last().unwrap()["ms"].as_f64().unwrap();
        let wall = sample["measurement"]["wall_ns"].as_f64().unwrap() / 1e6;
        assert!(watched - wall > 1900.0, "two seconds after the program's end: {sample}");
    }
    expect_gone(&pids);
}

#[test]
fn an_interruption_prints_what_there_is_and_leaves_nothing_behind() {
    let shop = Workshop::new();
    let (fifo, count) = (shop.path("fifo"), shop.path("count"));
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // The program hangs in its fifth marked run: the warm-up round and the first round have two
    // each. The earlier runs under the counter leave no mark, because their number varies.
    let source = ALLOCATES.replace(
        "    printf(",
        "    FILE *count = fopen(getenv(\"COUNT\"), \"a\");\n\
         const char *preloaded = getenv(\"LD_PRELOAD\");\n\
         if (!preloaded || !strstr(preloaded, \"counter\")) fputc('x', count);\n\
         if (ftell(count) > 4) {\n\
         fclose(count);\n\
         FILE *fifo = fopen(getenv(\"FIFO\"), \"w\");\n\
         fprintf(fifo, \"%d\", getpid()); fclose(fifo);\n\
         pause();\n\
         }\n    printf(",
    );
    let program = shop.compile("hangs", &source, &["-O0", LITTLE[0], LITTLE[1]]);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_quarry"));
    command.args(["compare", "--runs=9", "--allocators=glibc", "--"]).arg(&program);
    command.env("FIFO", &fifo).env("COUNT", &count).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut hanging = String::new();
    File::open(&fifo).unwrap().read_to_string(&mut hanging).unwrap();
    let interrupt = ["-INT", &child.id().to_string()];
    assert!(std::process::Command::new("kill").args(interrupt).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(text.contains("1 round of 9 in shuffled order"), "{text}");
    assert!(text.contains("| glibc A/A |    1 |"), "{text}");
    assert!(!text.contains("failed") && !text.contains("interrupted"), "{text}");
    assert!(!Path::new("/proc").join(&hanging).exists(), "process {hanging} still runs");
}

#[test]
fn not_even_a_kill_leaves_a_program_behind() {
    let shop = Workshop::new();
    let fifo = shop.path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // The shell and what it starts hold the other end of the FIFO until they end.
    let script = "exec 3> \"$FIFO\"; sleep 600 & echo $$ >&3; wait";
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_quarry"));
    command.args(["compare", "--allocators=glibc", "--", "sh", "-c", script]).env("FIFO", &fifo);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(File::open(&fifo).unwrap());
    let mut pid = String::new();
    lines.read_line(&mut pid).unwrap();
    assert!(Path::new("/proc").join(pid.trim()).exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "the FIFO ends when the last of them has ended");
}

#[test]
fn bad_requests_say_what_is_accepted() {
    let refused = |options: &[&str], code: i32, message: &str| {
        let mut command = compare(options);
        command.args(["--", "ls"]).assert().code(code).stderr(contains(message));
    };
    refused(&["--allocators=jemaloc"], 2, "no allocator jemaloc; did you mean jemalloc");
    refused(&["--allocators=quarry:THP=2"], 2, "THP=2: bad value; accepted: 0 or 1");
    refused(&["--allocators=quarry:SPEED=9"], 2, "SPEED: no such option; accepted: STATS, ");
    refused(&["--allocators=glibc,glibc"], 2, "glibc is named twice");
    refused(&["--allocators=glibc", "--baseline=glib"], 2, "did you mean glibc? accepted: glibc");
    refused(&["--metric=(a"], 2, "--metric (a: unclosed group; accepted: one capture group");
    refused(&["--metric=a"], 2, "0 capture groups; accepted: one, around the number");
    refused(&["--target-ci=fast"], 2, "accepted: a percentage above 0");
    refused(&["--timeout=soon"], 2, "accepted: a number with its unit");
    refused(&["--runs=0"], 2, "0 is not in 1..=");
    refused(&["--runs=3", "--target-ci=1%"], 2, "cannot be used with");
    refused(&["--allocators=x=/no/such.so"], 2, "x=/no/such.so: No such file");
    refused(&["--allocators=x=/no/such.so,glibc"], 2, "accepted: NAME=FILE with a shared object");
    refused(&["--allocators=x=/etc/passwd,glibc"], 2, "not a shared object of this machine");
    refused(&["--allocators=glibc,hoard"], 1, "glibc is the only one of 2 that is there: hoard: ");
    refused(&["--input=/no/such"], 2, "--input /no/such: No such file");
    refused(&["--input=/"], 2, "--input /: a directory; accepted: a file that can be read");
    refused(
        &["--metric=faults"],
        2,
        "no metric to decide by, --metric faults; accepted: wall, cpu",
    );
    refused(&["--metric=p99"], 2, "a quantile of no file; accepted with --latencies FILE");
    refused(&["--metric=cpu", "--metric=wall"], 2, "only one decides; accepted: one name");
    refused(&["--idle-for=1h"], 2, "--idle-for 3600 s: accepted: less than --timeout (600 s)");
    compare(&["--", "no-such-command"]).assert().code(127).stderr(contains("command not found"));
}

#[test]
fn absent_allocators_are_named_with_what_to_do() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    let own = shared_object(&shop, "own", &allocator_that_spins(1));
    compare(&["--runs=1", &format!("--allocators=glibc,{own},hoard"), "--"])
        .arg(&program)
        .assert()
        .success()
        .stdout(contains("absent: hoard: not installed, and Debian has no package of it; give "));
    compare(&["--runs=1", "--allocators=glibc,quarry", "--"])
        .env("QUARRY_LIBRARY", "/no/such/libquarry.so")
        .arg(&program)
        .assert()
        .code(2)
        .stdout(predicate::str::is_empty())
        .stderr(starts_with("quarry: QUARRY_LIBRARY=/no/such/libquarry.so: No such file"));
}

/// A run leaves a mark, so the test would see a refusal that comes too late.
#[test]
fn files_that_cannot_be_written_are_refused_before_anything_runs() {
    let shop = Workshop::new();
    let (mark, used) = (shop.path("mark"), shop.path("used"));
    fs::create_dir(&used).unwrap();
    fs::write(used.join("file"), "of another user").unwrap();
    let used = used.display().to_string();
    for (option, place, why) in [
        ("--json", "/no/such/folder/x.json", "No such file"),
        ("--json", "/", "accepted: a file that can be written"),
        ("--html", "/no/such/folder/x.html", "No such file"),
        ("--html", "/dev/full", "there already; never replaced; accepted: a new file"),
        ("--out", "/proc/no/such", "accepted: a directory that can be written"),
        ("--out", &used, "accepted: a new or an empty directory"),
    ] {
        let mut command = compare(&["--runs=1", "--allocators=glibc", option, place]);
        command.args(["--", "touch"]).arg(&mark);
        let refusal = command.assert().code(2).stdout(predicate::str::is_empty());
        let refusal = refusal.stderr(starts_with(format!("quarry: {option} {place}: ")));
        refusal.stderr(contains(why));
        assert!(!mark.exists(), "it ran before {option} {place} was refused");
    }
    assert_eq!(fs::read_dir(&used).unwrap().count(), 1);
}

/// An old file is kept if nothing is written in the end.
#[test]
fn a_file_is_replaced_by_results_alone() {
    let shop = Workshop::new();
    let (old, new) = (shop.path("old.json"), shop.path("new.json"));
    fs::write(&old, "what was there").unwrap();
    for file in [&old, &new] {
        compare(&["--allocators=glibc", "--json"]).arg(file).args(["--", "true"]).assert().code(1);
    }
    assert_eq!(fs::read_to_string(&old).unwrap(), "what was there");
    assert!(!new.exists(), "nothing was measured");
}

#[test]
fn a_full_disk_is_told() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    compare(&["--runs=1", "--allocators=glibc", "--json=/dev/full", "--"])
        .arg(&program)
        .assert()
        .code(1)
        .stderr(starts_with("quarry: --json /dev/full: No space left on device"));
}

/// Bytes that each run has read, the warm-up included.
fn bytes_read(recording: &Value) -> Vec<f64> {
    let samples = recording["samples"].as_array().unwrap().iter();
    samples.map(|it| it["measurement"]["figures"][r"read (\d+) bytes"].as_f64().unwrap()).collect()
}

/// The first run used to empty standard input; the others measured a program without work.
#[test]
fn every_run_reads_what_the_first_one_read() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    let (input, file) = (shop.path("input"), shop.path("run.json"));
    fs::write(&input, "x".repeat(300_000)).unwrap();
    let command = |options: &str| {
        format!(
            "{} compare --runs=2 --allocators=glibc --metric 'read (\\d+) bytes' --json {} \
             {options} -- {}",
            env!("CARGO_BIN_EXE_quarry"),
            file.display(),
            program.display()
        )
    };
    let file_of = input.display().to_string();
    for (script, bytes) in [
        (format!("cat {file_of} | {}", command("")), 300_000.0),
        // A named pipe, as in process substitution.
        (format!("cat {file_of} | {}", command("--input /dev/stdin")), 300_000.0),
        (format!("{} < {file_of}", command("")), 300_000.0),
        (format!("true | {}", command(&format!("--input {file_of}"))), 300_000.0),
        (format!("exec 9< {file_of}; rm {file_of}; {} <&9", command("")), 300_000.0),
        (format!("{} < /dev/null", command("")), 0.0),
    ] {
        let status = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(status.status.success(), "{script}: {status:?}");
        let read = bytes_read(&json(&file));
        assert_eq!(read, [bytes; 6], "{script}");
        assert_eq!(String::from_utf8_lossy(&status.stderr), "", "{script}");
    }
}

#[test]
fn a_setting_is_part_of_the_contender() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    let file = shop.path("run.json");
    compare(&["--runs=1", "--allocators=glibc,glibc:MALLOC_PERTURB_=7", "--json"])
        .arg(&file)
        .arg("--")
        .arg(&program)
        .assert()
        .success()
        .stdout(contains("| glibc:MALLOC_PERTURB_=7 |"))
        .stdout(contains("the C library's own, MALLOC_PERTURB_=7"));
    assert_eq!(json(&file)["meta"]["variants"][1]["name"], "glibc:MALLOC_PERTURB_=7");
}

#[test]
fn quarry_counts_what_it_serves() {
    let Some(library) = real_library() else { return };
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    let file = shop.path("run.json");
    compare(&["--runs=1", "--allocators=quarry,quarry:THP=0", "--json"])
        .arg(&file)
        .env("QUARRY_LIBRARY", library)
        .arg("--")
        .arg(&program)
        .assert()
        .success()
        .stdout(contains("| quarry:THP=0 |"))
        .stdout(contains("libquarry.so; by its own count 2"));
    let recording = json(&file);
    assert_eq!(recording["meta"]["baseline"], "quarry", "the first, where glibc is not compared");
    for sample in recording["samples"].as_array().unwrap() {
        let own = &sample["measurement"]["counters"]["quarry_allocations"];
        let in_warm_up = sample["round"] == 0;
        assert_eq!(own.as_u64().is_some_and(|own| own >= 20_000), in_warm_up, "{sample}");
    }
}

/// Quarry's statistics once counted 3 of 80 requests of 20 MiB.
#[test]
fn quarry_counts_large_requests_as_well() {
    let Some(library) = real_library() else { return };
    let shop = Workshop::new();
    let source = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 80; i++) {\n\
                  volatile char *p = malloc(20 << 20); *p = 1; free((void *)p); } }\n";
    let program = shop.compile("large", source, &["-O0"]);
    let file = shop.path("run.json");
    compare(&["--runs=1", "--allocators=quarry", "--json"])
        .arg(&file)
        .env("QUARRY_LIBRARY", library)
        .arg("--")
        .arg(&program)
        .assert()
        .success();
    let recording = json(&file);
    let asked = recording["probe"]["allocations"].as_u64().unwrap();
    let mut warm_up = recording["samples"].as_array().unwrap().iter();
    let warm_up = warm_up.find(|sample| sample["round"] == 0).unwrap();
    let counted = &warm_up["measurement"]["counters"]["quarry_allocations"];
    let counted = counted.as_u64().unwrap();
    assert!(counted >= 80 && counted.abs_diff(asked) < 20, "{counted} of {asked}");
}
