//! Estimates the distance of one set of samples from another: the estimators of Hodges and Lehmann
//! (Annals of Mathematical Statistics 34, 1963) with the intervals of their rank tests.

use super::{Interval, median};

const TAIL: f64 = 0.025;
/// The quantile of the normal distribution with this tail.
const TAIL_QUANTILE: f64 = 1.959_964;
/// Up to this many samples of a side, or twice as many pairs, ranks have their exact distribution.
const EXACT: usize = 25;
/// Fewest pairs for an interval. The widest interval of `n` pairs runs from the smallest to the
/// largest difference. It misses the true centre with a probability of `2 * 0.5^n`, which is 6 %
/// for five pairs and 3 % for six.
pub const MIN_PAIRS: usize = 6;

/// A difference with its precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The most likely value.
    pub centre: f64,
    /// The 95 % interval; `None` with too few samples.
    pub interval: Option<Interval>,
}

impl Estimate {
    /// Applies an increasing function to centre and interval.
    pub fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Self { centre: of(self.centre), interval: self.interval.map(|it| it.map(&of)) }
    }
}

/// Estimates the centre of `differences` between pairs: the median of all means of two differences,
/// with the interval of Wilcoxon's signed-rank test. O(n^2 log n). `None` without differences.
pub fn of_pairs(differences: &[f64]) -> Option<Estimate> {
    let mut means = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
    for (index, one) in differences.iter().enumerate() {
        means.extend(differences[index..].iter().map(|other| (one + other) / 2.0));
    }
    between(means, signed_rank_cut(differences.len()))
}

/// Estimates the distance of `samples` above `others`: the median of all differences, with the
/// interval of the test of Mann and Whitney. O(n m log n m). `None` if a side is empty.
pub fn of_samples(samples: &[f64], others: &[f64]) -> Option<Estimate> {
    let differences = samples.iter().flat_map(|one| others.iter().map(move |other| one - other));
    between(differences.collect(), rank_sum_cut(samples.len(), others.len()))
}

/// Estimates from `values`, of which `cut` lie beyond each end of the interval.
fn between(mut values: Vec<f64>, cut: Option<usize>) -> Option<Estimate> {
    values.sort_unstable_by(f64::total_cmp);
    let centre = median(&values)?;
    let ends = |cut: usize| Interval { low: values[cut], high: values[values.len() - 1 - cut] };
    Some(Estimate { centre, interval: cut.map(ends) })
}

/// Returns how many sorted values of [`between`] the interval leaves out at each end: `k - 1` for
/// the largest `k` such that the rank statistic is below `k` with a probability of at most
/// [`TAIL`]. `None` if `k` is 0, because then even the interval of all values is too narrow.
fn cut(probabilities: impl IntoIterator<Item = f64>) -> Option<usize> {
    let mut below = 0.0;
    let sums = probabilities.into_iter().map(|probability| {
        below += probability;
        below
    });
    sums.take_while(|below| *below <= TAIL).count().checked_sub(1)
}

fn normal_cut(mean: f64, deviation: f64) -> Option<usize> {
    Some((mean - TAIL_QUANTILE * deviation - 0.5).max(0.0) as usize)
}

/// [`cut`] for the signed-rank statistic of `n` pairs, the sum of a random subset of 1..=n.
fn signed_rank_cut(n: usize) -> Option<usize> {
    let count = n as f64;
    if n > 2 * EXACT {
        let mean = count * (count + 1.0) / 4.0;
        return normal_cut(mean, (mean * (2.0 * count + 1.0) / 6.0).sqrt());
    }
    let mut probabilities = vec![0.0; n * (n + 1) / 2 + 1];
    probabilities[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..probabilities.len()).rev() {
            let with = sum.checked_sub(rank).map_or(0.0, |rest| probabilities[rest]);
            probabilities[sum] = (probabilities[sum] + with) / 2.0;
        }
    }
    cut(probabilities)
}

/// [`cut`] for the rank-sum statistic of `n` and `m` samples.
fn rank_sum_cut(n: usize, m: usize) -> Option<usize> {
    if n > EXACT || m > EXACT {
        let pairs = (n * m) as f64;
        return normal_cut(pairs / 2.0, (pairs * (n + m + 1) as f64 / 12.0).sqrt());
    }
    cut(rank_sum_probabilities(n, m))
}

/// Distribution of the rank-sum statistic, whose generating function is the Gaussian binomial
/// coefficient: the product of (1 - q^(m + i)) / (1 - q^i) for i = 1..=n.
fn rank_sum_probabilities(n: usize, m: usize) -> Vec<f64> {
    let mut ways = vec![0.0; n * m + 1];
    ways[0] = 1.0;
    for i in 1..=n {
        for sum in (m + i..ways.len()).rev() {
            ways[sum] -= ways[sum - m - i];
        }
        for sum in i..ways.len() {
            ways[sum] += ways[sum - i];
        }
    }
    let all: f64 = ways.iter().sum();
    ways.into_iter().map(|ways| ways / all).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn cuts_are_those_of_published_tables() {
        let signed_rank = [(5, None), (6, Some(0)), (8, Some(3)), (10, Some(8)), (20, Some(52))];
        for (n, critical) in signed_rank {
            assert_eq!(signed_rank_cut(n), critical, "{n} pairs");
            assert_eq!(signed_rank_cut(n).is_some(), n >= MIN_PAIRS);
        }
        let rank_sum = [
            (3, 3, None),
            (4, 4, Some(0)),
            (5, 5, Some(2)),
            (8, 10, Some(17)),
            (10, 10, Some(23)),
            (20, 20, Some(127)),
        ];
        for (n, m, critical) in rank_sum {
            assert_eq!(rank_sum_cut(n, m), critical, "{n} and {m} samples");
            assert_eq!(rank_sum_cut(m, n), critical, "{m} and {n} samples");
        }
    }

    #[test]
    fn the_normal_distribution_takes_over_where_it_fits() {
        // 434 is the published value for 50 pairs.
        assert_eq!(signed_rank_cut(50), Some(434));
        let mean = 50.0 * 51.0 / 4.0;
        let approximate = normal_cut(mean, (mean * 101.0 / 6.0_f64).sqrt()).unwrap();
        assert!(approximate.abs_diff(434) <= 2, "{approximate}");
        let exact = rank_sum_cut(25, 25).unwrap();
        let approximate = normal_cut(312.5, (625.0 * 51.0 / 12.0_f64).sqrt()).unwrap();
        assert!(approximate.abs_diff(exact) <= 2, "{approximate} for {exact}");
    }

    #[test]
    fn shifts_are_found_through_outliers() {
        let differences = [1.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.0, 90.0];
        let Estimate { centre, interval } = of_pairs(&differences).unwrap();
        let Interval { low, high } = interval.unwrap();
        assert!((0.95..1.1).contains(&centre), "{centre}");
        assert!(low > 0.7 && low <= centre && centre <= high, "{low}..{high}");
        let samples: Vec<f64> = (0..10).map(|n| 100.0 + f64::from(n)).collect();
        let others: Vec<f64> = (0..10).map(|n| 90.0 + f64::from(n)).collect();
        let Estimate { centre, interval } = of_samples(&samples, &others).unwrap();
        let Interval { low, high } = interval.unwrap();
        assert_eq!(centre, 10.0);
        assert!(low > 5.0 && high < 15.0 && (10.0 - low - (high - 10.0)).abs() < 1e-9);
        assert_eq!(of_pairs(&[]), None);
        assert_eq!(of_pairs(&[2.0]).unwrap(), Estimate { centre: 2.0, interval: None });
    }

    #[test]
    fn intervals_cover_as_often_as_they_say() {
        let mut random = StdRng::seed_from_u64(1);
        let mut draw = |count| -> Vec<f64> {
            // Skewed as times are: most values are small, a few are large.
            (0..count).map(|_| random.random_range(0.0_f64..1.0).powi(3)).collect()
        };
        let mut differences = |shift: f64| -> Vec<f64> {
            draw(15).into_iter().zip(draw(15)).map(|(one, other)| one - other + shift).collect()
        };
        let covers = |estimate: Option<Estimate>, shift: f64| {
            let Interval { low, high } = estimate.unwrap().interval.unwrap();
            (low..=high).contains(&shift)
        };
        let paired = (0..400).filter(|_| covers(of_pairs(&differences(0.3)), 0.3)).count();
        assert!((366..=396).contains(&paired), "{paired} of 400 paired");
        let mut samples =
            |shift: f64| -> Vec<f64> { draw(12).into_iter().map(|value| value + shift).collect() };
        let unpaired =
            (0..400).filter(|_| covers(of_samples(&samples(0.3), &samples(0.0)), 0.3)).count();
        assert!((366..=396).contains(&unpaired), "{unpaired} of 400 unpaired");
    }
}
