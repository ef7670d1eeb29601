//! Each lock has a name, is visited once, and is free while no thread works; all but stripes count.

use crate::support::locks::{NODES, OF_ALL, bed, visited};
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{Report, Section};

#[test]
fn a_visitor_meets_every_lock_of_the_policy_sheaf_once() {
    let mut names = visited(&bed::<Sheaf>());
    // Only one CPU has worked.
    assert_eq!(names.remove("percpu->stripe"), Some(1));
    // Only one cache has been used; the locks of the others were never taken.
    let of_caches = [("slab->list_lock", 1), ("barn->lock", NODES)];
    assert_eq!(names, OF_ALL.into_iter().chain(of_caches).collect());
}

#[test]
fn statistics_have_a_line_for_each_name() {
    let bed = bed::<Sheaf>();
    let text = Report { stack: &bed.stack, sections: &[Section::Locks] }.to_string();
    let names: Vec<&str> =
        text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    let counting = visited(&bed).len() - 1;
    assert_eq!(names.len(), counting, "all but the stripes count: {text}");
    let zone = text.lines().find(|line| line.starts_with("zone->lock ")).expect("a line");
    let taken = zone.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    assert!(taken > Some(0), "the zone has been used: {zone}");
}
