//! Every lock is visited: the file of a struct that has a lock names it in `visit_locks`, which
//! `fork` and the statistics of locks call.

use quarry_tidy::rust::{RustFile, line_of, words};
use quarry_tidy::{Breach, expect_none};

/// Crates whose locks the allocator takes.
const LOCKED: &[&str] = &[
    "malloc/sys/src/",
    "malloc/mm/src/",
    "malloc/cache/src/",
    "malloc/watch/src/",
    "lab/eras/src/",
    "malloc/quarry/src/",
];

/// The name that a lock is declared with: of a field, or of a static.
fn declared(code: &str, offset: usize) -> Option<&str> {
    let before = code[..offset].trim_end().strip_suffix(':')?;
    let start = before.rfind(|character: char| !(character.is_alphanumeric() || character == '_'));
    Some(&before[start.map_or(0, |start| start + 1)..]).filter(|name| !name.is_empty())
}

/// The bodies of all functions `visit_locks`.
fn visitors(code: &str) -> String {
    let bodies = words(code, "fn visit_locks").into_iter().filter_map(|start| {
        let open = start + code[start..].find('{')?;
        let mut depth = 0;
        let close = code[open..].find(|character| {
            depth += i32::from(character == '{') - i32::from(character == '}');
            depth == 0
        })?;
        Some(&code[open..open + close])
    });
    bodies.collect()
}

fn unvisited(file: &RustFile) -> Vec<(usize, String)> {
    let visitors = visitors(&file.shipped);
    let locks = words(&file.shipped, "CountedLock").into_iter().filter_map(|offset| {
        let name = declared(&file.shipped, offset)?;
        file.shipped[offset..].starts_with("CountedLock<").then_some((offset, name))
    });
    locks
        .filter(|(_, name)| words(&visitors, name).is_empty())
        .map(|(offset, name)| (line_of(&file.shipped, offset), name.to_owned()))
        .collect()
}

#[test]
fn every_lock_is_visited_in_its_file() {
    let (mut breaches, mut locks) = (Vec::new(), 0);
    for file in RustFile::all() {
        if !LOCKED.iter().any(|prefix| file.path.starts_with(prefix)) {
            continue;
        }
        locks += words(&visitors(&file.shipped), "visit").len();
        for (line, name) in unvisited(&file) {
            let message = format!("the lock `{name}` is in no `visit_locks` of this file");
            breaches.push(Breach::new(&file.path, line, message));
        }
    }
    assert!(locks >= 20, "{locks} locks are visited");
    expect_none("locks without a visit", &breaches);
}

#[test]
fn a_lock_without_a_visit_is_found() {
    let code = "struct Barn { sheaves: CountedLock<Sheaves>, rest: CountedLock<u8> }\n\
                impl Barn { fn visit_locks(&self, visit: &mut Visit<'_>) {\n\
                visit(\"barn->lock\", &self.sheaves); } }\n";
    let file = RustFile::new("malloc/mm/src/slab/barn.rs".into(), code.into());
    assert_eq!(unvisited(&file), [(1, "rest".to_owned())]);
}
