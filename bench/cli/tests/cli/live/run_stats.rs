//! `quarry run --stats`: what is printed after any death, and what the program does not notice.

use crate::support::{quarry, real_library};
use assert_cmd::Command;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

/// Allocates for several times the 100 ms between publications, however fast the machine is, then
/// does what `end` says.
fn ends_by(end: &str) -> Option<Output> {
    let work = "import os, signal, time\nkept, until = [], time.monotonic() + 0.5\n\
                while time.monotonic() < until: kept = [str(n) * 3 for n in range(100000)]\n";
    run(&["/usr/bin/python3", "-c", &format!("{work}{end}")])
}

fn run(program: &[&str]) -> Option<Output> {
    let mut command: Command = quarry();
    command.env("QUARRY_LIBRARY", real_library()?).args(["run", "--stats", "--"]).args(program);
    Some(command.output().expect("it runs"))
}

fn error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("it is text")
}

#[test]
fn a_death_without_a_word_has_its_tables() {
    let Some(killed) = ends_by("os.kill(os.getpid(), signal.SIGKILL)") else { return };
    assert_eq!(killed.status.signal(), Some(9));
    let exited = ends_by("os._exit(3)").unwrap();
    assert_eq!(exited.status.code(), Some(3));
    let ended = ends_by("os.kill(os.getpid(), signal.SIGTERM)").unwrap();
    assert_eq!(ended.status.signal(), Some(15));
    for output in [&killed, &exited, &ended] {
        let text = error(output);
        assert!(text.starts_with("quarry: python3["), "{text}");
        assert!(text.contains("ended without its own statistics (a signal, or _exit)"), "{text}");
        assert!(text.contains(" s old; Quarry "), "{text}");
        assert!(text.contains("\nslabinfo - version: 2.1\n") && text.contains("\nmalloc-64 "));
        assert!(text.contains("\nlock_stat version 0.4\n"), "{text}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_process_that_speaks_for_itself_is_not_repeated() {
    let Some(output) = ends_by("") else { return };
    let text = error(&output);
    assert_eq!(text.matches("slabinfo - version").count(), 1, "{text}");
    assert!(!text.contains("ended without"), "{text}");
    let Some(output) = run(&["true"]) else { return };
    assert_eq!(error(&output).lines().count(), 1, "nothing was asked of it");
}

#[test]
fn a_tree_has_a_total() {
    let fork = "pids = [os.fork() for _ in range(2)]\nkept = [str(n) for n in range(100000)]\n\
                if 0 in pids: time.sleep(0.2); kept = [str(n) * 7 for n in range(100000)]\n\
                if 0 in pids: os._exit(0)\n\
                for pid in pids: os.waitpid(pid, 0)";
    let Some(output) = ends_by(fork) else { return };
    let text = error(&output);
    let list = text.split("quarry: ").last().unwrap();
    // The second fork happens in the first child as well.
    assert!(list.starts_with("4 processes or programs, memory in KiB\n"), "{text}");
    let column = |line: &str| line.split_whitespace().nth(3).unwrap().parse::<u64>().unwrap();
    let lines: Vec<&str> = list.lines().skip(2).collect();
    let (total, parts) = lines.split_last().unwrap();
    assert_eq!(parts.len(), 4);
    assert!(total.starts_with("total "));
    assert_eq!(column(total), parts.iter().map(|line| column(line)).sum::<u64>(), "{list}");
    // A child of a fork inherits its parent's counts, so the total counts these twice.
    assert!(parts.iter().filter(|line| line.ends_with(" old")).count() == 3, "{list}");
}

/// Programs that a process executes hand in pages of their own, however short they live.
#[test]
fn programs_that_live_shortly_are_not_missed() {
    let script = "for n in 1 2 3 4 5; do ls / > /dev/null; done; exec ls /";
    let Some(output) = run(&["sh", "-c", script]) else { return };
    let text = error(&output);
    let list = text.split("quarry: ").last().unwrap();
    assert_eq!(list.lines().filter(|line| line.starts_with("ls[")).count(), 6, "{text}");
    assert!(!text.contains("ended without"), "the last program printed its statistics: {text}");
}

/// `quarry run` becomes the program. The program then has no child and no open descriptor beyond
/// its own, and the session and process group that it has without `quarry run`.
#[test]
fn the_program_notices_nothing() {
    let look = "import os, sys\n\
        try: os.wait()\nexcept ChildProcessError: print('no child')\n\
        print('same', os.environ.get('QUARRYRUN_PID', str(os.getpid())) == str(os.getpid()))\n\
        print('open', [n for n in range(3, 48) if os.path.exists(f'/proc/self/fd/{n}')])\n\
        print('session', os.getsid(0), os.getpgid(0))";
    let program = ["/usr/bin/python3", "-c", look];
    let Some(output) = run(&program) else { return };
    let alone = Command::new(program[0]).args(&program[1..]).output().unwrap();
    let text = |output: Output| String::from_utf8(output.stdout).unwrap();
    let (text, alone) = (text(output), text(alone));
    assert!(text.starts_with("no child\nsame True\nopen "), "{text}");
    assert_eq!(text, alone);
}

/// Only the program keeps open a descriptor that it inherited: when it closes the descriptor, a
/// reader of the pipe sees the end.
#[test]
fn the_watcher_holds_nothing_of_the_program() {
    let Some(library) = real_library() else { return };
    let script = "exec 3>&1; (\"$0\" run --stats -- /usr/bin/python3 -c \
        'import os, time; os.close(1); os.close(3); print(open(\"fifo\").read())' 3>&1 1>&3) | \
        { cat; echo closed > fifo; }";
    let folder = tempfile::tempdir().unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(folder.path().join("fifo")).status();
    assert!(fifo.unwrap().success());
    let mut command = Command::new("sh");
    command.current_dir(folder.path()).env("QUARRY_LIBRARY", library);
    // If the watcher held the pipe, `cat` would not end, and Python would wait for `echo`.
    command.args(["-c", script, env!("CARGO_BIN_EXE_quarry")]);
    command.timeout(std::time::Duration::from_secs(120)).output().expect("it ends");
}

#[test]
fn statistics_after_a_death_go_to_the_file() {
    let Some(library) = real_library() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stats.txt");
    let mut command: Command = quarry();
    command.env("QUARRY_LIBRARY", library).arg("run").arg(format!("--stats={}", file.display()));
    let work = "import os\nkept = [str(n) for n in range(100000)]\nos._exit(0)";
    // `output` returns when the watcher has closed standard error: the file is then written.
    let output = command.args(["--", "/usr/bin/python3", "-c", work]).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", error(&output));
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.starts_with("quarry: python3["), "{text}");
}
