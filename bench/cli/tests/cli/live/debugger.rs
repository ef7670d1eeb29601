//! The command `quarry-heap` of gdb, on a living process and on its core file.

use super::served::{Served, eventually};
use crate::support::{Workshop, skipped};
use std::path::Path;
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../live/gdb/quarry-heap.py");
const PROGRAM: &str = include_str!("heap.c");

/// Output of gdb with `target`, after each of the commands.
fn gdb(target: &[&str], commands: &[&str]) -> String {
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-nx", "-x", SCRIPT]).args(target);
    for command in commands {
        gdb.args(["-ex", command]);
    }
    let output = gdb.output().expect("gdb is installed");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A command for each kind of address.
const LOOKS: [&str; 7] = [
    "quarry-heap",
    "quarry-heap kept[7]+24",
    "quarry-heap freed",
    "quarry-heap block+5000",
    "quarry-heap mapping",
    "quarry-heap mapping+(5<<20)",
    "quarry-heap &foreign",
];

fn check(text: &str) {
    let row = text.lines().find(|line| line.starts_with("malloc-112 ")).expect(text);
    let numbers: Vec<u32> = row.split_whitespace().skip(1).map(|it| it.parse().unwrap()).collect();
    let [slabs, objects, in_use, parked, free] = numbers[..] else { panic!("{row}") };
    assert_eq!((slabs, objects, in_use), (1, 146, 39), "{text}");
    assert_eq!(in_use + parked + free, objects, "{text}");
    let marked: Vec<&str> = text.lines().filter(|line| line.starts_with("=> object ")).collect();
    assert_eq!(marked.len(), 2, "{text}");
    assert!(marked[0].ends_with(": in use, or parked in a barn (+24)"), "{text}");
    assert!(marked[1].contains(": parked by CPU "), "{text}");
    assert!(text.contains("a block of 25 frames at ") && text.contains(" (+5000)"), "{text}");
    assert!(text.contains("a mapping of 1280 frames at "), "{text}");
    assert!(text.contains("free frame: no allocation holds it"), "{text}");
    assert!(text.contains(" is no memory of Quarry's heap"), "{text}");
}

#[test]
fn gdb_walks_the_heap_of_a_process_and_of_its_core_file() {
    if Command::new("gdb").arg("--version").output().is_err() {
        return skipped("gdb is not installed");
    }
    let workshop = Workshop::new();
    let program = workshop.compile("heap", PROGRAM, &["-g"]);
    let program = program.to_str().expect("a path in UTF-8");
    let Some(served) = Served::start(&[program]) else { return };
    let core = Path::new(program).with_extension("core");
    let save = format!("gcore {}", core.display());
    let commands = [&LOOKS[..], &[&save]].concat();
    let text = eventually("gdb attaches", || {
        let text = gdb(&["-p", &served.pid()], &commands);
        if text.contains("malloc-112 ") { Ok(text) } else { Err(text) }
    });
    check(&text);
    check(&gdb(&[program, core.to_str().expect("a path in UTF-8")], &LOOKS));
}

#[test]
fn a_program_that_is_not_on_quarry_is_named() {
    if Command::new("gdb").arg("--version").output().is_err() {
        return skipped("gdb is not installed");
    }
    let text = gdb(&["/bin/true"], &["quarry-heap"]);
    assert!(text.contains("no symbol quarry_record: the program is not on Quarry"), "{text}");
}
