//! Everything that the documentation names exists: links, files of the repository, options.

use quarry_tidy::methods::impls;
use quarry_tidy::rust::{RustFile, words};
use quarry_tidy::workspace::{root, text_files};
use quarry_tidy::{Breach, expect_none};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Targets of inline links and pictures, with their lines; code blocks and code spans are no links.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        if in_block {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("x");
        for (offset, _) in prose.match_indices("](") {
            let target = prose[offset + 2..].split(')').next().unwrap_or_default();
            found.push((index + 1, target.trim().to_owned()));
        }
    }
    found
}

/// The name that a heading gets as an anchor.
fn anchor(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .chars()
        .filter(|character| character.is_alphanumeric() || matches!(character, ' ' | '-' | '_'))
        .map(|character| if character == ' ' { '-' } else { character.to_ascii_lowercase() })
        .collect()
}

fn has_anchor(path: &Path, wanted: &str) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == wanted)
}

/// `path` without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                parts.pop();
            }
            Component::CurDir => {}
            other => parts.push(other),
        }
    }
    parts
}

#[test]
fn links_between_documents_resolve() {
    let mut breaches = Vec::new();
    let mut checked = 0;
    for file in text_files(&[".md"]) {
        for (line, target) in links(&file.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (name, fragment) = target.split_once('#').unwrap_or((&target, ""));
            let own = root().join(&file.path);
            let folder = own.parent().expect("a file lies in a folder");
            let path = if name.is_empty() { own.clone() } else { normal(&folder.join(name)) };
            if !path.starts_with(root()) || !path.exists() {
                breaches.push(Breach::new(&file.path, line, format!("no such file: {target}")));
            } else if !fragment.is_empty() && !has_anchor(&path, fragment) {
                breaches.push(Breach::new(&file.path, line, format!("no such heading: {target}")));
            }
        }
    }
    println!("{checked} links checked");
    expect_none("links", &breaches);
}

#[test]
fn links_are_found_in_prose_and_not_in_code() {
    let text = "See [a](b.md) and `[c](d.md)`.\n```\n[e](f.md)\n```\n![g](h.svg#i)";
    assert_eq!(links(text), [(1, "b.md".to_owned()), (5, "h.svg#i".to_owned())]);
    assert_eq!(
        anchor("## Life of one allocation: `malloc(100)`"),
        "life-of-one-allocation-malloc100"
    );
}

/// Code spans of a line.
fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[test]
fn files_named_in_documents_exist() {
    let mut breaches = Vec::new();
    for file in text_files(&[".md"]).into_iter().filter(|file| file.path != "CHANGELOG.md") {
        for (index, line) in file.text.lines().enumerate() {
            for span in code_spans(line).filter(|span| !span.contains([' ', '*', '<', '='])) {
                let is_path = ["malloc/", "bench/", "lab/", "scripts/", "docs/"]
                    .iter()
                    .any(|folder| span.starts_with(folder));
                if is_path && !root().join(span).exists() {
                    breaches.push(Breach::new(
                        &file.path,
                        index + 1,
                        format!("no such file: {span}"),
                    ));
                }
            }
        }
    }
    expect_none("files named", &breaches);
}

/// Lines of the code blocks of a document, or of the documentation of Rust code, that rustdoc runs.
fn example_lines(text: &str) -> String {
    // `runs`: in a code block, true if rustdoc runs the block; `None` outside of code blocks.
    let (mut runs, mut lines) = (None, String::new());
    for line in text.lines().map(str::trim_start) {
        let line = line.trim_start_matches("//!").trim_start_matches("///").trim_start();
        match (line.strip_prefix("```"), runs) {
            (Some(kind), None) => runs = Some(kind.is_empty() || kind.starts_with("rust")),
            (Some(_), Some(_)) => runs = None,
            (None, Some(true)) => lines = lines + line + "\n",
            (None, _) => {}
        }
    }
    lines
}

/// Names that the public crate's `lib.rs` re-exports, except those under the feature `internals`.
fn public_names(lib: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in lib.match_indices("\npub use ") {
        let is_internal = lib[..at].ends_with("#[cfg(feature = \"internals\")]");
        let path = lib[at..].split(';').next().unwrap_or_default();
        let list = path.rsplit("::").next().unwrap_or_default();
        let words = list.split(|c: char| !c.is_alphanumeric()).filter(|name| !name.is_empty());
        names.extend(words.filter(|_| !is_internal).map(str::to_owned));
    }
    names
}

/// Crates that declare the types of the public crate, itself first.
const DECLARE: [&str; 4] = ["quarry", "cache", "mm", "sys"];

/// Public methods that no example calls, with the reason.
const NOT_IN_EXAMPLES: [(&str, &str, &str); 5] = [
    ("CacheId", "array", "the crate does not export the type that it returns"),
    ("CacheId", "kind", "the crate does not export the type that it returns"),
    ("CacheId", "new_unchecked", "it is for tables inside the allocator; `new` checks"),
    ("FileBacking", "of_number", "only the feature `internals` has it"),
    ("Group", "enter_number", "only the feature `internals` has it"),
];

/// Names after `fn ` in the text of a block.
fn functions_of(block: &str) -> impl Iterator<Item = &str> {
    let end = |rest: &str| rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    block.split("fn ").skip(1).map(move |rest| &rest[..end(rest).unwrap_or(rest.len())])
}

/// Public methods of an exported type or trait, from the first crate that declares it.
fn public_methods<'a>(files: &'a [RustFile], name: &str) -> BTreeSet<&'a str> {
    let kinds = ["struct", "enum", "trait"].map(|kind| format!("pub {kind} {name}"));
    let of_crate = |folder: &str| {
        let sources = format!("malloc/{folder}/src/");
        files.iter().filter(|file| file.path.starts_with(&sources)).collect::<Vec<_>>()
    };
    let declares =
        |file: &&RustFile| kinds.iter().any(|kind| !words(&file.shipped, kind).is_empty());
    let sources = DECLARE.map(of_crate).into_iter().find(|sources| sources.iter().any(declares));
    let mut methods = BTreeSet::new();
    let sources = sources.unwrap_or_default().into_iter();
    for file in sources.filter(|file| file.shipped.contains(name)) {
        for at in words(&file.shipped, &kinds[2]) {
            methods
                .extend(functions_of(file.shipped[at..].split("\n}").next().unwrap_or_default()));
        }
        let own = impls(&file.shipped).into_iter();
        let own =
            own.filter(|it| it.of_trait.is_none() && it.of.last().is_some_and(|of| of == name));
        let own: Vec<String> = own.flat_map(|block| block.methods).collect();
        for line in file.text.lines().map(str::trim_start).filter(|line| line.starts_with("pub ")) {
            methods.extend(functions_of(line).filter(|method| own.iter().any(|it| it == method)));
        }
    }
    methods
}

#[test]
fn every_public_item_is_in_an_example_that_runs() {
    let lib = std::fs::read_to_string(root().join("malloc/quarry/src/lib.rs")).expect("lib.rs");
    let guides = [
        "docs/api.md",
        "docs/api-examples.md",
        "docs/budget.md",
        "docs/heaps.md",
        "docs/tenants.md",
        "docs/page-cache.md",
    ];
    let mut examples = String::new();
    for file in text_files(&[".rs", ".md"]) {
        if file.path.starts_with("malloc/quarry/src/") || guides.contains(&file.path.as_str()) {
            examples += &example_lines(&file.text);
        }
    }
    let names = public_names(&lib);
    assert!(names.len() > 50, "lib.rs exports {names:?}");
    let (files, mut lacking, mut methods) = (RustFile::all(), Vec::new(), 0);
    for name in names.iter().map(String::as_str).chain(["Quarry"]) {
        lacking.extend(words(&examples, name).is_empty().then(|| name.to_owned()));
        for method in public_methods(&files, name) {
            methods += 1;
            let is_used = [format!(".{method}("), format!("::{method}("), format!("fn {method}(")];
            let excepted = NOT_IN_EXAMPLES.iter().any(|(of, it, _)| (*of, *it) == (name, method));
            if !excepted && !is_used.iter().any(|call| examples.contains(call)) {
                lacking.push(format!("{name}::{method}"));
            }
        }
    }
    assert!(methods > 150, "{methods} methods are found");
    let breach =
        |name| Breach::new("malloc/quarry/src/lib.rs", 0, format!("no example has {name}"));
    expect_none("examples", &lacking.into_iter().map(breach).collect::<Vec<_>>());
    for guide in guides {
        assert!(lib.contains(&format!("include_str!(\"../../../{guide}\")")), "{guide} is tested");
    }
}

/// Names after `name: "` in the table of options, and before the tabs in that of the lab.
fn options_in_code() -> BTreeSet<String> {
    let read = |path| std::fs::read_to_string(root().join(path)).expect("the table exists");
    let text = read("malloc/mm/src/heap/options.rs");
    let names = text.split("name: \"").skip(1).filter_map(|rest| rest.split('"').next());
    let of_lab = read("lab/eras/src/slab/mechanisms.rs");
    let is_name = |name: &&str| name.bytes().all(|it| it.is_ascii_uppercase() || it == b'_');
    let others = of_lab.lines().filter_map(|line| Some(line.split_once("\\t")?.0)).filter(is_name);
    names.chain(others).map(str::to_owned).collect()
}

#[test]
fn every_option_is_documented_and_every_documented_option_exists() {
    let code = options_in_code();
    let both = ["STATS", "SLAM_MODE"].map(|name| code.contains(name));
    assert_eq!(both, [true; 2], "the tables of options are found: {code:?}");
    let text = std::fs::read_to_string(root().join("docs/options.md")).expect("docs/options.md");
    let documented: BTreeSet<String> = text
        .lines()
        .filter(|line| line.starts_with("| `QUARRY_"))
        .filter_map(|line| code_spans(line).next()?.strip_prefix("QUARRY_").map(str::to_owned))
        .collect();
    assert_eq!(documented, code, "docs/options.md and the tables in the code");
}
