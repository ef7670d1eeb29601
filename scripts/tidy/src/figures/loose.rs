//! Measured figures outside all marks.
//!
//! A figure is a number with a decimal point, a number before a unit, or an interval in brackets.
//! The search skips code blocks, code spans, targets of links and marked blocks, and takes a number
//! after a word in `VERSIONED` for a version.

/// Words that a version follows.
const VERSIONED: [&str; 9] =
    ["version", "linux", "glibc", "rust", "stable", "mimalloc", "jemalloc", "gperftools", "debian"];

/// Units that make the number before them a figure.
const UNITS: [&str; 21] = [
    "ns", "us", "µs", "ms", "s", "seconds", "minutes", "KiB", "MiB", "GiB", "TiB", "KB", "MB",
    "GB", "kB", "bytes", "%", "per", "times", "x", "cycles",
];

/// A word of prose and its line, counted from 1.
struct Word<'a> {
    line: usize,
    text: &'a str,
}

/// Figures of `text` outside marks, with their lines.
#[must_use]
pub fn figures(text: &str) -> Vec<(usize, String)> {
    let (prose, unclosed) = prose(text);
    let words: Vec<Word<'_>> = prose
        .iter()
        .flat_map(|(line, text)| {
            let parts = text.split(|c: char| c.is_whitespace() || "/()*–|".contains(c));
            parts.filter(|part| !part.is_empty()).map(|text| Word { line: *line, text })
        })
        .collect();
    let mut found = Vec::new();
    if let Some(line) = unclosed {
        found.push((line, "a block without <!-- end -->".to_owned()));
    }
    for (index, word) in words.iter().enumerate() {
        let before = index.checked_sub(1).map_or("", |index| words[index].text);
        let after = words.get(index + 1).map_or("", |word| word.text);
        if let Some(figure) = figure(before, word.text, after) {
            found.push((word.line, figure));
        }
    }
    found
}

/// `text` without the punctuation around it.
fn bare(text: &str) -> &str {
    text.trim_matches(|c: char| !c.is_alphanumeric() && c != '%')
}

/// The figure that the word `text` is or begins, if any.
fn figure(before: &str, text: &str, after: &str) -> Option<String> {
    let word = bare(text);
    let digits = word.find(|c: char| !c.is_ascii_digit() && !".,".contains(c));
    let (number, unit) = word.split_at(digits.unwrap_or(word.len()));
    let is_version = VERSIONED.contains(&bare(before).to_lowercase().as_str());
    if is_version || !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if !unit.is_empty() {
        return UNITS.contains(&unit).then(|| word.to_owned());
    }
    let ends_phrase = text.ends_with([',', ';', ':', '.']);
    if !ends_phrase && UNITS.contains(&bare(after)) {
        return Some(format!("{word} {}", bare(after)));
    }
    let is_decimal = number.matches('.').count() == 1;
    let begins_interval = text.starts_with('[') && text.ends_with(',');
    (is_decimal || begins_interval).then(|| word.to_owned())
}

fn begins(line: &str) -> bool {
    line == "<!-- times -->" || line.starts_with("<!-- figures: ")
}

/// The lines of prose of `text`, and the line of the first block that lacks an end: it would hide
/// the lines up to the next end.
fn prose(text: &str) -> (Vec<(usize, String)>, Option<usize>) {
    let (mut lines, mut in_code, mut open, mut unclosed) = (Vec::new(), false, None, None);
    for (line, text) in (1..).zip(text.lines()) {
        let trimmed = text.trim();
        if trimmed.starts_with("```") {
            in_code = !in_code;
        } else if trimmed == "<!-- end -->" {
            open = None;
        } else if begins(trimmed) {
            unclosed = unclosed.or(open);
            open = Some(line);
        } else if !in_code && open.is_none() {
            lines.push((line, without_targets(&without_spans(text))));
        }
    }
    (lines, unclosed.or(open))
}

/// `line` with a word in place of each code span.
fn without_spans(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("code")
}

fn without_targets(line: &str) -> String {
    let mut parts = line.split("](");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push(']');
        kept += part.split_once(')').map_or("", |(_, rest)| rest);
    }
    kept
}
