//! `quarry run`: what reaches the program, what is said, and which exit status comes back.

use crate::support::{Workshop, quarry, real_library, skipped};
use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::{contains, is_empty, starts_with};
use quarry_wary::is_plain;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

const CALLS_MALLOC: &str = "#include <stdlib.h>\nint main(void) { return !malloc(10); }\n";

#[test]
fn the_program_gets_the_library_and_the_options() {
    let shop = Workshop::new();
    let library = shop.path("libquarry.so").canonicalize().unwrap();
    shop.run()
        .args(["--set", "thp=0", "--set", "LIMIT=1G", "--stats", "--", "env"])
        .assert()
        .success()
        .stderr(is_empty())
        .stdout(contains(format!("LD_PRELOAD={}\n", library.display())))
        .stdout(contains("QUARRY_THP=0\n"))
        .stdout(contains("QUARRY_LIMIT=1G\n"))
        .stdout(contains("QUARRY_STATS=1\n"));
}

#[test]
fn what_is_preloaded_already_stays_behind_the_library() {
    let shop = Workshop::new();
    let other = shop.compile("other.so", "int other;\n", &["-shared", "-fPIC"]);
    shop.run()
        .env("LD_PRELOAD", &other)
        .args(["--", "env"])
        .assert()
        .success()
        .stdout(contains(format!("libquarry.so:{}\n", other.display())));
}

#[test]
fn arguments_streams_and_exit_status_pass_through() {
    let shop = Workshop::new();
    shop.run()
        .args(["--", "sh", "-c", "cat; echo \"$0 $*\"; exit 42", "zero", "--stats", "-x"])
        .write_stdin("input\n")
        .assert()
        .code(42)
        .stdout("input\nzero --stats -x\n")
        .stderr(is_empty());
    // Without `--`, what follows the command still belongs to it.
    shop.run().args(["echo", "--set", "x"]).assert().success().stdout("--set x\n");
    let killed = shop.run().args(["--", "sh", "-c", "kill -TERM $$"]).output().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.status), Some(15));
}

#[test]
fn the_file_of_the_statistics_does_not_move_with_the_program() {
    let shop = Workshop::new();
    let folder = shop.path("").canonicalize().unwrap();
    shop.run()
        .current_dir(&folder)
        .args(["--stats=here.txt", "--", "sh", "-c", "cd /; env"])
        .assert()
        .stdout(contains(format!("QUARRY_STATS={}\n", folder.join("here.txt").display())));
}

/// The command knows beforehand that it cannot do what was asked, so it starts nothing.
#[test]
fn with_a_wrong_option_nothing_runs() {
    let shop = Workshop::new();
    let refused = |options: &[&str], line: &str| {
        let mut command = shop.run();
        command.args(options).args(["--", "echo", "ran"]);
        let assert = command.assert().code(2).stdout(is_empty());
        assert
            .stderr(starts_with(format!("quarry: {line}")))
            .stderr(predicate::function(|text: &str| text.lines().count() == 1));
    };
    let signals = "SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT, SIGURG or SIGWINCH\n";
    refused(
        &["--set", "SIGNAL=SIGKILL"],
        &format!("--set SIGNAL=SIGKILL: bad value; accepted: {signals}"),
    );
    refused(&["--set", "signal="], &format!("--set SIGNAL=: bad value; accepted: {signals}"));
    refused(&["--set", "SPEED=9"], "--set SPEED: no such option; accepted: STATS, ");
    refused(&["--set", "THP"], "--set THP: no '=' in it; accepted: KEY=VALUE\n");
    refused(&["--slab", "slob"], "--slab: SLAB=slob: bad value; accepted: sheaf, ");
    refused(&["--set", "LIBRARY=/no/such.so"], "--set LIBRARY=/no/such.so: No such file ");
    refused(&["--stats=/no/such/folder/x"], "--stats=/no/such/folder/x: No such file ");
    refused(&["--set", "STATS=/dev/null"], "--stats=/dev/null: not a regular file; accepted: ");
    refused(&["--stats=x-%q"], "--stats=x-%q: accepted after %: p for the number ");
    shop.run()
        .env("QUARRY_SLAB", "slob")
        .args(["--", "echo", "ran"])
        .assert()
        .code(2)
        .stdout(is_empty())
        .stderr(starts_with("quarry: QUARRY_SLAB=slob: bad value; accepted: sheaf, "));
}

#[test]
fn a_slab_policy_is_a_library_of_its_own() {
    let shop = Workshop::new();
    for options in [&["--slab", "slub"][..], &["--set", "SLAB=slub"]] {
        let mut command = shop.run();
        command.args(options).args(["--", "env"]);
        command.assert().success().stdout(contains("libquarry-slub-4.9.so\n"));
    }
    let mut command = shop.run();
    command.env("QUARRY_SLAB", "slub-4.9").args(["--", "env"]);
    command.assert().success().stdout(contains("libquarry-slub-4.9.so\n"));
}

/// The commands once took such an option for the name of a program.
#[test]
fn a_mistyped_option_is_no_command() {
    for command in ["run", "compare"] {
        let refusal = quarry().args([command, "--bogus"]).assert().code(2).stdout(is_empty());
        refusal.stderr(contains("unexpected argument '--bogus' found"));
        quarry().args([command, "-x", "ls"]).assert().code(2).stderr(contains("'-x'"));
    }
    let shop = Workshop::new();
    shop.run()
        .args(["--", "--bogus"])
        .assert()
        .code(127)
        .stderr("quarry: --bogus: command not found\n");
}

#[test]
fn commands_that_cannot_run() {
    let shop = Workshop::new();
    shop.run()
        .args(["--", "no-such-command-here"])
        .assert()
        .code(127)
        .stderr("quarry: no-such-command-here: command not found\n");
    let text = shop.path("text");
    fs::write(&text, "hello\n").unwrap();
    shop.run()
        .arg("--")
        .arg(&text)
        .assert()
        .code(126)
        .stderr(contains("not an executable file, or no permission to execute it"));
}

/// This also holds for a command with a library inside, as `make build` builds it.
#[test]
fn a_library_that_is_named_and_not_there_is_replaced_by_no_other() {
    let shop = Workshop::new();
    let folder = shop.path("empty");
    fs::create_dir(&folder).unwrap();
    let text = shop.path("text.so");
    fs::write(&text, "no library").unwrap();
    for (named, why) in [
        (shop.path("nowhere.so"), "No such file or directory"),
        (folder, "libquarry.so in it: No such file or directory"),
        (text, "not a shared object of this machine"),
    ] {
        let line = format!("quarry: QUARRY_LIBRARY={}: {why}", named.display());
        quarry()
            .env("QUARRY_LIBRARY", &named)
            .args(["run", "--", "echo", "ran"])
            .assert()
            .code(2)
            .stdout(is_empty())
            .stderr(starts_with(line))
            .stderr(contains("; accepted: a shared object such as libquarry.so, or a folder"));
    }
}

#[test]
fn without_a_library_nothing_runs() {
    let shop = Workshop::new();
    let folder = shop.path("a folder");
    fs::create_dir(&folder).unwrap();
    fs::copy(shop.path("libquarry.so"), folder.join("libquarry.so")).unwrap();
    quarry()
        .env("QUARRY_LIBRARY", folder)
        .args(["run", "--", "echo", "ran"])
        .assert()
        .code(125)
        .stderr(contains("LD_PRELOAD cannot hold a path with a colon or white space"));
}

#[test]
fn a_static_program_is_named_and_runs() {
    let shop = Workshop::new();
    let program = shop.compile("static", CALLS_MALLOC, &["-static"]);
    let line = format!(
        "quarry: {} is statically linked: no library can be preloaded; \
         it runs without Quarry\n",
        program.display()
    );
    shop.run().arg("--").arg(&program).assert().success().stderr(line);
}

#[test]
fn a_script_is_judged_by_its_interpreter() {
    let shop = Workshop::new();
    let interpreter = shop.compile("static", CALLS_MALLOC, &["-static"]);
    let script = shop.script("script", &format!("#!{}\n", interpreter.display()));
    shop.run().arg("--").arg(&script).assert().success().stderr(contains(format!(
        "script: its interpreter {} is statically linked",
        interpreter.display()
    )));
    let plain = shop.script("plain", "#!/bin/sh\nexit 7\n");
    shop.run().arg("--").arg(&plain).assert().code(7).stderr(is_empty());
    let bare = shop.script("bare", "exit 8\n");
    shop.run().arg("--").arg(&bare).assert().code(8).stderr(is_empty());
}

#[test]
fn a_set_user_id_program_is_named_and_runs() {
    let shop = Workshop::new();
    let program = shop.compile("setuid", CALLS_MALLOC, &[]);
    // Only root may give a file to another user; without that there is nothing to test.
    match chown(&program, Some(65534), None) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return,
        result => result.unwrap(),
    }
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    fs::set_permissions(shop.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    shop.run()
        .arg("--")
        .arg(&program)
        .assert()
        .success()
        .stderr(contains("is set-user-ID or set-group-ID"));
}

#[test]
fn help_lists_the_options_of_the_library() {
    quarry()
        .args(["run", "--help"])
        .assert()
        .success()
        .stdout(contains("THP        ask for huge pages where slabs will fill them (1) (0 or 1)"))
        .stdout(contains("127"));
}

#[test]
fn statistics_say_what_the_library_did_for_the_program() {
    let Some(library) = real_library() else { return };
    let shop = Workshop::new();
    let source = "#include <stdlib.h>\n#include <string.h>\n\
                  int main(void) { for (int i = 0; i < 5000; i++) memset(malloc(100), 1, 100); }\n";
    let program = shop.compile("five-thousand", source, &["-O0"]);
    let stats = shop.path("stats");
    quarry()
        .env("QUARRY_LIBRARY", library)
        .arg("run")
        .arg(format!("--stats={}", stats.display()))
        .arg("--")
        .arg(program)
        .assert()
        .success()
        .stderr(is_empty());
    let text = fs::read_to_string(stats).unwrap();
    assert!(text.contains("slabinfo - version: 2.1"), "{text}");
    let cache = text.lines().find(|line| line.starts_with("malloc-112 ")).unwrap_or_default();
    let live: u32 = cache.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    assert!(live >= 5000, "{live} objects in use: {text}");
    assert!(text.contains("zone->lock"), "{text}");
}

/// A folder with `libquarry-full.so`; `None` without one.
fn full_library() -> Option<PathBuf> {
    let folder = real_library()?.parent()?.to_owned();
    let is_there = folder.join("libquarry-full.so").is_file();
    if !is_there {
        skipped("no libquarry-full.so");
    }
    is_there.then_some(folder)
}

/// `quarry run` with checks. A program that waits for a reader of its output would wait for ever.
fn checked(library: &Path) -> Command {
    let mut command = quarry();
    command.env("QUARRY_LIBRARY", library).args(["run", "--set", "DEBUG=FZPU", "--"]);
    command.timeout(Duration::from_secs(300));
    command
}

const WRITES: &str = "#include <stdlib.h>\nchar *make(void) {\n    return malloc(40);\n}\n\
                      int main(void) {\n    char *volatile made = make();\n    made[40] = 1;\n    \
                      free(made);\n    return 0;\n}\n";

/// The library prints addresses alone; `quarry run` adds functions, files and lines.
#[test]
fn reports_of_checks_name_callers() {
    let Some(library) = full_library() else { return };
    let shop = Workshop::new();
    let program = shop.compile("writes", WRITES, &["-g", "-O0"]);
    // Paths may have spaces, any bytes and many of them.
    let folder =
        shop.path("").join(OsStr::from_bytes(b"a \\ gr\xf6\xdfe\x1b[31m")).join("long/".repeat(40));
    fs::create_dir_all(&folder).unwrap();
    let odd = folder.join("writes too");
    fs::copy(&program, &odd).unwrap();
    for program in [program, odd] {
        let assert = checked(&library).arg(program).assert();
        let assert = assert.stderr(contains("was written past its end: byte 40"));
        let assert = assert.stderr(contains("make  ").and(contains("writes.c:3")));
        let assert = assert.stderr(contains("writes.c:6").and(contains("\x1e").not()));
        assert.stderr(predicate::function(|text: &str| {
            text.chars().all(|it| it == '\n' || is_plain(it))
        }));
    }
}

/// Names are added to the lines of the library, not to such lines in a program's own output.
#[test]
fn lines_of_the_program_itself_open_no_file() {
    let Some(library) = full_library() else { return };
    let shop = Workshop::new();
    let made = std::process::Command::new("mkfifo").arg(shop.path("pipe")).status();
    assert!(made.unwrap().success());
    let program = shop.compile("writes", WRITES, &["-g", "-O0"]);
    let mut text = String::new();
    for path in [&*shop.path("pipe"), Path::new("/dev/zero"), &program] {
        for mark in ["", "\x1e", "\x1e0123456789abcdef"] {
            text += &format!("{mark}quarry:     #0 0x5 ({}+0x1139)\n", path.display());
        }
    }
    text += &"x".repeat(1 << 20);
    text += "\nquarry: no end";
    checked(&library)
        .args(["sh", "-c", "cat >&2"])
        .write_stdin(text.clone())
        .assert()
        .success()
        .stderr(text.clone());
    // Where a user asks for names, each line is answered whose file is one.
    let names = quarry().arg("names").write_stdin(text).timeout(Duration::from_secs(300)).assert();
    names.success().stdout(contains("/pipe+0x1139)\n").and(contains("/dev/zero+0x1139)\n")));
}

/// A report in a file or in another program's input has no mark: only the reader removes it.
#[test]
fn reports_that_go_elsewhere_are_plain_text() {
    let Some(library) = full_library() else { return };
    let shop = Workshop::new();
    let program = shop.compile("writes", WRITES, &["-g", "-O0"]);
    let report = shop.path("report");
    let script = format!("{} 2> {}; true", program.display(), report.display());
    checked(&library).args(["sh", "-c", &script]).assert().success();
    let text = fs::read_to_string(&report).unwrap();
    assert!(text.contains("quarry:     #0 0x") && !text.contains('\x1e'), "{text}");
    let names = quarry().arg("names").write_stdin(text).assert().success();
    names.stdout(contains("make  ").and(contains("writes.c:3")));
}

#[test]
fn values_of_the_environment_do_not_reach_the_terminal_as_commands() {
    let shop = Workshop::new();
    let mut command = shop.run();
    command
        .env("QUARRY_SLAB", "\x1b[2J\u{9b}31m")
        .args(["--", "true"])
        .assert()
        .code(2)
        .stderr(starts_with("quarry: QUARRY_SLAB=?[2J?31m: bad value"));
    let Some(library) = real_library() else { return };
    let mut command = quarry();
    command.env("QUARRY_LIBRARY", library).env("QUARRY_THP", "\x1b[2J").args([
        "run",
        "--",
        "sort",
        "/dev/null",
    ]);
    command.assert().success().stderr(starts_with("quarry: QUARRY_THP=?[2J is not accepted"));
}
