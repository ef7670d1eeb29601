//! `--metric`: a figure that the program prints, found by a regular expression.

use anyhow::{Result, bail};
use quarry_harness::results::{Direction, Metric};
use quarry_harness::usage::Usage;
use regex::bytes::Regex;
use thiserror::Error;

const ACCEPTED: &str = "around the number, of a regular expression such as \
                        'higher:(?<rate>[0-9.]+) requests per second'";
/// The names of the metrics of every run.
pub(super) const MEASURED: [&str; 9] =
    ["wall", "cpu", "user", "sys", "peak RSS", "idle RSS", "faults", "huge pages", "switches"];
/// Maximum number of lines of a program's output that [`NoNumber`] shows, and of letters of each.
const SHOWN: (usize, usize) = (3, 60);

/// A program printed no number for `--metric`: the regular expression, and the end of the output.
#[derive(Debug, Error)]
#[error("--metric '{0}' finds no number in what the program printed; the end of that: {1}")]
pub(super) struct NoNumber(Regex, String);

#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) direction: Direction,
    pub(super) regex: Regex,
}

impl Figure {
    /// Reads all options; fails on a mistake.
    pub(super) fn parse_all(texts: &[String]) -> Result<Vec<Self>> {
        texts.iter().map(|text| Self::parse(text)).collect()
    }

    /// Reads `[higher:|lower:]REGEX` with one capture group. The figure has the name of the group,
    /// or else REGEX is its name. Fails on a mistake.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (direction, pattern) = match text.split_once(':') {
            Some(("higher", rest)) => (Direction::Higher, rest),
            Some(("lower", rest)) => (Direction::Lower, rest),
            _ => (Direction::None, text),
        };
        let regex = Regex::new(pattern).map_err(|error| {
            // The lines before the last one only show the place of the mistake.
            let error = error.to_string();
            let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Usage(format!("--metric {text}: {why}; accepted: one capture group, {ACCEPTED}"))
        })?;
        let groups = regex.captures_len() - 1;
        if groups != 1 {
            bail!(Usage(format!(
                "--metric {text}: {groups} capture groups; accepted: one, {ACCEPTED}"
            )));
        }
        let name = regex.capture_names().flatten().next().unwrap_or(pattern);
        // In a table of Markdown a bar would end the cell.
        let name = name.replace('|', "/");
        if MEASURED.contains(&&*name) {
            bail!(Usage(format!(
                "--metric {text}: {name} is measured anyway; give the group another name"
            )));
        }
        Ok(Self { name, direction, regex })
    }

    pub(super) fn metric(&self) -> Metric {
        Metric::new(&self.name, "", self.direction, &self.name)
    }

    /// Returns the last number on standard output, or else on standard error, that matches.
    pub(super) fn find(&self, stdout: &[u8], stderr: &[u8]) -> Result<f64, NoNumber> {
        let found = self.find_in(stdout).or_else(|| self.find_in(stderr));
        found.ok_or_else(|| NoNumber(self.regex.clone(), end_of(&[stdout, stderr].join(&b'\n'))))
    }

    fn find_in(&self, output: &[u8]) -> Option<f64> {
        let found = self.regex.captures_iter(output).last()?.get(1)?;
        let text = std::str::from_utf8(found.as_bytes()).ok()?.replace([',', '_', ' '], "");
        text.parse().ok().filter(|value: &f64| value.is_finite())
    }
}

fn end_of(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let lines = text.lines().rev().filter(|line| !line.trim().is_empty());
    let short = |line: &str| format!("{:?}", line.chars().take(SHOWN.1).collect::<String>());
    let mut last: Vec<String> = lines.take(SHOWN.0).map(short).collect();
    last.reverse();
    if last.is_empty() { "nothing".to_owned() } else { last.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_match_counts() {
        let figure = Figure::parse(r"higher:(?<rate>[\d,.]+) per second").unwrap();
        assert_eq!((figure.name.as_str(), figure.direction), ("rate", Direction::Higher));
        let output = b"1.5 per second\nthen\n12,345.5 per second\n";
        assert_eq!(figure.find(output, b"7 per second").unwrap(), 12345.5);
        assert_eq!(figure.find(b"nothing", b"7 per second").unwrap(), 7.0);
    }

    #[test]
    fn names_and_directions_are_optional() {
        let figure = Figure::parse(r"lower:Throughput: (\d+)").unwrap();
        assert_eq!((&*figure.name, figure.direction), (r"Throughput: (\d+)", Direction::Lower));
        assert_eq!(figure.find(b"Throughput: 7", b"").unwrap(), 7.0);
        assert_eq!(Figure::parse(r"(\d+) (?:a|b)").unwrap().name, r"(\d+) (?:a/b)");
    }

    #[test]
    fn the_last_lines_show_why_nothing_is_found() {
        let figure = Figure::parse("([0-9,]+) knots").unwrap();
        let why = |stdout: &[u8]| figure.find(stdout, b"\x1b[1mbad\n").unwrap_err().to_string();
        let start = "--metric '([0-9,]+) knots' finds no number in what the program printed; ";
        assert_eq!(
            why(b", knots"),
            format!(r#"{start}the end of that: ", knots", "\u{{1b}}[1mbad""#)
        );
        assert!(why(b"a\n\nb\nc\n\n").ends_with(r#": "b", "c", "\u{1b}[1mbad""#));
        let nothing = figure.find(b"", b"\n").unwrap_err().to_string();
        assert_eq!(nothing, format!("{start}the end of that: nothing"));
    }

    #[test]
    fn wrong_ones_say_what_is_accepted() {
        let error = |text| format!("{:#}", Figure::parse(text).unwrap_err());
        assert!(
            error("(").starts_with("--metric (: unclosed group; accepted: one"),
            "{}",
            error("(")
        );
        assert!(error("a").starts_with("--metric a: 0 capture groups; accepted: one"));
        assert!(error("(a)(b)").starts_with("--metric (a)(b): 2 capture groups"));
        assert!(error("(?<user>a)").contains("user is measured anyway"));
    }
}
