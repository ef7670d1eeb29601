//! Descriptions of samples, and the one estimator of differences between them.
//!
//! Median and quartiles only describe a column of samples. [`of_pairs`] or [`of_samples`] estimates
//! the distance between two columns; [`judge`](crate::judge) calls them for the whole lab.

pub mod mmtests;
mod shift;

use mmtests::Sorted;

pub use shift::{Estimate, MIN_PAIRS, of_pairs, of_samples};

/// A 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Applies an increasing function to both ends.
    pub fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Self { low: of(self.low), high: of(self.high) }
    }
}

/// Median and quartiles of samples, which describe them and decide nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    /// The median.
    pub median: f64,
    /// First quartile.
    pub low: f64,
    /// Third quartile.
    pub high: f64,
}

impl Quartiles {
    /// Describes samples; `None` without samples.
    pub fn of(samples: Vec<f64>) -> Option<Self> {
        let median = median(&samples)?;
        let sorted = Sorted::new(samples)?;
        Some(Self { median, low: sorted.at(0.25), high: sorted.at(0.75) })
    }
}

/// Median of `values` (the mean of the middle two for an even number); `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    match sorted.len().is_multiple_of(2) {
        true => Some((sorted[sorted.len() / 2 - 1] + upper) / 2.0),
        false => Some(upper),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[2.0, 2.0, 9.0, 2.0]), Some(2.0));
    }
}
