//! The system is short of memory: free memory goes back at once, unasked.

use crate::support::{Run, linked_program, program, scratch};

const AN_HOUR: &str = "3600000";
/// `some 300000 1000000` in base 64, as systemd would set it.
const TRIGGER: &str = "c29tZSAzMDAwMDAgMTAwMDAwMAA=";

fn run(kind: &str, who: &str, watch: &str) -> Run {
    let file = scratch().join("memory.pressure");
    let run = Run::new(program("pressure.c")).arg(&file).arg(kind).arg(who);
    run.env("QUARRY_PURGE_DELAY", AN_HOUR).env(watch, &file)
}

#[test]
fn memory_goes_back_where_the_file_tells_of_waits() {
    for who in ["none", "thread"] {
        for watch in ["QUARRY_PRESSURE", "MEMORY_PRESSURE_WATCH"] {
            run("total", who, watch).env("MEMORY_PRESSURE_WRITE", TRIGGER).finish().success();
            run("pipe", who, watch).finish().success();
        }
    }
    run("total", "none", "QUARRY_PRESSURE").env("QUARRY_RECORD", "0").finish().success();
}

#[test]
fn nothing_goes_back_where_pressure_is_off() {
    run("total", "off", "MEMORY_PRESSURE_WATCH").env("QUARRY_PRESSURE", "off").finish().success();
    let never = run("total", "never", "QUARRY_PRESSURE");
    never.env("QUARRY_PURGE_DELAY", "-1").finish().success();
    let sandboxed = run("total", "off", "QUARRY_PRESSURE");
    sandboxed.env("QUARRY_SANDBOX", "1").finish().success();
}

#[test]
fn a_value_that_names_no_file_is_told() {
    for value in ["on", "", "relative/file", &format!("/{}", "x".repeat(600))] {
        let outcome = Run::new(program("abi_basic.c")).env("QUARRY_PRESSURE", value).finish();
        // A long line is cut.
        let line = match value.len() {
            0..100 => {
                format!("QUARRY_PRESSURE={value} is not accepted; use auto, off or the whole")
            }
            _ => format!("quarry: QUARRY_PRESSURE={}", &value[..100]),
        };
        let outcome = outcome.success();
        assert!(outcome.stderr.contains(&line), "{value}: {outcome}");
    }
}

/// Cached pages are scanned, and the program hears of the pressure and of its end.
#[test]
fn callbacks_hear_and_pages_go() {
    let file = scratch().join("memory.pressure");
    let run = Run::full(linked_program("pressure_callback.c")).arg(&file);
    run.env("QUARRY_PRESSURE", &file).finish().success();
}
