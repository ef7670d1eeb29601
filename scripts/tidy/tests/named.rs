//! A program can name each type that it gets from the public crate, or gives to it.

use quarry_tidy::rust::{RustFile, words};
use quarry_tidy::workspace::root;
use quarry_tidy::{Breach, expect_none};
use std::collections::BTreeSet;

/// Names that every program has; an `Object` is a `NonNull<u8>`.
const COMMON: &str = "AsRef BorrowedFd Duration File Fn FnMut FnOnce Future Into Item Iterator \
    Layout MaybeUninit NonNull Object Option OwnedFd Path Range RangeBounds Result Self Send Sync";
/// Functions that only layers of Quarry call, of types that programs have as well.
const OF_LAYERS: [&str; 2] = ["fn array(self)", "fn kind(self)"];

/// The crate's types by the folder that defines them, from what its `lib.rs` exports.
fn exported(lib: &str) -> Vec<(String, String)> {
    let mut found = vec![("quarry".to_owned(), "Quarry".to_owned())];
    for (at, use_of) in lib.match_indices("\npub use ") {
        let path = lib[at + use_of.len()..].split(';').next().unwrap_or_default();
        let folder = path.strip_prefix("quarry_").and_then(|rest| rest.split("::").next());
        let list = path.rsplit("::").next().unwrap_or_default();
        let names = list.split(|c: char| !c.is_alphanumeric());
        let types = names.filter(|name| name.starts_with(char::is_uppercase));
        found.extend(types.map(|name| (folder.unwrap_or("quarry").to_owned(), name.to_owned())));
    }
    found
}

/// The public parts of a type in a file: its fields, the functions of its `impl` blocks, and those
/// of a trait.
fn signatures<'a>(file: &'a RustFile, name: &str) -> Vec<&'a str> {
    let mut found = vec![];
    for block in file.shipped.split("\n}") {
        let begins = ["\npub struct ", "\npub trait ", "\nimpl"];
        let Some(at) = begins.iter().find_map(|it| block.rfind(it)) else { continue };
        let block = &block[at..];
        let head = block.split('{').next().unwrap_or_default();
        let of = head.split_once(" for ").map_or(head, |_| "");
        let of = of.split_once("> ").map_or(of, |(_, rest)| rest);
        if words(of, name).first().is_none_or(|at| of[..*at].contains('<')) {
            continue;
        }
        let begin = if head.starts_with("\npub trait") { "\n    fn " } else { "\n    pub " };
        for (at, _) in block.match_indices(begin) {
            let item = &block[at..];
            let is_function = !words(item.lines().nth(1).unwrap_or_default(), "fn").is_empty();
            let ends: &[char] = if is_function { &['{', ';'] } else { &[',', '='] };
            found.push(item.split(ends).next().unwrap_or_default());
        }
    }
    found
}

#[test]
fn every_type_in_a_public_signature_can_be_named() {
    let lib = std::fs::read_to_string(root().join("malloc/quarry/src/lib.rs")).expect("lib.rs");
    let types = exported(&lib);
    let mut known: BTreeSet<&str> = COMMON.split_whitespace().collect();
    known.extend(types.iter().map(|(_, name)| name.as_str()));
    let (files, mut breaches, mut seen) = (RustFile::all(), vec![], 0);
    for (folder, name) in &types {
        let is_defined = |file: &&RustFile| {
            let kinds = ["struct", "enum", "trait"];
            file.path.starts_with("malloc/quarry/src/")
                && kinds.iter().any(|kind| file.shipped.contains(&format!("pub {kind} {name}")))
        };
        // The crate's modules export some types of the page cache as their own.
        let is_other = folder == "quarry" && !files.iter().any(|file| is_defined(&file));
        let folder = format!("malloc/{}/src/", if is_other { "cache" } else { folder });
        for file in files.iter().filter(|file| file.path.starts_with(&folder)) {
            let found = signatures(file, name).into_iter();
            for signature in found.filter(|it| !OF_LAYERS.iter().any(|part| it.contains(part))) {
                seen += 1;
                let parts = signature.split(|c: char| !c.is_alphanumeric() && c != '_');
                let unknown = parts.filter(|part| {
                    part.starts_with(char::is_uppercase)
                        && part.chars().any(char::is_lowercase)
                        && !known.contains(part)
                });
                breaches.extend(unknown.map(|part| {
                    let of = signature.trim().lines().next().unwrap_or_default();
                    Breach::new(&file.path, 0, format!("{part} of {name}: {of}"))
                }));
            }
        }
    }
    assert!(seen > 300, "{seen} signatures of {} types", types.len());
    expect_none("types without a name", &breaches);
}
