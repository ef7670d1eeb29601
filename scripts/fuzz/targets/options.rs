//! Settings from the environment, a `NAME=VALUE` on each line: none panics, a refusal says what is
//! accepted, and a limit that is refused becomes one that is not zero.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quarry_mm::heap::options::{
    OPTIONS, OptionError, RECORD_OPTIONS, StackOptions, asks_for_records, least_limit, likest,
};

fuzz_target!(|text: &str| {
    for line in text.lines() {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        set(name, value);
    }
});

fn set(name: &str, value: &str) {
    let applied = [
        |to: &mut StackOptions, name: &str, value: &str| to.set(name, value),
        |to: &mut StackOptions, name: &str, value: &str| to.set_guard(name, value),
        |to: &mut StackOptions, name: &str, value: &str| to.set_records(name, value),
    ];
    for apply in applied {
        let mut options = StackOptions::default();
        match apply(&mut options, name, value) {
            Ok(()) => {}
            Err(OptionError::UnknownName) => drop(likest(name, &[OPTIONS, RECORD_OPTIONS])),
            Err(OptionError::BadValue { accepted }) => assert!(!accepted.is_empty()),
        }
    }
    let _ = asks_for_records(name, value);
    assert!(least_limit(value) > 0, "a limit is never dropped");
}
