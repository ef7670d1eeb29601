//! A histogram of times. Each doubling of the time has 16 buckets.

/// Counts of nanoseconds. The relative error of a quantile is at most 1/16.
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    most: u64,
}

const STEPS: u32 = 4;
const BUCKETS: usize = (65 - STEPS as usize) << STEPS;

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, most: 0 }
    }

    pub(crate) fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.total += 1;
        self.most = self.most.max(ns);
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// The upper end of the bucket in which the quantile `part` lies; 0 without times.
    pub(crate) fn quantile(&self, part: f64) -> u64 {
        let rank = (part * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank && *count > 0 {
                return upper_end(index).min(self.most);
            }
        }
        0
    }
}

fn bucket(ns: u64) -> usize {
    let width = u64::BITS - ns.leading_zeros();
    if width <= STEPS {
        return ns as usize;
    }
    let shift = width - STEPS - 1;
    ((shift as usize) << STEPS) + (ns >> shift) as usize
}

fn upper_end(index: usize) -> u64 {
    if index < 1 << (STEPS + 1) {
        return index as u64;
    }
    let shift = (index >> STEPS) - 1;
    let mantissa = (index & ((1 << STEPS) - 1)) + (1 << STEPS);
    (((mantissa as u128 + 1) << shift) - 1).min(u64::MAX.into()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_times(
            mut times in prop::collection::vec(0u64.., 1..200),
            part in 0.0f64..=1.0,
        ) {
            let mut histogram = Histogram::new();
            times.iter().for_each(|time| histogram.add(*time));
            times.sort_unstable();
            let rank = ((part * times.len() as f64).ceil() as usize).max(1);
            let exact = times[rank - 1];
            let found = histogram.quantile(part);
            prop_assert!(found >= exact && found - exact <= exact / 16, "{found} for {exact}");
        }
    }
}
