//! No circles of modules: what uses each other is one concept, and stands in one place or is split
//! so that one side knows nothing of the other.

use quarry_tidy::modules::{Circle, Modules};
use quarry_tidy::rust::RustFile;
use quarry_tidy::{Breach, expect_none};
use std::collections::BTreeSet;

/// A circle that is there on purpose.
struct Accepted {
    /// The folder whose children it is among, from `crates`.
    folder: &'static str,
    members: &'static [&'static str],
    reason: &'static str,
}

const ACCEPTED: &[Accepted] = &[];

impl Accepted {
    /// Whether this is the circle, or what is left of it.
    fn covers(&self, folder: &str, circle: &Circle) -> bool {
        self.folder == folder && circle.members.iter().all(|it| self.members.contains(&it.as_str()))
    }
}

/// All circles, each with the folder that it is in, from `crates`.
fn all_circles() -> Vec<(String, Circle)> {
    let files = RustFile::all();
    let crates: BTreeSet<&str> = files
        .iter()
        .filter_map(|file| file.path.strip_prefix("crates/")?.split_once("/src/"))
        .map(|(name, _)| name)
        .collect();
    assert!(crates.len() >= 6, "crates are found: {crates:?}");
    let circles_of = |name: &&str| {
        let src = format!("{name}/src/");
        let circles = Modules::of(&format!("crates/{src}"), &files).circles();
        let named = move |circle: Circle| {
            (format!("{src}{}", circle.folder).trim_end_matches('/').to_owned(), circle)
        };
        circles.into_iter().map(named).collect::<Vec<_>>()
    };
    crates.iter().flat_map(circles_of).collect()
}

#[test]
fn modules_form_no_circles() {
    let circles = all_circles();
    let mut breaches = Vec::new();
    for (folder, circle) in &circles {
        if !ACCEPTED.iter().any(|accepted| accepted.covers(folder, circle)) {
            let Circle { members, way, .. } = circle;
            let message = format!("{} use each other: {}", members.join(", "), way.join(", "));
            breaches.push(Breach::new(&format!("crates/{folder}"), 0, message));
        }
    }
    for accepted in ACCEPTED {
        if !circles.iter().any(|(folder, circle)| accepted.covers(folder, circle)) {
            let message = format!("no circle any more: strike {:?} out here", accepted.members);
            breaches.push(Breach::new(accepted.folder, 0, message));
        }
    }
    expect_none("circles of modules", &breaches);
}
