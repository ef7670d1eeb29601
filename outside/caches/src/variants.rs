//! The variants by name.

use crate::caches::{Foyer, Guard, Moka, QuarryCache, QuickCache, Swizzle, VmCache};
use crate::measure::{Terms, measure, simulate};
use crate::page::PAGE_BYTES;
use crate::simulators::{ActiveInactive, Lru, S3Fifo, Simulator};
use crate::trace::{Trace, Workload};
use anyhow::{Context, Result};
use quarry_harness::launch::Work;
use quarry_harness::results::Measurement;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A variant.
pub struct Variant {
    /// Its name.
    pub name: &'static str,
    /// Its description, with its version.
    pub about: &'static str,
    /// True for a policy that only counts hits.
    pub is_simulator: bool,
    take: fn(&Self, u32, &Trace, &Terms) -> Result<Measurement>,
}

impl Variant {
    const fn cache(
        name: &'static str,
        about: &'static str,
        take: fn(&Self, u32, &Trace, &Terms) -> Result<Measurement>,
    ) -> Self {
        Self { name, about, is_simulator: false, take }
    }

    const fn simulator(
        name: &'static str,
        about: &'static str,
        take: fn(&Self, u32, &Trace, &Terms) -> Result<Measurement>,
    ) -> Self {
        Self { name, about, is_simulator: true, take }
    }

    fn simulated(&self, mut simulator: impl Simulator, trace: &Trace) -> Result<Measurement> {
        Ok(simulate(&mut simulator, trace, self.name))
    }
}

/// All variants, in the order of tables.
pub const VARIANTS: &[Variant] = &[
    Variant::cache("quarry", "Quarry's page cache", |it, capacity, trace, terms| {
        measure(&QuarryCache::new(capacity, trace.pages)?, trace, terms, it.name)
    }),
    Variant::cache("quick_cache", "quick_cache 0.7.0", |it, capacity, trace, terms| {
        measure(&QuickCache::new(capacity), trace, terms, it.name)
    }),
    Variant::cache("moka", "moka 0.12.16, sync", |it, capacity, trace, terms| {
        measure(&Moka::new(capacity), trace, terms, it.name)
    }),
    Variant::cache("foyer", "foyer-memory 0.22.6, S3-FIFO", |it, capacity, trace, terms| {
        measure(&Foyer::new(capacity), trace, terms, it.name)
    }),
    Variant::cache(
        "vmcache",
        "the mechanism of vmcache, optimistic reads",
        |it, capacity, trace, terms| {
            measure(&VmCache::new(capacity, trace.pages)?, trace, terms, it.name)
        },
    ),
    Variant::cache(
        "vmcache-shared",
        "the mechanism of vmcache, shared latches",
        |it, capacity, trace, terms| {
            let cache = VmCache::new(capacity, trace.pages)?.with(Guard::Shared);
            measure(&cache, trace, terms, it.name)
        },
    ),
    Variant::cache(
        "swizzle",
        "the mechanism of LeanStore: swizzled references, a cooling queue",
        |it, capacity, trace, terms| {
            measure(&Swizzle::new(capacity, trace.pages)?, trace, terms, it.name)
        },
    ),
    Variant::simulator("lru", "exact LRU, simulated", |it, capacity, trace, _| {
        it.simulated(Lru::new(capacity, trace.pages), trace)
    }),
    Variant::simulator("s3-fifo", "S3-FIFO, simulated", |it, capacity, trace, _| {
        it.simulated(S3Fifo::new(capacity, trace.pages), trace)
    }),
    Variant::simulator(
        "active-inactive",
        "two lists and shadow entries, simulated",
        |it, capacity, trace, _| it.simulated(ActiveInactive::new(capacity, trace.pages), trace),
    ),
];

/// A sample: a variant under a workload.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheHit {
    variant: String,
    workload: String,
    tasks: u32,
    cpus: Vec<usize>,
    /// Bytes of pages that the cache may hold, in MiB.
    mib: u32,
    /// Number of measured lookups, as a multiple of the pages that the cache holds.
    rounds: u32,
    /// Cost of a miss, in microseconds.
    latency_us: u64,
    seed: u64,
}

impl Work for CacheHit {
    const NAME: &'static str = "cache-hit";

    fn measure(self) -> Result<Measurement> {
        let variant = VARIANTS.iter().find(|it| it.name == self.variant);
        let variant = variant.with_context(|| format!("no cache is called {}", self.variant))?;
        let workload = Workload::ALL.into_iter().find(|it| it.name() == self.workload);
        let workload = workload.with_context(|| format!("no workload {}", self.workload))?;
        let capacity = (self.mib << 20) / PAGE_BYTES as u32;
        let trace = workload.trace(capacity, self.rounds, self.seed);
        let latency = Duration::from_micros(self.latency_us);
        let terms = Terms { tasks: self.tasks, cpus: self.cpus, latency };
        (variant.take)(variant, capacity, &trace, &terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_takes_a_sample_of_every_workload() {
        for variant in VARIANTS {
            for workload in Workload::ALL {
                let order = CacheHit {
                    variant: variant.name.to_owned(),
                    workload: workload.name().to_owned(),
                    tasks: 2,
                    cpus: Vec::new(),
                    mib: 1,
                    rounds: 4,
                    latency_us: 0,
                    seed: 1,
                };
                let measurement = order.measure().unwrap();
                assert_eq!(measurement.verified, measurement.operations, "{}", variant.name);
                // These caches admit by frequency, or have shards, one of which may be too small.
                let keeps_what_fits = !matches!(variant.name, "quick_cache" | "moka" | "foyer");
                // A stack's background thread evicts pages when free memory is below the low mark,
                // even if only for a moment, while frames are on their way to a list.
                let most = if variant.name == "quarry" { 32 } else { 0 };
                if workload.fits() && keeps_what_fits {
                    let misses = measurement.counters["misses"];
                    assert!(misses <= most, "{misses} of {} on {workload}", variant.name);
                }
            }
        }
    }
}
