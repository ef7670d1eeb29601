//! No circles of modules: modules that use each other are one concept. They stand in one file, or
//! are split so that one side knows nothing of the other.

use quarry_tidy::modules::{Circle, Modules};
use quarry_tidy::rust::RustFile;
use quarry_tidy::workspace::sources_of;
use quarry_tidy::{Breach, expect_none};
use std::collections::BTreeSet;

#[test]
fn modules_form_no_circles() {
    let files = RustFile::all();
    let crates: BTreeSet<&str> = files.iter().filter_map(|file| sources_of(&file.path)).collect();
    assert!(crates.len() >= 9, "crates are found: {crates:?}");
    let mut breaches = Vec::new();
    for src in crates {
        for Circle { folder, members, way } in Modules::of(src, &files).circles() {
            let message = format!("{} use each other: {}", members.join(", "), way.join(", "));
            breaches.push(Breach::new(&format!("{src}{folder}"), 0, message));
        }
    }
    expect_none("circles of modules", &breaches);
}
