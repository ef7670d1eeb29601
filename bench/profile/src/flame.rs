//! A flame graph: the width of a box shows one value of the profile, such as the bytes in use.

use crate::profile::{Profile, VALUES, View};
use anyhow::{Context, Result, ensure};
use inferno::flamegraph::{self, Options};
use std::io::Write;

/// Writes a flame graph as SVG. Fails if the value is 0 in all stacks.
pub(crate) fn write(profile: &Profile, shown: View, out: impl Write) -> Result<()> {
    let (name, unit) = VALUES[shown.space()];
    let mut lines: Vec<String> = profile
        .stacks
        .iter()
        .filter(|stack| stack.values[shown.space()] > 0)
        .map(|stack| {
            let functions = stack.lines().rev().map(|line| line.function.replace(';', ":"));
            let path = functions.collect::<Vec<_>>().join(";");
            format!("{path} {}", stack.values[shown.space()])
        })
        .collect();
    ensure!(!lines.is_empty(), "the profile has no {name}: there is nothing to draw");
    lines.sort_unstable();
    let mut options = Options::default();
    let samples = crate::text::counted(profile.samples as i64, "sample");
    options.title = format!("{}: {name}, estimated from {samples}", profile.process);
    options.count_name = unit.to_owned();
    options.no_sort = true;
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), out)
        .context("drawing the flame graph")
}
