//! The figures of README.md and of the pages it leads to, all from recorded runs.
//!
//! A block between `<!-- figures: NAME -->` and `<!-- end -->` holds what [`blocks`] writes from
//! the tables that `scripts/results.sh` has recorded in `docs/results/peers.md` and
//! `docs/memory.md`. No figure is typed, so two pages cannot disagree. [`record`] reads the tables,
//! [`loose`] finds figures outside all marks.

pub mod blocks;
pub mod loose;
pub mod number;
pub mod record;

use blocks::Records;

/// Pages whose figures all stand between marks.
pub const PAGES: [&str; 5] = [
    "README.md",
    "docs/performance.md",
    "docs/engine-authors.md",
    "docs/kernel-developers.md",
    "docs/why.md",
];

/// The name of the block that `line` begins; `None` if it begins none.
fn begins(line: &str) -> Option<&str> {
    line.trim().strip_prefix("<!-- figures: ")?.strip_suffix(" -->")
}

/// `text` with every block filled from `records`. A block has the indent of its mark.
///
/// # Errors
/// A block without an end or with an unknown name, and records that lack data for a block.
pub fn fill(text: &str, records: &Records) -> Result<String, String> {
    let mut filled = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        filled += line;
        filled.push('\n');
        let Some(name) = begins(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        for written in blocks::write(name, records)?.lines() {
            filled += format!("{indent}{written}").trim_end();
            filled.push('\n');
        }
        let end = lines.find(|line| line.trim() == "<!-- end -->");
        filled += end.ok_or_else(|| format!("the block '{name}' has no <!-- end -->"))?;
        filled.push('\n');
    }
    Ok(filled)
}
