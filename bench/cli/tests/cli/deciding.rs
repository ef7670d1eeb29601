//! The decisions of `quarry compare`: scans, exports, conditions for continuous
//! integration, and the sentence at the end.

use crate::compare::{ALLOCATES, LITTLE, compare, json, shared_object};
use crate::support::Workshop;
use predicates::prelude::*;
use predicates::str::contains;
use std::fs;
use std::path::PathBuf;

fn allocates(shop: &Workshop) -> PathBuf {
    shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]])
}

/// An allocator that calls glibc's functions, and touches 64 MiB at the first call.
const FAT: &str = "#include <stddef.h>\n#include <string.h>\nvoid *__libc_malloc(size_t);\n\
                   static char fat[64 << 20], is_fat;\n\
                   void *malloc(size_t n) {\n\
                   if (!is_fat) { is_fat = 1; memset(fat, 1, sizeof fat); }\n\
                   return __libc_malloc(n); }\n";

#[test]
fn the_last_line_is_a_sentence_and_short_times_are_milliseconds() {
    let shop = Workshop::new();
    let (program, file) = (allocates(&shop), shop.path("run.json"));
    let fat = shared_object(&shop, "fat", FAT);
    compare(&["--runs=2", &format!("--allocators=glibc,{fat}"), "--json"])
        .arg(&file)
        .arg("--")
        .arg(&program)
        .assert()
        .success()
        .stdout(contains("| wall, ms |"))
        .stdout(contains("an interval takes 6 runs at least (--runs 6)"))
        .stdout(contains("would settle it (--runs").not())
        .stdout(contains("\nIn short: no intervals with 2 runs, so nothing is decided; --runs 6"));
    let recording = json(&file);
    let wall = &recording["meta"]["metrics"][0];
    assert_eq!((&wall["name"], &wall["unit"]), (&"wall".into(), &"s".into()), "as it was");
    let said = recording["conclusion"][0].as_str().unwrap();
    assert!(said.starts_with("In short: no intervals with 2 runs"), "{said}");
}

#[test]
fn a_condition_is_judged_by_its_interval_and_has_a_status_of_its_own() {
    let shop = Workshop::new();
    let program = allocates(&shop);
    let fat = shared_object(&shop, "fat", FAT);
    let both = format!("--allocators=glibc,{fat}");
    let run = |options: &[&str], allocators: &str| {
        let mut command = compare(&[allocators]);
        command.args(options).arg("--").arg(&program).assert()
    };
    run(&["--runs=6", "--fail-if", "peak RSS > +50 %", "--fail-if", "wall < -99 %"], &both)
        .code(3)
        .stdout(contains("\nFAIL: --fail-if 'peak RSS > +50 %': fat +"))
        .stdout(contains("\nok: --fail-if 'wall < -99 %': not shown by any"));
    run(&["--runs=6", "--fail-if", "peak RSS < -5 %"], &both).success();
    run(&["--runs=6", "--fail-if", "peak RSS > +50 %"], "--allocators=glibc")
        .code(1)
        .stdout(contains("FAIL: nothing to judge: --fail-if 'peak RSS > +50 %': no allocator"));
    run(&["--runs=6", "--fail-if", "idle RSS > +50 %"], &both)
        .code(1)
        .stdout(contains("FAIL: nothing to judge: --fail-if 'idle RSS > +50 %': no idle RSS was"));
    run(&["--runs=6", "--fail-if", "wall > +5 %"], &format!("{both},hoard"))
        .code(1)
        .stderr(contains("--fail-if: not every allocator of --allocators is there: hoard: "));
}

#[test]
fn conditions_that_cannot_be_judged_are_refused_before_anything_runs() {
    let refused = |options: &[&str], message: &str| {
        let mut command = compare(&["--allocators=glibc"]);
        command.args(options).args(["--", "ls"]).assert().code(2).stderr(contains(message));
    };
    refused(&["--fail-if=wal > +5 %"], "no metric --fail-if wal; did you mean wall? accepted: ");
    refused(&["--fail-if=wall > 5 %"], "no '+' or '-' before the number; accepted: METRIC > +N %");
    refused(&["--fail-if=wall > +5 MiB"], "no '%' at its end");
    refused(&["--fail-if=wall > +5 %", "--runs=5"], "accepted: --runs 6 or more");
    refused(&["-L", "n", "1,1"], "-L n 1,1: the value '1' is there twice");
    refused(&["-L", "n", "1"], "{n} is neither in the command nor in --prepare");
}

#[test]
fn every_value_of_a_parameter_is_compared() {
    let shop = Workshop::new();
    let program = allocates(&shop);
    let [csv, markdown, file, mark] =
        ["x.csv", "x.md", "x.json", "mark-a"].map(|name| shop.path(name));
    fs::write(&mark, "").unwrap();
    let folder = mark.parent().unwrap().display().to_string();
    compare(&["--runs=2", "--allocators=glibc", "-L", "n", "a,b", "--prepare"])
        .arg(format!("touch {folder}/mark-{{n}}"))
        .arg("--export-csv")
        .arg(&csv)
        .arg("--export-markdown")
        .arg(&markdown)
        .arg("--json")
        .arg(&file)
        .args(["--", "sh", "-c"])
        .arg(format!("rm {folder}/mark-{{n}} && exec {}", program.display()))
        .assert()
        .success()
        .stdout(contains("\n## sh n=a\n"))
        .stdout(contains("\n## sh n=b\n"))
        .stdout(contains("In short, sh n=b: glibc alone was measured"));
    let recording = json(&file);
    let names: Vec<_> = recording["meta"]["workloads"].as_array().unwrap().iter().collect();
    assert_eq!((names.len(), &names[1]["name"]), (2, &"sh n=b".into()));
    assert_eq!(recording["parameters"][1]["n"], "b");
    assert_eq!(recording["samples"].as_array().unwrap().len(), 12, "3 rounds, 2 values, 2 copies");
    let text = fs::read_to_string(&csv).unwrap();
    let mut lines = text.lines();
    let head = "command,parameter_n,allocator,metric,unit,runs,failed,median,min,max,baseline,\
                verdict,relation,change,low,high";
    assert_eq!(lines.next(), Some(head));
    let rows: Vec<&str> = lines.collect();
    let metrics = recording["meta"]["metrics"].as_array().unwrap().len();
    assert_eq!(rows.len(), 2 * 2 * metrics, "{text}");
    assert!(rows[0].contains(",a,glibc,wall,s,2,0,"), "{text}");
    let text = fs::read_to_string(&markdown).unwrap();
    assert!(text.starts_with("# quarry compare: `sh -c ") && text.contains("## sh n=a"), "{text}");
}

/// Each run removes the file that its `--prepare` command has made.
#[test]
fn a_command_runs_before_each_run_and_its_failure_is_the_runs() {
    let shop = Workshop::new();
    let (program, mark) = (allocates(&shop), shop.path("mark"));
    let script = format!("rm {} && exec {}", mark.display(), program.display());
    compare(&["--runs=1", "--allocators=glibc", "--prepare"])
        .arg(format!("test \"$LD_PRELOAD\" = '' && touch {}", mark.display()))
        .args(["--", "sh", "-c", &script])
        .assert()
        .success();
    compare(&["--runs=1", "--allocators=glibc", "--prepare", "echo not today >&2; exit 4", "--"])
        .arg(&program)
        .assert()
        .code(1)
        .stdout(contains(
            "1 of 1 run failed, warm-up included: --prepare: exit status 4: not today",
        ));
}

#[test]
fn an_exit_status_can_be_ignored_and_a_signal_cannot() {
    let shop = Workshop::new();
    let program = allocates(&shop);
    let run = |options: &[&str], end: &str| {
        let mut command = compare(&["--runs=1", "--allocators=glibc"]);
        command.args(options).args(["--", "sh", "-c"]);
        command.arg(format!("{}; {end}", program.display())).assert()
    };
    run(&[], "exit 3").code(1).stdout(contains("exit status 3"));
    run(&["-i"], "exit 3").success();
    run(&["--ignore-failure"], "kill -9 $$").code(1).stdout(contains("ended by signal 9"));
}

#[test]
fn a_program_that_is_not_worth_it_can_be_forced() {
    compare(&["--runs=1", "--allocators=glibc", "--", "true"])
        .assert()
        .code(1)
        .stdout(contains("\nto compare all the same: --force\n"));
    compare(&["--runs=1", "--allocators=glibc", "--force", "--", "true"])
        .assert()
        .success()
        .stdout(contains("an allocator has an influence on about "));
    let shop = Workshop::new();
    let source = "#include <stdlib.h>\nint main(void) { return !malloc(10); }\n";
    let fixed = shop.compile("fixed", source, &["-static"]);
    compare(&["--allocators=glibc", "--force", "--"])
        .arg(&fixed)
        .assert()
        .code(1)
        .stdout(contains("is statically linked").and(contains("--force").not()));
}
