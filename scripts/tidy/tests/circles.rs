//! No circles of modules: modules that use each other are one concept. They stand in one file, or
//! are split so that one side knows nothing of the other. `data/circles.txt` lists the circles that
//! are still to be split; a circle that has lost a member, or is gone, must be cut from the list.

use quarry_tidy::modules::{Circle, Modules};
use quarry_tidy::rust::RustFile;
use quarry_tidy::workspace::sources_of;
use quarry_tidy::{Breach, expect_none};
use std::collections::BTreeSet;

const LIST: &str = "scripts/tidy/data/circles.txt";

/// The listed circles: a folder, and its members.
fn listed() -> Vec<(&'static str, BTreeSet<&'static str>)> {
    let lines = include_str!("../data/circles.txt").lines();
    let circles = lines.filter(|line| !line.starts_with('#')).map(|line| {
        let (folder, members) = line.split_once(": ").expect("a line is `FOLDER: MODULE, MODULE`");
        (folder, members.split(", ").collect())
    });
    circles.collect()
}

#[test]
fn modules_form_no_circles_but_the_listed_ones() {
    let files = RustFile::all();
    let crates: BTreeSet<&str> = files.iter().filter_map(|file| sources_of(&file.path)).collect();
    assert!(crates.len() >= 9, "crates are found: {crates:?}");
    let mut gone = listed();
    let mut breaches = Vec::new();
    for src in crates {
        for Circle { folder, members, way } in Modules::of(src, &files).circles() {
            let folder = format!("{src}{folder}");
            let folder = folder.trim_end_matches('/');
            let found: BTreeSet<&str> = members.iter().map(String::as_str).collect();
            if let Some(at) = gone.iter().position(|it| *it == (folder, found.clone())) {
                gone.swap_remove(at);
                continue;
            }
            let members = members.join(", ");
            let was_larger =
                gone.iter().any(|(other, all)| *other == folder && found.is_subset(all));
            let message = match was_larger {
                true => format!("is smaller: write `{folder}: {members}` into {LIST}"),
                false => format!("{members} use each other: {}", way.join(", ")),
            };
            breaches.push(Breach::new(folder, 0, message));
        }
    }
    for (folder, members) in gone {
        let members: Vec<&str> = members.into_iter().collect();
        let message = format!("{}: is no circle any more: cut it from {LIST}", members.join(", "));
        breaches.push(Breach::new(folder, 0, message));
    }
    expect_none("circles of modules", &breaches);
}
