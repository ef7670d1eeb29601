//! Medians, paired ratios and bootstrap intervals; shifts and verdicts in modules of their own.
//!
//! Who wants to say which of two is better calls [`verdict::paired`] for columns of one run and
//! [`verdict::unpaired`] for columns of two: every part of the lab passes the same judgement.

pub mod mmtests;
mod shift;
pub mod verdict;

pub use shift::{Shift, mann_whitney, of_pairs as shift_of_pairs};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Fewest pairs from which an interval is computed: the smallest and largest of five values cover
/// the true median with less than 95 % (1 - 2 * 0.5^5 = 93.75 %), of six with more.
pub const MIN_PAIRS: usize = 6;

/// Resamples per interval; the end points of a 95 % interval then lie behind 250
/// resamples each.
const RESAMPLES: usize = 10_000;

/// A 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether the two have a value in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// A median with what is known of its precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// `None` below [`MIN_PAIRS`] values.
    pub interval: Option<Interval>,
}

/// Median of `values` (the mean of the middle two where their number is even); `None` of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    median_in_place(&mut sorted)
}

fn median_in_place(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let even = values.len().is_multiple_of(2);
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if even {
        let lower = below.iter().copied().max_by(f64::total_cmp)?;
        Some((lower + upper) / 2.0)
    } else {
        Some(upper)
    }
}

/// Geometric mean of positive values; `None` of none.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (logs / values.len() as f64).exp())
}

/// Median of `values` and its percentile-bootstrap interval. The resampling has a seed of its own
/// that never changes, so that equal samples give equal intervals.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    resampled(values, RESAMPLES)
}

fn resampled(values: &[f64], resamples: usize) -> Option<Estimate> {
    let median = median(values)?;
    if values.len() < MIN_PAIRS {
        return Some(Estimate { median, interval: None });
    }
    let mut random = StdRng::seed_from_u64(0x5eed);
    let mut resample = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..resamples)
        .filter_map(|_| {
            resample.fill_with(|| values[random.random_range(0..values.len())]);
            median_in_place(&mut resample)
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    let tail = medians.len() / 40;
    let interval = Interval { low: medians[tail], high: medians[medians.len() - 1 - tail] };
    Some(Estimate { median, interval: Some(interval) })
}

/// `variant / baseline` of every round, `None` where either is missing or nothing can be divided by
/// it. Each slice has one entry per round.
pub fn paired_ratios(variant: &[Option<f64>], baseline: &[Option<f64>]) -> Vec<Option<f64>> {
    let ratio = |(v, b): (&Option<f64>, &Option<f64>)| Some((*v)? / (*b).filter(|b| *b != 0.0)?);
    variant.iter().zip(baseline).map(ratio).collect()
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

    #[test]
    fn geometric_means() {
        assert_eq!(geometric_mean(&[]), None);
        let mean = geometric_mean(&[1.0, 4.0, 16.0]).unwrap();
        assert!((mean - 4.0).abs() < 1e-12);
    }

    #[test]
    fn ratios_need_both_halves_of_a_pair() {
        let ratios = paired_ratios(&[Some(2.0), None, Some(9.0)], &[Some(4.0), Some(1.0), None]);
        assert_eq!(ratios, [Some(0.5), None, None]);
        let ratios = paired_ratios(&[Some(2.0), Some(0.0)], &[Some(0.0), Some(4.0)]);
        assert_eq!(ratios, [None, Some(0.0)], "nothing is so many times nothing");
    }

    #[test]
    fn few_values_have_no_interval() {
        let estimate = estimate(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(estimate, Estimate { median: 3.0, interval: None });
        assert_eq!(super::estimate(&[]), None);
    }

    #[test]
    fn equal_values_have_an_interval_of_one_point() {
        let interval = estimate(&[1.25; 10]).unwrap().interval.unwrap();
        assert_eq!(interval, Interval { low: 1.25, high: 1.25 });
    }

    #[test]
    fn intervals_hold_the_median_and_stay_within_the_values() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let estimate = estimate(&values).unwrap();
        let Interval { low, high } = estimate.interval.unwrap();
        assert!(1.0 <= low && low < estimate.median && estimate.median < high && high <= 20.0);
        // The binomial interval of the median of 20 values runs from the 6th to the 15th.
        assert!((5.0..=7.5).contains(&low) && (13.5..=16.0).contains(&high), "{low}..{high}");
        assert_eq!(estimate, super::estimate(&values).unwrap(), "same samples, same interval");
    }

    /// Of many samples of a known distribution, about 95 % have an interval around its median.
    #[test]
    fn intervals_cover_as_often_as_they_say() {
        let mut random = StdRng::seed_from_u64(1);
        let trials = 200;
        let covered = (0..trials)
            .filter(|_| {
                let values: Vec<f64> = (0..15).map(|_| random.random_range(0.0..1.0)).collect();
                let Interval { low, high } = resampled(&values, 1000).unwrap().interval.unwrap();
                (low..=high).contains(&0.5)
            })
            .count();
        assert!((178..=200).contains(&covered), "{covered} of {trials}");
    }

    #[test]
    fn overlap_is_symmetric_and_counts_touching_ends() {
        let of = |low, high| Interval { low, high };
        assert!(of(0.0, 1.0).overlaps(&of(1.0, 2.0)) && of(1.0, 2.0).overlaps(&of(0.0, 1.0)));
        assert!(!of(0.0, 0.9).overlaps(&of(1.0, 2.0)) && !of(1.0, 2.0).overlaps(&of(0.0, 0.9)));
        assert!(of(0.0, 9.0).overlaps(&of(3.0, 4.0)));
    }
}
