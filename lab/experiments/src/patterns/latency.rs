//! Latency of one free and one malloc together, while another thread works, as quantiles up to
//! 99.99 %.

use super::heap::Heap;
use super::others::Others;
use super::watched::Table;
use super::window::{self, Budget, Phase, Window};
use super::working_set::WorkingSet;
use std::time::Instant;

/// Largest block, from 16 bytes; each doubling of the size is equally likely.
const LARGEST: usize = 32_768;
/// Factor by which this pattern runs longer than others. In 20 ms, the length of others in `peers`,
/// it makes a quarter of a million operations. The slowest ten-thousandth of these would be only
/// some 25 operations, most of them first touches of pages.
const LENGTH: u32 = 10;
/// Names of the figures, and the share of operations that took at most that long.
pub(crate) const QUANTILES: [(&str, f64); 4] =
    [("p50_ns", 0.5), ("p99_ns", 0.99), ("p99_9_ns", 0.999), ("p99_99_ns", 0.9999)];

/// Binary logarithm of the buckets per doubling; a value is known to 1/64.
const SUB_BITS: u32 = 6;
const BUCKETS: usize = (64 - SUB_BITS as usize) << SUB_BITS;

/// Counts of times, in ticks, by logarithmic buckets. They are in memory outside the measured heap.
struct Histogram {
    counts: Table<u64>,
    total: u64,
}

impl Histogram {
    fn new() -> Self {
        let mut counts = Table::new(BUCKETS);
        // Touched before anything is timed.
        counts.fill(0);
        Self { counts, total: 0 }
    }

    fn bucket(value: u64) -> usize {
        let shift = (u64::BITS - value.leading_zeros()).saturating_sub(SUB_BITS + 1);
        ((shift as usize) << SUB_BITS) + (value >> shift) as usize
    }

    fn largest_of(bucket: usize) -> u64 {
        let shift = (bucket >> SUB_BITS).saturating_sub(1);
        let sub = (bucket - (shift << SUB_BITS)) as u64;
        (sub << shift) + ((1 << shift) - 1)
    }

    fn record(&mut self, value: u64) {
        // The last doubling of 64 bits shares the last bucket; no tick count is so large.
        self.counts[Self::bucket(value).min(BUCKETS - 1)] += 1;
        self.total += 1;
    }

    fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted.max(1) {
                return Self::largest_of(bucket);
            }
        }
        0
    }
}

/// A clock for short times; `run` compares it with the system's clock to find the length of a tick.
#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    use std::arch::x86_64::{__rdtscp, _mm_lfence};
    let mut cpu = 0;
    // SAFETY: every x86-64 processor of the last fifteen years has these instructions. rdtscp waits
    // for earlier instructions; the fence holds later ones back.
    unsafe {
        let now = __rdtscp(&raw mut cpu);
        _mm_lfence();
        now
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    use nix::time::{ClockId, clock_gettime};
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    std::time::Duration::from(now).as_nanos() as u64
}

fn cost_of_clock() -> u64 {
    let mut empty = Histogram::new();
    for _ in 0..10_000 {
        let start = ticks();
        empty.record(ticks() - start);
    }
    empty.quantile(0.5)
}

/// Returns the window, and the quantiles in nanoseconds.
pub(super) fn run(
    heap: Heap,
    budget: Budget,
    others: Others<'_>,
) -> (Window, Vec<(&'static str, f64)>) {
    let budget = budget.times(LENGTH);
    let cost = cost_of_clock();
    let (mut histogram, mut ns_per_tick) = (Histogram::new(), 1.0);
    let window = others.beside(
        |number, stop| {
            let mut set = WorkingSet::new(heap, LARGEST, 20_001 + number as u64);
            stop.until(|| set.chunk())
        },
        || {
            let mut set = WorkingSet::new(heap, LARGEST, 20_000);
            let (clock, first_tick) = (Instant::now(), ticks());
            let window = window::measure_in_phases(budget, |phase| {
                set.observed_chunk(&mut |operation: &mut dyn FnMut()| {
                    let start = ticks();
                    operation();
                    let taken = ticks() - start;
                    // The first calls on a new heap cost more than later ones.
                    if phase == Phase::Measured {
                        histogram.record(taken.saturating_sub(cost));
                    }
                })
            });
            ns_per_tick = clock.elapsed().as_nanos() as f64 / (ticks() - first_tick) as f64;
            window
        },
    );
    let figure = |(name, share)| (name, histogram.quantile(share) as f64 * ns_per_tick);
    (window, QUANTILES.map(figure).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_falls_into_them_and_are_narrow() {
        let mut last = 0;
        for value in (0..10_000).chain([1 << 20, (1 << 40) + 12_345, (1 << 62) - 1]) {
            let bucket = Histogram::bucket(value);
            assert!(bucket >= last && bucket < BUCKETS, "{value}");
            let largest = Histogram::largest_of(bucket);
            assert!(largest >= value && largest - value <= value / 64, "{value}: {largest}");
            last = bucket;
        }
    }

    #[test]
    fn quantiles_of_a_hundred_thousand() {
        let mut histogram = Histogram::new();
        (1..=100_000).for_each(|value| histogram.record(value));
        for (share, expected) in [(0.5, 50_000), (0.99, 99_000), (0.9999, 99_990)] {
            let found = histogram.quantile(share);
            assert!(found >= expected && found - expected <= expected / 64, "{share}: {found}");
        }
        assert_eq!(Histogram::new().quantile(0.5), 0);
    }

    #[test]
    fn the_clock_advances_and_is_cheap() {
        let start = ticks();
        assert!(cost_of_clock() < 1_000_000);
        assert!(ticks() > start);
    }
}
