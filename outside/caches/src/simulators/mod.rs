//! Replacement policies without caches: they only count hits, in the order of the trace.
//!
//! ```text
//! queue            pages in an order, with their places in it
//! lru              exact LRU
//! s3_fifo          S3-FIFO
//! active_inactive  two lists and shadow entries, as Quarry and Linux have them
//! ```

mod active_inactive;
mod lru;
mod queue;
mod s3_fifo;

pub use active_inactive::ActiveInactive;
pub use lru::Lru;
pub use s3_fifo::S3Fifo;

/// A replacement policy.
pub trait Simulator {
    /// Looks a page up, and adds it if it is absent. Returns whether it was there.
    fn lookup(&mut self, page: u32) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Workload;

    const CAPACITY: u32 = 1000;

    fn all(pages: u32) -> [Box<dyn Simulator>; 3] {
        [
            Box::new(Lru::new(CAPACITY, pages)),
            Box::new(S3Fifo::new(CAPACITY, pages)),
            Box::new(ActiveInactive::new(CAPACITY, pages)),
        ]
    }

    fn hits(simulator: &mut dyn Simulator, pages: &[u32]) -> usize {
        pages.iter().filter(|page| simulator.lookup(**page)).count()
    }

    #[test]
    fn what_fits_is_always_hit() {
        for workload in Workload::ALL.into_iter().filter(|it| it.fits()) {
            let trace = workload.trace(CAPACITY, 6, 1);
            for mut simulator in all(trace.pages) {
                hits(&mut *simulator, &trace.warm_up);
                assert_eq!(hits(&mut *simulator, &trace.measured), trace.measured.len());
            }
        }
    }

    #[test]
    fn half_of_twice_the_cache_is_hit_whatever_the_policy() {
        let trace = Workload::Twice.trace(CAPACITY, 40, 1);
        for mut simulator in all(trace.pages) {
            hits(&mut *simulator, &trace.warm_up);
            let ratio = hits(&mut *simulator, &trace.measured) as f64 / trace.measured.len() as f64;
            assert!((0.48..0.52).contains(&ratio), "{ratio}");
        }
    }

    #[test]
    fn a_loop_defeats_lru_and_a_scan_does_not_defeat_the_others() {
        let ratios = |workload: Workload| {
            let trace = workload.trace(CAPACITY, 20, 1);
            all(trace.pages).map(|mut simulator| {
                hits(&mut *simulator, &trace.warm_up);
                hits(&mut *simulator, &trace.measured) as f64 / trace.measured.len() as f64
            })
        };
        assert_eq!(ratios(Workload::Loop)[0], 0.0);
        let [lru, s3_fifo, active_inactive] = ratios(Workload::Scan);
        assert!(s3_fifo > lru && active_inactive > lru, "{lru} {s3_fifo} {active_inactive}");
    }
}
