//! Wrong frees. Each runs in a process of its own, which must print one line of text and abort.

use super::*;
use crate::frame::MigrateType::Movable;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// The variable that names the misuse for the child process.
const CHILD: &str = "QUARRY_TEST_MISUSE";

fn commit(misuse: &str) {
    let pages = build(TINY, &RingSizes::default());
    let slot = SlotIndex(0);
    let four = pages.alloc(slot, request(2, Movable)).unwrap().pfn;
    match misuse {
        "twice" => {
            pages.free(slot, four, Order::new(2));
            pages.free(slot, four, Order::new(2));
        }
        "twice in a list" => {
            pages.free_list(slot, &[(four, Order::new(2)), (four, Order::new(2))]);
        }
        "after it went to the zone" => {
            pages.free(slot, four, Order::new(2));
            pages.drain_all();
            pages.free(slot, four, Order::new(2));
        }
        "misaligned" => pages.free(slot, four.plus(1), Order::new(2)),
        "foreign" => pages.free(slot, Pfn(pages.arena().frames() - 1), Order::ZERO),
        other => panic!("no misuse is called {other}"),
    }
}

/// Runs this very test in a child that commits `misuse`; returns its standard error.
fn aborts(test: &str, misuse: &str) -> String {
    if let Ok(misuse) = std::env::var(CHILD) {
        commit(&misuse);
        std::process::exit(0);
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("pcp::tests::misuse::{test}"), "--nocapture"])
        .env(CHILD, misuse)
        .output()
        .expect("the test can start itself");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{misuse}: {:?}", output.status);
    String::from_utf8(output.stderr).unwrap()
}

fn says(test: &str, misuse: &str, why: &str) {
    let said = aborts(test, misuse);
    let line = said.lines().find(|line| line.starts_with("quarry: ")).expect("a line of its own");
    assert!(line.starts_with("quarry: free of the page block of order "), "{line}");
    assert!(line.ends_with(why), "{line}");
}

#[test]
fn a_block_freed_twice() {
    says("a_block_freed_twice", "twice", ": it is free already");
}

#[test]
fn a_block_twice_in_one_list() {
    says("a_block_twice_in_one_list", "twice in a list", ": it is free already");
}

#[test]
fn a_block_that_the_zone_has() {
    says("a_block_that_the_zone_has", "after it went to the zone", ": it is free already");
}

#[test]
fn a_block_that_starts_elsewhere() {
    says("a_block_that_starts_elsewhere", "misaligned", ": no block of this order starts there");
}

#[test]
fn a_frame_of_no_zone() {
    says("a_frame_of_no_zone", "foreign", ": it belongs to no zone");
}
