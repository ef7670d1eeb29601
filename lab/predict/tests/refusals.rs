//! A command line that asks for what no document or machine has is refused before a replay runs.
#![cfg(quarry_sim)]

use std::process::Command;

/// Command lines, and how the message about each begins.
const WRONG: [(&[&str], &str); 18] = [
    (&[], "no document; "),
    (&["005"], "no document 005; accepted: 001, 002, 004, llfree, counters"),
    (&["004", "--bogus"], "no option --bogus; "),
    (&["004", "--only"], "--only: no value"),
    (&["004", "--only", "7"], "--only 7: no row 7; accepted: 1, 4, 16, 32, 64"),
    (&["002", "--only", "x"], "--only x: no row x; accepted: 16, 32, 48, 64, "),
    (&["001", "--only", "16"], "--only 16: no rows of tasks in 001; accepted with 002 and 004"),
    (&["004", "--set", "foo=1"], "--set foo=1: no constant foo; accepted: call_ns, "),
    (&["002", "--set", "fault_ns=1"], "--set fault_ns=1: no constant fault_ns; accepted: "),
    (&["counters", "--set", "foo=1"], "--set foo=1: no constant foo; accepted: call_ns, "),
    (&["004", "--set", "hit_ns"], "--set hit_ns: accepted: CONSTANT=VALUE, a value from 0 to "),
    (&["004", "--set", "hit_ns=-1"], "--set hit_ns=-1: accepted: CONSTANT=VALUE, "),
    (&["004", "--set", "hit_ns=inf"], "--set hit_ns=inf: accepted: CONSTANT=VALUE, "),
    (&["004", "--seed", "x"], "--seed: accepted: a number"),
    (&["llfree", "--seed", "1"], "--seed: accepted with 002 and 004"),
    (&["004", "--length", "three"], "--length: no length three; accepted: half, one, two"),
    (&["002", "--other"], "--other: 002 has no other set of constants"),
    (&["004", "--set", "smt_slowdown=0.5"], "--set: smt_slowdown = 0.5: accepted is 1 and more"),
];

#[test]
fn wrong_command_lines_are_refused_in_one_line() {
    for (words, message) in WRONG {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quarry-predict"));
        let output = command.args(words).output().expect("the program starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
        assert!(text.starts_with(&format!("quarry: {message}")), "{words:?}: {text}");
        assert_eq!((text.lines().count(), output.stdout.len()), (1, 0), "{words:?}: {text}");
    }
}
