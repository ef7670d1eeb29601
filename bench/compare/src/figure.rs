//! `--metric`: a figure that the program prints, found by a regular expression.

use anyhow::{Result, bail};
use quarry_harness::results::{Direction, Metric};
use quarry_harness::usage::Usage;
use regex::bytes::Regex;

const ACCEPTED: &str = "around the number, of a regular expression such as \
                        'higher:(?<rate>[0-9.]+) requests per second'";

#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) direction: Direction,
    pub(super) regex: Regex,
}

impl Figure {
    /// Reads all options; fails on a mistake.
    pub(super) fn parse_all(texts: &[String]) -> Result<Vec<Self>> {
        (1..).zip(texts).map(|(number, text)| Self::parse(text, number)).collect()
    }

    /// Reads `[higher:|lower:]REGEX` with one capture group. The group's name, if any, is the
    /// figure's name. `number` counts the options from 1. Fails on a mistake.
    pub(super) fn parse(text: &str, number: usize) -> Result<Self> {
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
        let name = regex.capture_names().flatten().next();
        let name = name.map_or_else(|| format!("metric {number}"), str::to_owned);
        if ["wall", "user", "sys", "peak RSS", "idle RSS", "faults", "huge pages", "switches"]
            .contains(&&*name)
        {
            bail!(Usage(format!(
                "--metric {text}: {name} is measured anyway; give the group another name"
            )));
        }
        Ok(Self { name, direction, regex })
    }

    pub(super) fn metric(&self) -> Metric {
        Metric::new(&self.name, "", self.direction, &self.name)
    }

    /// Returns the last number that the program printed and the expression matches.
    pub(super) fn find(&self, output: &[u8]) -> Option<f64> {
        let found = self.regex.captures_iter(output).last()?.get(1)?;
        let text = std::str::from_utf8(found.as_bytes()).ok()?.replace([',', '_', ' '], "");
        text.parse().ok().filter(|value: &f64| value.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_match_counts() {
        let figure = Figure::parse(r"higher:(?<rate>[\d,.]+) per second", 1).unwrap();
        assert_eq!((figure.name.as_str(), figure.direction), ("rate", Direction::Higher));
        let output = b"1.5 per second\nthen\n12,345.5 per second\n";
        assert_eq!(figure.find(output), Some(12345.5));
        assert_eq!(figure.find(b"nothing"), None);
        assert_eq!(figure.find(b", per second"), None, "no number");
    }

    #[test]
    fn names_and_directions_are_optional() {
        let figure = Figure::parse(r"Throughput: (\d+)", 2).unwrap();
        assert_eq!((figure.name.as_str(), figure.direction), ("metric 2", Direction::None));
        assert_eq!(figure.find(b"Throughput: 7"), Some(7.0));
    }

    #[test]
    fn wrong_ones_say_what_is_accepted() {
        let error = |text| format!("{:#}", Figure::parse(text, 1).unwrap_err());
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
