//! The number of bytes between two samples.
//!
//! Sampling is a Poisson process over allocated bytes, as in tcmalloc and Go: each byte has a
//! *point* with the same small probability. An object with a point is a sample, so an object of `n`
//! bytes is a sample with the probability `1 - exp(-n / mean)`. Counts divided by this probability
//! are unbiased for any order and sizes of requests. The gaps between points are exponentially
//! distributed, so memoryless: as long as no code has read a gap, another one may replace it.

use quarry_mm::frame::fresh_zero;
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// Fractional bits of the fixed-point numbers here.
const FRACTION: u32 = 32;
const LN_2: u64 = 0xb172_17f7;

/// `log2(number)` with [`FRACTION`] fractional bits; `number` is not 0. Squaring the mantissa
/// doubles its logarithm; the logarithm's next bit is 1 if the square is at least 2.
fn log2(number: u64) -> u64 {
    let place = 63 - number.leading_zeros();
    let mut rest = number << (63 - place);
    let mut bits = u64::from(place);
    for _ in 0..FRACTION {
        let square = (u128::from(rest) * u128::from(rest)) >> 63;
        let is_two = square >> 64 != 0;
        rest = (square >> u32::from(is_two)) as u64;
        bits = bits << 1 | u64::from(is_two);
    }
    bits
}

/// So many points of one object are drawn on average at most: 3 us.
const MOST_DRAWN: u64 = 64;

/// The gap for a random number in `1..=u64::MAX`: `-ln(number / 2^64) * mean`.
fn gap(number: u64, mean: u64) -> u64 {
    let below_one = (64 << FRACTION) - log2(number);
    let nats = (u128::from(below_one) * u128::from(LN_2)) >> FRACTION;
    u64::try_from((nats * u128::from(mean)) >> FRACTION).unwrap_or(u64::MAX)
}

/// The next state and output of Marsaglia's xorshift generator (2003); 0 only after 0.
fn next(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ state << 17
}

fresh_zero! {
    /// The bytes up to the next sample on one CPU.
    ///
    /// Loads and stores are plain. A thread that loses its CPU between them may later store an old
    /// gap over a newer one: no code has read the newer gap. No other CPU uses the cache line.
    #[repr(align(128))]
    pub(super) struct Countdown {
        left: AtomicU64,
        random: AtomicU64,
    }
}

impl Countdown {
    /// Begins the first gap. Each CPU has a different `seed`.
    pub(super) fn begin(&self, seed: u64, mean: u64) {
        // The multiplication separates seeds that differ in few bits, also in the high bits.
        let mixed = (seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.random.store(next(next((mixed ^ mixed >> 32) | 1)), Relaxed);
        self.renew(mean);
    }

    #[inline(always)]
    pub(super) fn is_beyond(&self, size: u64) -> bool {
        size <= self.left.load(Relaxed)
    }

    #[inline(always)]
    pub(super) fn pass(&self, size: u64) {
        self.left.store(self.left.load(Relaxed).saturating_sub(size), Relaxed);
    }

    fn renew(&self, mean: u64) {
        self.left.store(self.draw(mean), Relaxed);
    }

    #[inline(never)]
    fn draw(&self, mean: u64) -> u64 {
        let random = next(self.random.load(Relaxed).max(1));
        self.random.store(random, Relaxed);
        gap(random, mean)
    }

    /// Passes an object of `size` bytes that is not [beyond](Self::is_beyond) the next point;
    /// returns how many points it has, at least 1. O(1), some 50 ns a point.
    pub(super) fn cross(&self, size: u64, mean: u64) -> u64 {
        let after_point = size.saturating_sub(self.left.load(Relaxed)).saturating_sub(1);
        // Of many points only the last are drawn. The others are as many as there are on average.
        let sure = (after_point / mean.max(1)).saturating_sub(MOST_DRAWN);
        let (mut points, mut rest) = (1 + sure, after_point - sure * mean);
        let mut gap = self.draw(mean);
        while gap < rest {
            rest -= gap + 1;
            points += 1;
            gap = self.draw(mean);
        }
        self.left.store(gap - rest, Relaxed);
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fraction(log: u64) -> f64 {
        log as f64 / (1u64 << FRACTION) as f64
    }

    #[test]
    fn logarithms_are_right() {
        for number in [1, 2, 3, 10, 1000, 1 << 40, u64::MAX, u64::MAX / 3] {
            let error = fraction(log2(number)) - (number as f64).log2();
            assert!(error.abs() < 1e-8, "log2({number}) is off by {error}");
        }
    }

    #[test]
    fn gaps_are_exponential() {
        const MEAN: u64 = 512 << 10;
        const DRAWN: usize = 200_000;
        let countdown = Countdown { left: AtomicU64::new(0), random: AtomicU64::new(0) };
        countdown.begin(1, MEAN);
        let gaps: Vec<f64> = (0..DRAWN)
            .map(|_| {
                countdown.renew(MEAN);
                countdown.left.load(Relaxed) as f64 / MEAN as f64
            })
            .collect();
        // The standard deviation of the mean of 200,000 gaps is 0.0022, that of the share of gaps
        // beyond a value at most 0.0011; the seed is fixed.
        let mean = gaps.iter().sum::<f64>() / DRAWN as f64;
        assert!((mean - 1.0).abs() < 0.01, "mean {mean}");
        for beyond in [0.01, 0.1, 0.5, 1.0, 2.0, 4.0] {
            let share = gaps.iter().filter(|gap| **gap > beyond).count() as f64 / DRAWN as f64;
            let expected = (-beyond).exp();
            assert!((share - expected).abs() < 0.006, "{share} beyond {beyond}, not {expected}");
        }
    }

    #[test]
    fn the_largest_mean_does_not_overflow() {
        assert_eq!(gap(u64::MAX, u64::MAX >> 8), gap(u64::MAX, u64::MAX >> 8));
        assert_eq!(gap(1, u64::MAX), u64::MAX);
        assert!(gap(u64::MAX, 512 << 10) < 2);
    }
}
