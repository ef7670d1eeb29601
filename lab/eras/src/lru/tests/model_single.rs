//! `single` under the model checker.

use super::model::{add_and_truncate, explore, release_and_scan};
use super::*;

#[test]
fn single_adds_and_truncates() {
    explore(300, || add_and_truncate(Single));
}

#[test]
fn single_releases_and_scans() {
    explore(300, || release_and_scan(Single));
}
