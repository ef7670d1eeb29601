//! `--latencies FILE`: quantiles of the numbers that each run writes to a file.

use anyhow::{Context, Result};
use quarry_harness::results::{Direction, Metric};
use std::fs;
use std::path::Path;
use thiserror::Error;

/// The quantiles that become metrics, by name.
const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];
/// The quantile that decides unless `--metric` names another figure.
pub(super) const DECISIVE: &str = "p99";
/// Maximum length of the file.
const MOST_BYTES: u64 = 1 << 30;

/// A run did not write the file, or not as numbers.
#[derive(Debug, Error)]
#[error(
    "--latencies {0}; accepted: a file that each run writes, with a number at the beginning of \
         each line"
)]
pub(super) struct NoLatencies(String);

pub(super) fn names() -> [&'static str; QUANTILES.len()] {
    QUANTILES.map(|(name, _)| name)
}

pub(super) fn metrics() -> impl Iterator<Item = Metric> {
    names().into_iter().map(|name| Metric::new(name, "", Direction::Lower, name))
}

/// Removes the file of an earlier run.
pub(super) fn forget(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("--latencies {}", file.display()))
        }
        _ => Ok(()),
    }
}

/// The quantiles of the file that a run has written.
pub(super) fn read(file: &Path) -> Result<Vec<(String, f64)>, NoLatencies> {
    let failed = |why: String| NoLatencies(format!("{}: {why}", file.display()));
    let bytes = quarry_wary::read(file, MOST_BYTES)
        .map_err(|error| failed(format!("the run has not written it ({error})")))?;
    quantiles(&String::from_utf8_lossy(&bytes)).map_err(failed)
}

/// Reads the first field of each line. A first line of words is a heading.
fn quantiles(text: &str) -> Result<Vec<(String, f64)>, String> {
    let mut numbers = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let field = line.trim().split([',', ';', ' ', '\t']).next().unwrap_or_default();
        match field.parse::<f64>() {
            Ok(number) if number.is_finite() => numbers.push(number),
            _ if at == 0 || field.is_empty() => {}
            _ => return Err(format!("line {}: no number: {line:.60?}", at + 1)),
        }
    }
    if numbers.is_empty() {
        return Err("no number in it".to_owned());
    }
    numbers.sort_by(f64::total_cmp);
    let rank = |share: f64| (share * numbers.len() as f64).ceil().max(1.0) as usize - 1;
    Ok(QUANTILES.map(|(name, share)| (name.to_owned(), numbers[rank(share)])).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<f64> {
        quantiles(text).unwrap().into_iter().map(|(_, value)| value).collect()
    }

    #[test]
    fn a_quantile_is_the_least_number_that_enough_do_not_exceed() {
        let hundred: String = (1..=100).rev().map(|it| format!("{it}\n")).collect();
        assert_eq!(values(&hundred), [50.0, 90.0, 99.0, 100.0, 100.0]);
        assert_eq!(values("7"), [7.0; 5]);
        assert_eq!(values("1\n2\n"), [1.0, 2.0, 2.0, 2.0, 2.0]);
    }

    #[test]
    fn the_first_field_counts_and_a_heading_does_not() {
        assert_eq!(
            values("response-time,dns\n0.5,9\n1.5\t8\n\n2.5 ms\n"),
            [1.5, 2.5, 2.5, 2.5, 2.5]
        );
        assert_eq!(quantiles("1\nfast\n").unwrap_err(), "line 2: no number: \"fast\"");
        assert_eq!(quantiles("head\n").unwrap_err(), "no number in it");
        assert_eq!(quantiles("").unwrap_err(), "no number in it");
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let error = read(Path::new("/no/such")).unwrap_err().to_string();
        assert!(error.starts_with("--latencies /no/such: the run has not written it"), "{error}");
        assert!(forget(Path::new("/no/such")).is_ok());
    }
}
