//! The comparison that mmtests printed in October 2017, character by character.
//!
//! Times are printed as in its "variable time" tables (document 001), with quartiles and means of
//! the best samples; rates as in its "multiple operations" tables (document 000), with harmonic
//! means. A positive percentage is better in both.

use quarry_harness::judge::Selection;
use quarry_harness::results::Direction;
use quarry_harness::statistics::mmtests::{Sorted, pdiff, pndiff};
use std::fmt;

/// Width in letters of a value, and of a percentage without its parentheses.
const VALUE: usize = 12;
const PERCENT: usize = 7;
const COLUMN: usize = VALUE + PERCENT + " (%)".len();

type Difference = fn(f64, f64) -> f64;
/// A statistic: its name, its formula, and its comparison.
pub(super) type Statistic = (&'static str, fn(&Sorted) -> f64, Difference);

pub(super) const OF_TIMES: [Statistic; 17] = [
    ("Min", Sorted::min, pndiff),
    ("1st-qrtle", |x| x.at(0.25), pndiff),
    ("2nd-qrtle", |x| x.at(0.50), pndiff),
    ("3rd-qrtle", |x| x.at(0.75), pndiff),
    ("Max-90%", |x| x.at(0.90), pndiff),
    ("Max-95%", |x| x.at(0.95), pndiff),
    ("Max-99%", |x| x.at(0.99), pndiff),
    ("Max", Sorted::max, pndiff),
    ("Amean", Sorted::amean, pndiff),
    ("Stddev", Sorted::stddev, pndiff),
    ("Coeff", Sorted::coeff, pndiff),
    ("Best99%Amean", |x| x.best_amean(99), pndiff),
    ("Best95%Amean", |x| x.best_amean(95), pndiff),
    ("Best90%Amean", |x| x.best_amean(90), pndiff),
    ("Best75%Amean", |x| x.best_amean(75), pndiff),
    ("Best50%Amean", |x| x.best_amean(50), pndiff),
    ("Best25%Amean", |x| x.best_amean(25), pndiff),
];

pub(super) const OF_RATES: [Statistic; 8] = [
    ("Min", Sorted::min, pdiff),
    ("Hmean", Sorted::hmean, pdiff),
    ("Stddev", Sorted::stddev, pndiff),
    ("CoeffVar", Sorted::coeff, pndiff),
    ("Max", Sorted::max, pdiff),
    ("BHmean-50", |x| x.best_hmean(50), pdiff),
    ("BHmean-95", |x| x.best_hmean(95), pdiff),
    ("BHmean-99", |x| x.best_hmean(99), pdiff),
];

pub(super) struct Table {
    /// The statistics of this kind of table; their names determine the width of the first column.
    pub(super) statistics: &'static [Statistic],
    pub(super) kernels: Vec<String>,
    pub(super) decimals: usize,
    pub(super) lines: Vec<PrintedRow>,
}

pub(super) struct PrintedRow {
    pub(super) statistic: &'static str,
    pub(super) operation: String,
    /// Value and percentage for each kernel.
    pub(super) cells: Vec<(f64, f64)>,
}

pub(super) fn table(selection: &Selection<'_>) -> Table {
    let statistics: &'static [Statistic] = match selection.metric.direction {
        Direction::Higher => &OF_RATES,
        Direction::Lower | Direction::None => &OF_TIMES,
    };
    let with_tasks = selection.has_tasks();
    let mut lines = Vec::new();
    for &(statistic, compute, difference) in statistics {
        for &row in &selection.rows {
            let value = |samples| Sorted::new(samples).map_or(f64::NAN, |x| compute(&x));
            let values: Vec<f64> = selection
                .columns
                .iter()
                .map(|column| value(selection.single_values(column, row, selection.metric)))
                .collect();
            let cells = values.iter().map(|value| cell(*value, values[0], difference)).collect();
            lines.push(PrintedRow { statistic, operation: row.label(with_tasks), cells });
        }
    }
    Table {
        statistics,
        kernels: selection.columns.iter().map(|column| column.label.clone()).collect(),
        decimals: selection.metric.decimals.into(),
        lines,
    }
}

/// Returns a value and its percentage; both are 0 if the value or the base is missing.
fn cell(value: f64, base: f64, difference: Difference) -> (f64, f64) {
    let is_missing = |value: f64| value.is_nan() || value == -1.0;
    match (is_missing(value), is_missing(base)) {
        (false, false) => (value, difference(value, base)),
        _ => (0.0, 0.0),
    }
}

/// Splits a kernel's name into two lines at the first hyphen that does not begin `-rc`.
fn split(kernel: &str) -> (&str, &str) {
    let Some(mut at) = kernel.find('-') else { return (kernel, "") };
    if kernel[at..].starts_with("-rc") {
        at = kernel[at + 1..].find('-').map_or(kernel.len(), |next| at + 1 + next);
    }
    (&kernel[..at], kernel[at..].trim_start_matches('-'))
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statistics = self.statistics.iter().map(|it| it.0.len()).max().unwrap_or(0);
        let operations = self.lines.iter().map(|line| line.operation.chars().count());
        let operations = operations.max().unwrap_or(0);
        let blank = statistics + 1 + operations;
        for part in [|name| split(name).0, |name| split(name).1] as [fn(&str) -> &str; 2] {
            write!(f, "{:blank$}", "")?;
            for kernel in &self.kernels {
                write!(f, "{:>COLUMN$}", part(kernel))?;
            }
            writeln!(f)?;
        }
        for (index, line) in self.lines.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{:statistics$} {:operations$}", line.statistic, line.operation)?;
            for (value, percent) in &line.cells {
                write!(f, "{value:VALUE$.*} ({percent:PERCENT$.2}%)", self.decimals)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kernels_break_at_their_first_hyphen() {
        assert_eq!(split("4.14.0-rc4-janbatch-v1r1"), ("4.14.0-rc4", "janbatch-v1r1"));
        assert_eq!(split("4.9.0-vanilla"), ("4.9.0", "vanilla"));
        assert_eq!(split("slub+order0"), ("slub+order0", ""));
        assert_eq!(split("5.0-rc1"), ("5.0-rc1", ""));
    }

    #[test]
    fn what_cannot_be_computed_is_printed_as_nothing() {
        assert_eq!(cell(f64::NAN, 1.0, pdiff), (0.0, 0.0));
        assert_eq!(cell(3.0, -1.0, pdiff), (0.0, 0.0));
        assert_eq!(cell(3.0, 2.0, pdiff), (3.0, 50.0));
    }
}
