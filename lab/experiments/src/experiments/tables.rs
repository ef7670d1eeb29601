//! Tables that several experiments print.

use quarry_harness::results::Run;
use quarry_harness::tables::{Group, Matrix};

pub(super) fn all(name: &str, run: &Run) -> Vec<Group> {
    group(name, run.meta.workloads.iter().map(|workload| workload.name.clone()).collect())
}

pub(super) fn group(name: &str, workloads: Vec<String>) -> Vec<Group> {
    let group = Group { name: name.to_owned(), workloads };
    if group.workloads.is_empty() { Vec::new() } else { vec![group] }
}

pub(super) fn compared(run: &Run, groups: Vec<Group>) -> String {
    Matrix::new(run, groups).tables()
}
