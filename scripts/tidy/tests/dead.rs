//! Items that nothing names: the compiler warns of no `pub` item that has no caller.

use quarry_tidy::rust::{RustFile, line_of};
use quarry_tidy::{Breach, expect_none};
use std::collections::HashMap;

const KINDS: [&str; 7] = ["fn", "struct", "enum", "trait", "const", "static", "type"];

/// The words of blanked code, with their offsets.
fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |byte: char| byte.is_alphanumeric() || byte == '_';
    code.split(move |byte| !is_word(byte))
        .filter(|word| !word.is_empty())
        .map(|word| (word.as_ptr().addr() - code.as_ptr().addr(), word))
}

/// The name that a line declares for other modules, unless C calls it.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.trim_start().strip_prefix("pub")?.split_whitespace().peekable();
    words.next_if(|word| word.starts_with('('));
    let mut kind = words.find(|word| !matches!(*word, "unsafe" | "async"))?;
    if kind == "extern" {
        return None;
    }
    if kind == "const" && words.peek().is_some_and(|next| matches!(*next, "fn" | "unsafe")) {
        kind = words.find(|word| *word == "fn")?;
    }
    let name = words.next()?.split(|byte: char| !byte.is_alphanumeric() && byte != '_').next()?;
    (KINDS.contains(&kind) && name != "_").then_some(name)
}

#[test]
fn every_public_item_is_named_somewhere() {
    let files = RustFile::all();
    let mut times = HashMap::<&str, usize>::new();
    for (_, word) in files.iter().flat_map(|file| words(&file.code)) {
        *times.entry(word).or_default() += 1;
    }
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| !file.path.contains("/tests/")) {
        for line in file.code.lines() {
            if let Some(name) = declared(line)
                && times.get(name) == Some(&1)
                // An example in the documentation calls it.
                && !file.text.contains(&format!("::{name}("))
            {
                let offset = line.as_ptr().addr() - file.code.as_ptr().addr();
                let message = format!("{name} is named nowhere else: delete it, or test it");
                breaches.push(Breach::new(&file.path, line_of(&file.code, offset), message));
            }
        }
    }
    expect_none("public items", &breaches);
}

#[test]
fn a_declaration_says_its_name() {
    assert_eq!(declared("    pub const fn size_of_it(self) -> u32 {"), Some("size_of_it"));
    assert_eq!(declared("pub(crate) unsafe fn free(pointer: *mut u8) {"), Some("free"));
    assert_eq!(declared("pub const MOST: usize = 4;"), Some("MOST"));
    assert_eq!(declared("pub struct Page<'a>(&'a u8);"), Some("Page"));
    assert_eq!(declared("pub unsafe extern \"C\" fn malloc(size: usize)"), None);
    assert_eq!(declared("pub use inner::Thing;"), None);
    assert_eq!(declared("fn own() {}"), None);
}
