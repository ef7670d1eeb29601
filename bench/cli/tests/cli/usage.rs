//! Every wrong command line ends with status 2 and a line that names the mistake, and nothing runs.
//! Other tests are about output that cannot be written.

use crate::support::streams::{
    fails_without_a_stream, lets_readers_leave, refused, tells_that_no_disk_holds_it,
};
use crate::support::{Workshop, quarry};
use predicates::prelude::*;
use predicates::str::{contains, is_empty, starts_with};
use std::fs::File;

/// Commands that are wrong as a whole.
const WHOLE: [(&[&str], &str); 30] = [
    (&["bogus"], "quarry: no command bogus; accepted: run, ps, top, metrics, profile, show, "),
    (&["bogus"], "simulate, lab, help\n"),
    (&["pss"], "no command pss; did you mean ps? accepted: run, "),
    (&["ps", "--pid", "-5"], "'-5' for '--pid <N>': accepted: the number of a process, 1 or more"),
    (&["top", "--pid", "-5"], "'-5' for '--pid <N>': accepted: the number of a process, 1 or more"),
    (&["top", "--delay", "-1"], "'-1' for '--delay <SECONDS>': accepted: 0.1 to 3600"),
    (&["profile", "--seconds", "-2.5"], "'-2.5' for '--seconds <SECONDS>': accepted: 0 to 1000000"),
    (&["compare", "--runs", "-1", "true"], "'-1' for '--runs <N>': -1 is not in 1..=100000"),
    (
        &["top", "--sort", "foo"],
        ": accepted: name, size, live, parked, dirty, growth, allocs, fast\n",
    ),
    (&["top", "--json", "--sort", "growth"], "'--json' cannot be used with '--sort <COLUMN>'"),
    (&["ps", "--name", ""], "quarry: --name is empty; accepted: --name <NAME>\n"),
    (&["ps", "--name="], "quarry: --name is empty; accepted: --name <NAME>\n"),
    (
        &["compare", "--allocators", "", "true"],
        "quarry: --allocators is empty; accepted: --allocators <A,B>\n",
    ),
    (&["run", "--set", "", "true"], "quarry: --set is empty; accepted: --set <KEY=VALUE>\n"),
    (
        &["advise", "--metric", "", "true"],
        "quarry: --metric is empty; accepted: --metric <REGEX|NAME>\n",
    ),
    (&["metrics", "--listen", ""], "quarry: --listen is empty; accepted: --listen <ADDRESS>\n"),
    (&["profile", "/no/such"], "'/no/such' for '[FILE]': No such file or directory (os error 2)"),
    (&["slabinfo", "--core", "/no/such"], "'/no/such' for '--core <FILE>': No such file"),
    (&["show"], "<LAYOUT>"),
    (&["show", "meminfo"], "slabinfo, buddyinfo, zoneinfo, vmstat, lockstat"),
    (&["vmstat", "-A"], "-A and -D: accepted with slabinfo only"),
    (&["--bogus"], "'--bogus'"),
    (&["run"], "<CMD>"),
    (&["run", "--slab"], "--slab"),
    (&["run", "--set", "THP=2", "true"], "accepted: 0 or 1"),
    (&["compare"], "<CMD>"),
    (&["compare", "--runs=x", "true"], "'x'"),
    (&["compare", "--max-runs=7", "true"], "--target-ci"),
    (&["advise", "--bogus", "--", "true"], "'--bogus'"),
    (&["advise"], "<CMD>"),
];

#[test]
fn wrong_commands_are_refused() {
    for (arguments, named) in WHOLE {
        refused(quarry(), arguments, named);
    }
}

/// Without a command the answer is the help, not an error with the help in it.
#[test]
fn without_a_command_there_is_help() {
    quarry().assert().code(2).stdout(is_empty()).stderr(starts_with("A malloc that gives "));
}

#[test]
fn a_lab_that_is_not_there_is_named() {
    for verb in ["lab", "record", "simulate"] {
        let mut command = quarry();
        command.env("QUARRY_LAB", "/no/such").arg(verb).assert().code(2).stderr(format!(
            "quarry: `quarry {verb}` needs quarry-lab: QUARRY_LAB=/no/such: no such file; \
             accepted: quarry-lab\n"
        ));
    }
}

/// As with `| head -1`: the reader has seen enough, and closes the pipe.
#[test]
fn a_reader_that_leaves_is_no_error() {
    for arguments in [&["--help"][..], &["run", "--help"], &["--version"]] {
        lets_readers_leave(env!("CARGO_BIN_EXE_quarry"), arguments);
    }
}

#[test]
fn output_that_no_disk_holds_is_told() {
    for arguments in [&["--help"][..], &["run", "--help"], &["--version"]] {
        tells_that_no_disk_holds_it(env!("CARGO_BIN_EXE_quarry"), arguments);
    }
}

/// Without a folder for temporary files, `quarry compare` runs nothing.
#[test]
fn a_folder_for_what_runs_is_needed() {
    let mut command = quarry();
    command.env("TMPDIR", "/no/such/folder").args(["compare", "--allocators=glibc", "ls"]);
    command.assert().code(2).stdout(is_empty()).stderr(
        "quarry: TMPDIR=/no/such/folder: No such file or directory (os error 2); accepted: a \
         directory that can be written\n",
    );
}

/// Home, a folder to write in, colours: none of them is needed.
#[test]
fn nothing_but_the_program_is_needed() {
    let shop = Workshop::new();
    let library = shop.path("libquarry.so");
    let run = |folder: &str| {
        let mut command = quarry();
        command.env_clear().env("PATH", "/usr/bin:/bin").env("QUARRY_LIBRARY", &library);
        command.current_dir(folder).args(["run", "--", "sh", "-c", "exit 9"]);
        command.assert().code(9).stderr(is_empty());
    };
    run("/proc");
    run("/");
    let mut command = quarry();
    command.env_clear().env("NO_COLOR", "1").env("COLUMNS", "20").args(["run", "--bogus"]);
    command.assert().code(2).stderr(contains("\u{1b}").not());
}

/// Not even the error message can be written; a panic would end with status 101.
#[test]
fn standard_error_that_is_full_changes_no_status() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for arguments in [&["run", "--set", "THP=2", "true"][..], &["bogus"]] {
        fails_without_a_stream(env!("CARGO_BIN_EXE_quarry"), arguments);
    }
    let shop = Workshop::new();
    let program = shop.compile("static", "int main(void) { return 7; }\n", &["-static"]);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_quarry"));
    command.env("QUARRY_LIBRARY", shop.path("")).arg("run").arg(program).stderr(full());
    assert_eq!(command.status().unwrap().code(), Some(7));
}
