//! The rules of this repository, as tests: see `tests/` of this crate and `CONTRIBUTING.md`.
//!
//! A rule that no machine checks is forgotten, so layers, sizes, `unsafe`, atomics, licences, the
//! exported symbols, the links and the figures of the documentation are each a test here. This
//! library holds what the tests share: the tracked files, Rust text with comments and strings
//! blanked out, a parser for licence expressions, the graph of modules, and the blocks of figures.

pub mod figures;
pub mod licence;
pub mod methods;
pub mod modules;
pub mod rust;
pub mod workspace;

/// One breach of a rule: its place, and what to do about it.
#[derive(Debug)]
pub struct Breach {
    /// Path from the root of the repository.
    pub path: String,
    /// Line, counted from 1; 0 where the whole file is meant.
    pub line: usize,
    /// The fault, and what is accepted.
    pub message: String,
}

impl Breach {
    /// A breach in `path` at `line` (0 = the whole file).
    pub fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

/// Fails the running test with one line per breach.
///
/// # Panics
/// Where there is a breach.
#[track_caller]
pub fn expect_none(rule: &str, breaches: &[Breach]) {
    let lines: Vec<String> = breaches
        .iter()
        .map(|breach| format!("  {}:{}: {}", breach.path, breach.line, breach.message))
        .collect();
    assert!(breaches.is_empty(), "{rule}: {} breaches\n{}", breaches.len(), lines.join("\n"));
}
