//! The workloads, as sequences of page numbers.

use crate::random::Random;
use std::fmt;

const SKEW: f64 = 0.9;

/// A workload. `C` is the number of pages that fit into the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// 1,024 pages (4 MiB), or 3/4 `C` if that is less, each as likely as the others.
    HotSmall,
    /// 3/4 `C` pages, each as likely as the others: everything fits.
    HotUniform,
    /// 3/4 `C` pages, Zipf 0.9: everything fits.
    HotZipf,
    /// 8 `C` pages, Zipf 0.9.
    Zipf,
    /// In turn one of `C` pages, Zipf 0.9, and the next page of a file that is read once.
    Scan,
    /// 1.1 `C` pages, one after the other, over and over.
    Loop,
    /// 2 `C` pages, each as likely as the others.
    Twice,
}

/// The lookups of a workload.
pub struct Trace {
    /// Pages that are looked up before the measurement, so that the cache is full and warm.
    pub warm_up: Vec<u32>,
    /// Pages that are looked up in the measurement.
    pub measured: Vec<u32>,
    /// Number of passes over the measured lookups.
    pub passes: u32,
    /// Every page number is below this.
    pub pages: u32,
}

impl Workload {
    /// All workloads, in the order of tables.
    pub const ALL: [Self; 7] = [
        Self::HotSmall,
        Self::HotUniform,
        Self::HotZipf,
        Self::Zipf,
        Self::Scan,
        Self::Loop,
        Self::Twice,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HotSmall => "hot-4-mib",
            Self::HotUniform => "hot-uniform",
            Self::HotZipf => "hot-zipf-0.9",
            Self::Zipf => "zipf-0.9",
            Self::Scan => "scan",
            Self::Loop => "loop",
            Self::Twice => "twice",
        }
    }

    /// Its description in one line.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::HotSmall => "1,024 pages at random; everything fits",
            Self::HotUniform => "3/4 of the cache's pages at random; everything fits",
            Self::HotZipf => "3/4 of the cache's pages, Zipf 0.9; everything fits",
            Self::Zipf => "8 times the cache, Zipf 0.9",
            Self::Scan => "by turns a page of once the cache, Zipf 0.9, and the next of a scan",
            Self::Loop => "1.1 times the cache, one page after the other, over and over",
            Self::Twice => "twice the cache, at random",
        }
    }

    /// Returns whether all its pages fit into the cache.
    #[must_use]
    pub fn fits(self) -> bool {
        matches!(self, Self::HotSmall | Self::HotUniform | Self::HotZipf)
    }

    /// Its lookups for a cache of `capacity` pages; `measured` has `rounds * capacity` of them.
    #[must_use]
    pub fn trace(self, capacity: u32, rounds: u32, seed: u64) -> Trace {
        let mut random = Random::new(seed);
        let (warm, length) = (4 * capacity as usize, (capacity * rounds) as usize);
        let hot = capacity / 4 * 3;
        let mut uniform = |pages: u32| {
            Trace::cut((0..warm + length).map(|_| random.below(pages)).collect(), warm, pages)
        };
        match self {
            Self::HotSmall => uniform(1024.min(hot)).all_warm(),
            Self::HotUniform => uniform(hot).all_warm(),
            Self::Twice => uniform(2 * capacity),
            Self::HotZipf => {
                let zipf = Zipf::new(hot, &mut random);
                let all = (0..length).map(|_| zipf.page(&mut random)).collect();
                Trace::cut(all, 0, hot).all_warm()
            }
            Self::Zipf => {
                let zipf = Zipf::new(8 * capacity, &mut random);
                let all = (0..warm + length).map(|_| zipf.page(&mut random)).collect();
                Trace::cut(all, warm, 8 * capacity)
            }
            Self::Scan => {
                let zipf = Zipf::new(capacity, &mut random);
                let mut next = capacity;
                let mut lookup = |turn: usize| {
                    next += (turn % 2) as u32;
                    if turn % 2 == 1 { next - 1 } else { zipf.page(&mut random) }
                };
                let all: Vec<u32> = (0..warm + length).map(&mut lookup).collect();
                Trace::cut(all, warm, next)
            }
            Self::Loop => {
                let pages = capacity + capacity / 10;
                let all = (0..warm + length).map(|turn| turn as u32 % pages).collect();
                Trace::cut(all, warm, pages)
            }
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Trace {
    fn cut(mut all: Vec<u32>, warm: usize, pages: u32) -> Self {
        let measured = all.split_off(warm);
        Self { warm_up: all, measured, passes: 1, pages }
    }

    /// Makes the warm-up look up every page once, and the measurement long enough to be timed.
    fn all_warm(self) -> Self {
        Self { warm_up: (0..self.pages).collect(), passes: 8, ..self }
    }

    /// Lookups of the measurement.
    #[must_use]
    pub fn lookups(&self) -> u64 {
        self.measured.len() as u64 * u64::from(self.passes)
    }
}

/// Pages by popularity: the page of rank `r` (from 1) has the weight `r^-0.9`. Ranks are random, so
/// that popular pages are not neighbours.
struct Zipf {
    /// For each rank, the share of the total weight that ranks up to this one have.
    shares: Vec<f64>,
    by_rank: Vec<u32>,
}

impl Zipf {
    fn new(pages: u32, random: &mut Random) -> Self {
        let mut sum = 0.0;
        let mut shares: Vec<f64> = (1..=pages)
            .map(|rank| {
                sum += f64::from(rank).powf(-SKEW);
                sum
            })
            .collect();
        shares.iter_mut().for_each(|share| *share /= sum);
        let mut by_rank: Vec<u32> = (0..pages).collect();
        random.shuffle(&mut by_rank);
        Self { shares, by_rank }
    }

    fn page(&self, random: &mut Random) -> u32 {
        let wanted = random.fraction();
        let rank = self.shares.partition_point(|share| *share <= wanted);
        self.by_rank[rank.min(self.by_rank.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const CAPACITY: u32 = 1000;

    #[test]
    fn what_fits_fits_and_is_warm() {
        for workload in Workload::ALL {
            let trace = workload.trace(CAPACITY, 6, 3);
            let pages: BTreeSet<u32> = trace.measured.iter().copied().collect();
            assert!(pages.last() < Some(&trace.pages), "{workload}");
            assert_eq!(workload.fits(), pages.len() < CAPACITY as usize, "{workload}");
            let warm: BTreeSet<u32> = trace.warm_up.iter().copied().collect();
            assert!(!workload.fits() || pages.is_subset(&warm), "{workload}");
            let same = workload.trace(CAPACITY, 6, 3);
            assert_eq!((trace.warm_up, trace.measured), (same.warm_up, same.measured));
        }
    }

    #[test]
    fn zipf_is_as_skewed_as_it_says() {
        let mut random = Random::new(1);
        let zipf = Zipf::new(CAPACITY, &mut random);
        let mut counts = vec![0_u32; CAPACITY as usize];
        for _ in 0..200_000 {
            counts[zipf.page(&mut random) as usize] += 1;
        }
        let of_rank = |rank: usize| f64::from(counts[zipf.by_rank[rank - 1] as usize]);
        let ratio = of_rank(1) / of_rank(10);
        assert!((7.0..9.0).contains(&ratio), "{ratio} is near 10^0.9 = 7.94");
    }

    #[test]
    fn a_scan_reads_every_page_of_its_file_once() {
        let trace = Workload::Scan.trace(CAPACITY, 6, 1);
        let all = trace.warm_up.iter().chain(&trace.measured);
        let scanned: Vec<u32> = all.copied().filter(|page| *page >= CAPACITY).collect();
        assert!(scanned.iter().copied().eq(CAPACITY..trace.pages));
    }
}
