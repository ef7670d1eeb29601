//! `quarry advise`: the answer, and the evidence for it.

use crate::aged;
use crate::compare::{ALLOCATES, LITTLE, allocator_that_spins, json, shared_object};
use crate::fields::expect_page;
use crate::support::{Workshop, quarry, real_library};
use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::{contains, starts_with};

/// Keeps 80 MB, of which it touches every page.
const KEEPS: &str = "#include <stdlib.h>\n#include <string.h>\n\
                     int main(void) { for (int i = 0; i < 20000; i++)\n\
                     memset(malloc(4000), 1, 4000); return 0; }\n";

/// Gives every block of 4000 bytes the same place, which [`KEEPS`] does not notice.
const THRIFTY: &str = "#include <stddef.h>\nvoid *__libc_malloc(size_t); static char place[4000];\n\
                       void *malloc(size_t n) {\n\
                       return n == 4000 ? place : __libc_malloc(n); }\n";

fn advise(options: &[&str]) -> Command {
    let mut command = quarry();
    command.env_remove("PYTHONMALLOC").args(["advise", "--seed=7"]).args(options);
    command
}

#[test]
fn a_planted_good_allocator_is_to_be_used_and_its_evidence_is_there() {
    let shop = Workshop::new();
    let program = shop.compile("keeps", KEEPS, &["-O0"]);
    let thrifty = shared_object(&shop, "thrifty", THRIFTY);
    let spins = shared_object(&shop, "spins", &allocator_that_spins(2000));
    let (file, page) = (shop.path("advice.json"), shop.path("advice.html"));
    advise(&["--goal=memory", &format!("--allocators={spins},{thrifty},hoard"), "--json"])
        .arg(&file)
        .arg("--html")
        .arg(&page)
        .arg("--")
        .arg(&program)
        .assert()
        .success()
        .stdout(starts_with("use thrifty: 9"))
        .stdout(contains(" % less peak memory, "))
        .stdout(contains("\nThe test: thrifty beside glibc, "))
        .stdout(contains("\nabsent: hoard: not installed"))
        .stdout(contains(" MiB were never freed, which no allocator changes"))
        .stdout(contains("systemctl edit NAME.service"))
        .stdout(contains("COPY libthrifty.so /usr/local/lib/\n"))
        .stdout(contains("ENV LD_PRELOAD=/usr/local/lib/libthrifty.so\n"))
        .stdout(contains("- name: LD_PRELOAD\n"));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("use thrifty: 9") && page.contains("<svg"), "the answer and pictures");
    let advice = json(&file);
    assert_eq!(advice["schema"], "quarry-advice/1");
    assert_eq!((&advice["answer"], &advice["use"]), (&"use".into(), &"thrifty".into()));
    assert!(advice["sentence"].as_str().unwrap().starts_with("use thrifty: 9"));
    let evidence = &advice["evidence"];
    let verdicts = evidence["verdicts"].as_array().unwrap();
    let memory = verdicts.iter().find(|it| it["metric"] == "peak RSS").unwrap();
    assert_eq!(memory["verdict"], "better", "{memory}");
    assert!(memory["interval"][1].as_f64().unwrap() < 0.1, "{memory}");
    let variants = evidence["meta"]["variants"].as_array().unwrap();
    let names: Vec<_> = variants.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["glibc", "thrifty", "glibc A/A"], "nothing else took part in the test");
    let samples = evidence["samples"].as_array().unwrap();
    assert!(samples.len() >= 6 * 3 && samples.iter().all(|it| it["round"] != 0));
    let looked = advice["first_look"]["candidates"].as_array().unwrap();
    assert_eq!(looked.len(), 2, "{}", advice["first_look"]);
    assert!(advice["spent_s"].as_f64().unwrap() < 300.0);
    expect_page(&advice, "advise.md", "quarry-advice/1");
}

#[test]
fn a_planted_slow_allocator_leaves_glibc_in_its_place() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    let slow = shared_object(&shop, "slow", &allocator_that_spins(5000));
    let page = shop.path("advice.html");
    let assert = advise(&["--goal=time", &format!("--allocators={slow}"), "--html"])
        .arg(&page)
        .arg("--")
        .arg(&program)
        .assert()
        .success()
        .stdout(starts_with("keep glibc: slow is no better: "))
        .stdout(contains("% more time"))
        .stdout(contains("systemd").not());
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    let answer = text.lines().next().unwrap();
    let page = std::fs::read_to_string(page).unwrap();
    for place in [": ANSWER</title>", "<p class=\"verdict\">ANSWER.</p>", ": ANSWER**\n"] {
        assert!(page.contains(&place.replace("ANSWER", answer)), "{place}: {answer}");
    }
}

#[test]
fn an_allocator_that_breaks_the_program_is_not_advised() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    let breaks = "#include <stdlib.h>\nvoid *__libc_malloc(size_t); static int calls;\n\
                  void *malloc(size_t n) {\n\
                  if (++calls > 100) abort(); return __libc_malloc(n); }\n";
    let breaks = shared_object(&shop, "breaks", breaks);
    advise(&[&format!("--allocators={breaks}"), "--"]).arg(&program).assert().code(1).stdout(
        starts_with(
            "undecided, so keep glibc for now: every candidate failed, such as by: ended by signal",
        ),
    );
    advise(&[&format!("--allocators={breaks}"), "--", "sh", "-c", "echo no >&2; exit 3"])
        .assert()
        .code(1)
        .stderr(contains("it fails on glibc: exit status 3: no"));
}

#[test]
fn where_no_allocator_matters_the_reason_is_the_answer() {
    let shop = Workshop::new();
    let source = "#include <stdlib.h>\nint main(void) { return !malloc(10); }\n";
    let fixed = shop.compile("fixed", source, &["-static"]);
    advise(&["--"])
        .arg(&fixed)
        .assert()
        .success()
        .stdout(starts_with("keep what it has: no other allocator would make a difference, as "))
        .stdout(contains("is statically linked"));
    advise(&["--", "true"])
        .assert()
        .success()
        .stdout(starts_with("keep glibc: no other allocator would make a difference, as "))
        .stdout(contains("asked for memory"));
}

/// `sleep` spends much of its little CPU time in malloc, but hardly any of the second it takes.
#[test]
fn a_program_that_waits_is_refused_at_once() {
    advise(&["--", "sleep", "1"])
        .assert()
        .success()
        .stdout(starts_with("keep glibc: no other allocator would make a difference, as "))
        .stdout(contains("waits for most of its 1."));
}

#[test]
fn who_asked_for_what_is_never_freed_is_named() {
    let Some(library) = real_library() else { return };
    let shop = Workshop::new();
    let program = shop.compile("keeps", KEEPS, &["-O0", "-g"]);
    let spins = shared_object(&shop, "spins", &allocator_that_spins(2000));
    advise(&["--goal=memory", "--budget=60s", &format!("--allocators={spins}"), "--"])
        .arg(&program)
        .env("QUARRY_LIBRARY", library)
        .assert()
        .stdout(contains(" MiB in use: main  ").and(contains("keeps.c:4")));
}

/// If the program links another allocator, the answer is to keep that one.
#[test]
fn what_a_program_links_is_the_baseline() {
    let shop = Workshop::new();
    let source = "#include <stddef.h>\nvoid *__libc_malloc(size_t);\n\
                  void *malloc(size_t n) { return __libc_malloc(n); }\n";
    let other = shop.compile("libother.so", source, &["-shared", "-fPIC"]);
    let folder = other.parent().unwrap().display().to_string();
    let options = [format!("-L{folder}"), format!("-Wl,-rpath,{folder}")];
    let options =
        [&options[0], &options[1], "-Wl,--no-as-needed", "-lother", "-O0", LITTLE[0], LITTLE[1]];
    let program = shop.compile("linked", ALLOCATES, &options);
    let slow = shared_object(&shop, "slow", &allocator_that_spins(5000));
    let file = shop.path("advice.json");
    advise(&["--goal=time", &format!("--allocators={slow}"), "--json"])
        .arg(&file)
        .arg("--")
        .arg(&program)
        .assert()
        .stdout(
            contains(" keep libother.so")
                .or(starts_with("keep libother.so"))
                .or(starts_with("use glibc")),
        )
        .stdout(contains(format!("It links {}, so", other.display())));
    let advice = json(&file);
    assert_eq!(advice["baseline"], "libother.so");
    let looked = advice["first_look"]["candidates"].as_array().unwrap();
    assert!(looked.iter().any(|it| it["candidate"] == "glibc"), "{}", advice["first_look"]);
}

#[test]
fn a_run_that_is_too_long_is_undecided() {
    advise(&["--budget=1s", "--", "sleep", "600"]).assert().code(1).stdout(
        starts_with("undecided, so keep what it has for now: a run is not done after 5 s")
            .and(contains(", too long for a test within 1 s; ")),
    );
}

#[test]
fn bad_requests_say_what_is_accepted() {
    let shop = Workshop::new();
    let program = shop.compile("keeps", KEEPS, &["-O0"]);
    let refused = |options: &[&str], code: i32, message: &str| {
        let mut command = advise(options);
        command.arg("--").arg(&program).assert().code(code).stderr(contains(message));
    };
    refused(&["--allocators=jemaloc"], 2, "did you mean jemalloc");
    refused(&["--allocators=glibc"], 2, "--allocators: accepted: at least one beside glibc");
    refused(&["--metric=(a)"], 2, "--metric (a): no direction; accepted: 'higher:' or 'lower:'");
    refused(&["--budget=soon"], 2, "accepted: a number with its unit");
    refused(&["--goal=speed"], 2, ": accepted: either, time, memory");
    refused(&["--json=/no/such/folder/x"], 2, "--json /no/such/folder/x: No such file");
    advise(&["--", "no-such-command"]).assert().code(127).stderr(contains("command not found"));
}

#[test]
fn advice_is_for_aged_heaps_and_says_what_fresh_ones_would_have_told() {
    let shop = Workshop::new();
    let program = shop.compile("keeps", aged::KEEPS, &["-O1"]);
    let tired = shared_object(&shop, "tired", aged::BEST_FIT);
    let file = shop.path("advice.json");
    let mut command = quarry();
    command.args(["advise", "--seed=7", "--aged", "--budget=4m", "--goal=time", "--metric=cpu"]);
    command.arg(format!("--allocators={tired}")).arg("--json").arg(&file).arg("--").arg(&program);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let [first, second] = [lines.next().unwrap(), lines.next().unwrap()];
    assert!(first.starts_with("on an aged heap: keep glibc: tired is no better: "), "{text}");
    assert!(second.starts_with("on a fresh heap: "), "{text}");
    let advice = json(&file);
    assert_eq!(advice["answer"], "keep");
    assert_eq!(advice["fresh"]["schema"], "quarry-advice/1");
}
