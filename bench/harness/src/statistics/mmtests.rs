//! The statistics of mmtests as of October 2017, when the table of document 001 was made; document
//! 000, a year older, has a subset of them.

/// Samples in ascending order.
#[derive(Clone, Debug)]
pub struct Sorted(Vec<f64>);

impl Sorted {
    /// Sorts; `None` without samples.
    pub fn new(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_unstable_by(f64::total_cmp);
        (!samples.is_empty()).then_some(Self(samples))
    }

    /// The smallest sample.
    pub fn min(&self) -> f64 {
        self.0[0]
    }

    /// The largest sample.
    pub fn max(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// Arithmetic mean.
    pub fn amean(&self) -> f64 {
        amean(&self.0)
    }

    /// Harmonic mean; -1 if a sample is not positive.
    pub fn hmean(&self) -> f64 {
        hmean(&self.0)
    }

    /// Standard deviation with divisor n - 1, always about the arithmetic mean; NaN of one sample.
    pub fn stddev(&self) -> f64 {
        let mean = self.amean();
        let squares: f64 = self.0.iter().map(|x| (x - mean).powi(2)).sum();
        (squares / (self.0.len() as f64 - 1.0)).sqrt()
    }

    /// Standard deviation in percent of the arithmetic mean.
    pub fn coeff(&self) -> f64 {
        self.stddev() * 100.0 / self.amean()
    }

    /// The sample at a fraction of the largest index, rounded to the nearest.
    pub fn at(&self, fraction: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * fraction + 0.5) as usize]
    }

    /// `Best<percent>%Amean`: the mean of the lowest `percent` % of the samples and of one more, as
    /// mmtests computed it until d1acdee4 (2019); the mean of all samples if that share has none.
    pub fn best_amean(&self, percent: usize) -> f64 {
        match self.share(percent) {
            0 => self.amean(),
            count => amean(&self.0[..=count.min(self.0.len() - 1)]),
        }
    }

    /// `B<mean>-<percent>` of rates: the mean of the samples above the lowest `percent` %.
    pub fn best_hmean(&self, percent: usize) -> f64 {
        hmean(&self.0[self.share(percent).min(self.0.len() - 1)..])
    }

    fn share(&self, percent: usize) -> usize {
        self.0.len() * percent / 100
    }
}

fn amean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

fn hmean(samples: &[f64]) -> f64 {
    if samples.iter().any(|x| *x <= 0.0) {
        return -1.0;
    }
    samples.len() as f64 / samples.iter().map(|x| 1.0 / x).sum::<f64>()
}

/// Percent by which `new` lies above `base`; positive is better where higher is better.
pub fn pdiff(new: f64, base: f64) -> f64 {
    if new == base || new == 0.0 {
        0.0
    } else if base == 0.0 || base.is_nan() {
        100.0
    } else {
        new * 100.0 / base - 100.0
    }
}

/// Percent by which `new` lies below `base`; positive is better where lower is better.
pub fn pndiff(new: f64, base: f64) -> f64 {
    if new == base {
        0.0
    } else if new == 0.0 {
        100.0
    } else if base == 0.0 {
        -99.0
    } else {
        100.0 - new * 100.0 / base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(samples: &[f64]) -> Sorted {
        Sorted::new(samples.to_vec()).unwrap()
    }

    #[test]
    fn means_and_spread() {
        let samples = sorted(&[4.0, 1.0, 2.0]);
        assert_eq!((samples.min(), samples.max()), (1.0, 4.0));
        assert!((samples.amean() - 7.0 / 3.0).abs() < 1e-12);
        assert!((samples.hmean() - 3.0 / 1.75).abs() < 1e-12);
        assert!((samples.stddev() - (7.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((samples.coeff() - 65.465_367).abs() < 1e-5);
        assert_eq!(sorted(&[0.0, 1.0]).hmean(), -1.0);
        assert!(sorted(&[1.0]).stddev().is_nan());
        assert!(Sorted::new(Vec::new()).is_none());
    }

    #[test]
    fn quartiles_and_maxima_are_samples_at_rounded_indices() {
        let samples = sorted(&(0..256).map(f64::from).collect::<Vec<f64>>());
        let at: Vec<f64> = [0.25, 0.5, 0.75, 0.9, 0.95, 0.99]
            .iter()
            .map(|fraction| samples.at(*fraction))
            .collect();
        assert_eq!(at, [64.0, 128.0, 191.0, 230.0, 242.0, 252.0]);
    }

    /// The mean of 0..=k is k / 2, so twice the mean plus 1 is the number of samples in it.
    #[test]
    fn best_means_take_one_more_than_they_say() {
        let samples = sorted(&(0..256).map(f64::from).collect::<Vec<f64>>());
        let taken: Vec<f64> = [99, 95, 90, 75, 50, 25]
            .iter()
            .map(|percent| samples.best_amean(*percent) * 2.0 + 1.0)
            .collect();
        assert_eq!(taken, [254.0, 244.0, 231.0, 193.0, 129.0, 65.0]);
        assert_eq!(sorted(&[1.0, 3.0]).best_amean(25), 2.0, "a share of none is the whole mean");
        let rates = sorted(&[1.0, 2.0, 4.0, 8.0]);
        assert_eq!(rates.best_hmean(99), 8.0, "index 3 of 4");
        assert!((rates.best_hmean(50) - 2.0 / (0.25 + 0.125)).abs() < 1e-12);
    }

    #[test]
    fn differences_are_positive_where_it_became_better() {
        assert_eq!((pdiff(150.0, 100.0), pndiff(150.0, 100.0)), (50.0, -50.0));
        assert_eq!((pdiff(5.0, 5.0), pndiff(5.0, 5.0)), (0.0, 0.0));
        assert_eq!((pdiff(0.0, 5.0), pndiff(0.0, 5.0)), (0.0, 100.0));
        assert_eq!((pdiff(5.0, 0.0), pndiff(5.0, 0.0)), (100.0, -99.0));
        assert_eq!(pdiff(5.0, f64::NAN), 100.0);
    }
}
