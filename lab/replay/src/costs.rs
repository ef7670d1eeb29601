//! The time of each kind of call to a memory. Multiplied by a replay's counts, these times estimate
//! where the replay's time went.

use crate::memory::{Buffer, Counters, KernelMemory, Pages};
use std::hint::black_box;
use std::time::Instant;

/// An order that no page policy keeps on pcp lists, so every call reaches the zone.
const ZONE: Pages = Pages { order: 4, movable: false };

/// An order that every page policy keeps on pcp lists.
const LISTED: Pages = Pages { order: 0, movable: false };

/// Bytes of the objects that are timed: the size of a packet's head.
const OBJECT_BYTES: usize = 256;

/// Bytes of the copies that are timed.
const COPY_BYTES: usize = 4096;

/// Number of calls in a burst that is short enough for the arrays and lists of one CPU.
const SHORT: usize = 16;

/// Number of calls in a burst that is too long for the arrays and lists of one CPU.
const LONG: usize = 2_000;

/// Number of repetitions. The fastest counts, because nothing disturbed it.
const ATTEMPTS: usize = 100;

/// Nanoseconds of one call of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// Taking a block from the zone.
    pub zone_alloc: f64,
    /// Giving a block back to the zone.
    pub zone_free: f64,
    /// Taking a block from a CPU's pcp list, or giving it back.
    pub listed: f64,
    /// Allocation of an object by the fast path.
    pub fast_alloc: f64,
    /// Free of an object by the fast path.
    pub fast_free: f64,
    /// Allocation of an object by the slow path, less the time in the page allocator.
    pub slow_alloc: f64,
    /// Free of an object by the slow path, less the time in the page allocator.
    pub slow_free: f64,
    /// Copying one byte.
    pub copied_byte: f64,
}

impl Costs {
    /// Measures the costs on a memory that no other thread uses.
    ///
    /// # Panics
    /// If there is no memory left.
    pub fn measure<M: KernelMemory>(memory: &M) -> Self {
        let pages = |pages: Pages, burst| {
            let alloc = || memory.alloc_pages(pages).expect("memory to measure with");
            least(ATTEMPTS, || round(burst, alloc, |block| memory.free_pages(pages, block)))
        };
        let (zone_alloc, zone_free) = pages(ZONE, SHORT);
        let (from_list, to_list) = pages(LISTED, SHORT);
        let cache = memory.create_cache("probe-256", OBJECT_BYTES);
        let alloc = || memory.alloc(cache).expect("memory to measure with");
        let free = |object| memory.free(cache, object);
        let (fast_alloc, fast_free) = least(ATTEMPTS, || round(SHORT, alloc, free));
        let mut costs = Self {
            zone_alloc,
            zone_free,
            listed: (from_list + to_list) / 2.0,
            fast_alloc,
            fast_free,
            copied_byte: copied_byte(memory),
            ..Self::default()
        };
        let before = memory.counters();
        let (alloc, free) = least(ATTEMPTS / 10, || round(LONG, alloc, free));
        let counts = memory.counters().since(before);
        (costs.slow_alloc, costs.slow_free) = costs.slow((alloc, free), &counts);
        costs
    }

    /// Computes the slow path's time: the time of calls in long bursts, less the known parts.
    fn slow(&self, (alloc, free): (f64, f64), counts: &Counters) -> (f64, f64) {
        let own = |mean: f64, fast: (u64, f64), slow: u64, zone: (u64, f64)| {
            let all = (fast.0 + slow) as f64 * mean;
            let known = fast.0 as f64 * fast.1 + zone.0 as f64 * zone.1;
            let listed = counts.listed as f64 / 2.0 * self.listed;
            if slow == 0 { 0.0 } else { ((all - known - listed) / slow as f64).max(0.0) }
        };
        let Counters { fast_allocs, slow_allocs, fast_frees, slow_frees, .. } = *counts;
        let Counters { zone_allocs, zone_frees, .. } = *counts;
        (
            own(alloc, (fast_allocs, self.fast_alloc), slow_allocs, (zone_allocs, self.zone_alloc)),
            own(free, (fast_frees, self.fast_free), slow_frees, (zone_frees, self.zone_free)),
        )
    }
}

/// The least time of an allocation, and of a free, over `attempts` rounds.
fn least(attempts: usize, round: impl Fn() -> (f64, f64)) -> (f64, f64) {
    let rounds = (0..attempts).map(|_| round());
    rounds.fold((f64::INFINITY, f64::INFINITY), |(a, b), (x, y)| (a.min(x), b.min(y)))
}

/// Allocates a burst and frees it in the same order. Returns the mean ns of an alloc and of a free.
fn round(burst: usize, alloc: impl Fn() -> Buffer, free: impl Fn(Buffer)) -> (f64, f64) {
    let mut taken = Vec::with_capacity(burst);
    let start = Instant::now();
    taken.extend((0..burst).map(|_| alloc()));
    let between = Instant::now();
    taken.drain(..).for_each(free);
    let end = Instant::now();
    let each = |from: Instant, to: Instant| (to - from).as_nanos() as f64 / burst as f64;
    (each(start, between), each(between, end))
}

/// Nanoseconds per byte copied in or out, with the data in a near cache.
fn copied_byte<M: KernelMemory>(memory: &M) -> f64 {
    let mut block = memory.alloc_pages(LISTED).expect("memory to measure with");
    let mut data = vec![1; COPY_BYTES];
    let mut copies = || {
        let start = Instant::now();
        for _ in 0..SHORT {
            black_box(&mut block).write(0, &data);
            // Without `black_box` the compiler would know that the copy brings back the same bytes.
            black_box(&mut block).read(0, black_box(&mut data));
        }
        start.elapsed().as_nanos() as f64 / (2 * SHORT * COPY_BYTES) as f64
    };
    let least = (0..ATTEMPTS).map(|_| copies()).fold(f64::INFINITY, f64::min);
    memory.free_pages(LISTED, block);
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::Uncached;

    #[test]
    fn all_that_was_taken_goes_back() {
        let memory = Uncached::default();
        let costs = Costs::measure(&memory);
        assert_eq!(memory.check_at_end(), Ok(()));
        assert!(costs.zone_alloc > 0.0 && costs.fast_free > 0.0 && costs.copied_byte > 0.0);
        assert_eq!((costs.slow_alloc, costs.slow_free), (0.0, 0.0), "nothing was counted as slow");
    }

    #[test]
    fn a_slow_call_is_charged_what_the_others_leave() {
        let costs = Costs { zone_alloc: 50.0, listed: 10.0, fast_alloc: 4.0, ..Costs::default() };
        let counts = Counters {
            fast_allocs: 90,
            slow_allocs: 10,
            zone_allocs: 2,
            listed: 8,
            ..Counters::default()
        };
        let (slow_alloc, slow_free) = costs.slow((10.0, 1.0), &counts);
        // 1,000 ns, of which 360 are fast calls, 100 the zone's and 40 the lists'.
        assert_eq!((slow_alloc, slow_free), (50.0, 0.0));
    }
}
