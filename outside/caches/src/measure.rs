//! One sample: a trace on a cache, with every lookup checked.

use crate::caches::PageCache;
use crate::page::{Key, Reading};
use crate::simulators::Simulator;
use crate::trace::Trace;
use anyhow::{Result, ensure};
use quarry_harness::results::Measurement;
use quarry_harness::{affinity, proc};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// One lookup in this many reads the whole page.
const WHOLE_EVERY: u64 = 1024;
/// Lookups that a task takes at once, so that tasks stay near each other in the trace.
const CHUNK: usize = 64;

/// The number of tasks that measure, and the cost of a miss.
pub struct Terms {
    /// Number of tasks, which share the trace.
    pub tasks: u32,
    /// The CPUs that they run on.
    pub cpus: Vec<usize>,
    /// Time for which a fill spins before it writes the page, in place of a device's latency.
    pub latency: Duration,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    lookups: u64,
    hits: u64,
    verified: u64,
    elapsed: Duration,
    /// The part of `elapsed` that misses took.
    in_misses: Duration,
    /// The part of `in_misses` that fills took: spinning, and writing the page.
    in_fills: Duration,
    cpu: Duration,
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            lookups: self.lookups + other.lookups,
            hits: self.hits + other.hits,
            verified: self.verified + other.verified,
            elapsed: self.elapsed + other.elapsed,
            in_misses: self.in_misses + other.in_misses,
            in_fills: self.in_fills + other.in_fills,
            cpu: self.cpu + other.cpu,
        }
    }
}

/// Lookups that tasks share: each task takes the next chunk, in the order of the trace.
struct Shared<'a> {
    pages: &'a [u32],
    passes: u64,
    next: AtomicU64,
}

impl<'a> Shared<'a> {
    fn new(pages: &'a [u32], passes: u32) -> Self {
        Self { pages, passes: passes.into(), next: AtomicU64::new(0) }
    }

    #[inline(always)]
    fn take(&self) -> Option<&'a [u32]> {
        let chunks = self.pages.len().div_ceil(CHUNK) as u64;
        let taken = self.next.fetch_add(1, Relaxed);
        let start = (taken % chunks.max(1)) as usize * CHUNK;
        (taken < chunks * self.passes)
            .then(|| &self.pages[start..self.pages.len().min(start + CHUNK)])
    }
}

/// Looks the pages of `trace` up in `cache`.
///
/// # Errors
/// If a task cannot run on its CPU.
pub fn measure(
    cache: &impl PageCache,
    trace: &Trace,
    terms: &Terms,
    served_by: &str,
) -> Result<Measurement> {
    let barrier = Barrier::new(terms.tasks as usize);
    let warm_up = Shared::new(&trace.warm_up, 1);
    let measured = Shared::new(&trace.measured, trace.passes);
    let work = |task: u32| -> Result<(Counts, Duration)> {
        if let Some(cpu) = terms.cpus.get(task as usize) {
            affinity::pin(*cpu)?;
        }
        look_up(cache, &warm_up, Duration::ZERO);
        barrier.wait();
        let start = Instant::now();
        Ok((look_up(cache, &measured, terms.latency), start.elapsed()))
    };
    let work = &work;
    let all: Vec<(Counts, Duration)> = thread::scope(|scope| {
        let tasks: Vec<_> = (0..terms.tasks).map(|task| scope.spawn(move || work(task))).collect();
        tasks.into_iter().map(|task| task.join().expect("no task panics")).collect::<Result<_>>()
    })?;
    let wall = all.iter().map(|(_, wall)| *wall).max().unwrap_or_default();
    let counts = all.into_iter().fold(Counts::default(), |sum, (it, _)| sum.plus(it));
    ensure!(counts.lookups == trace.lookups(), "{} lookups were made", counts.lookups);
    Ok(measurement(counts, wall, served_by))
}

#[inline(never)]
fn look_up(cache: &impl PageCache, shared: &Shared<'_>, latency: Duration) -> Counts {
    let mut counts = Counts::default();
    let (start, cpu) = (Instant::now(), thread_cpu());
    while let Some(pages) = shared.take() {
        for number in pages {
            let key = Key::of(*number);
            counts.lookups += 1;
            let reading = match counts.lookups % WHOLE_EVERY {
                0 => Reading::Whole,
                _ => Reading::Word,
            };
            match cache.get(key, reading) {
                Some(found) => {
                    counts.hits += 1;
                    counts.verified += u64::from(found == key.expected(reading));
                }
                None => miss(cache, key, latency, &mut counts),
            }
        }
    }
    counts.elapsed = start.elapsed();
    counts.cpu = thread_cpu() - cpu;
    counts
}

fn thread_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock writes the whole of `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cold]
#[inline(never)]
fn miss(cache: &impl PageCache, key: Key, latency: Duration, counts: &mut Counts) {
    let start = Instant::now();
    let is_in = cache.insert(key, |page| {
        let start = Instant::now();
        while start.elapsed() < latency {
            std::hint::spin_loop();
        }
        page.write(key);
        counts.in_fills += start.elapsed();
    });
    counts.in_misses += start.elapsed();
    // Later hits check the bytes; a read here would be a second use. A refused page is unverified.
    counts.verified += u64::from(is_in);
}

fn measurement(counts: Counts, wall: Duration, served_by: &str) -> Measurement {
    let ns = |duration: Duration| duration.as_nanos() as u64;
    let misses = counts.lookups - counts.hits;
    let window = Measurement::of_window(
        counts.lookups,
        ns(counts.elapsed),
        ns(wall),
        ns(counts.cpu),
        served_by,
    );
    Measurement { verified: counts.verified, ..window }.with(&[
        ("hits", counts.hits),
        ("lookup_ns", ns(counts.elapsed)),
        ("misses", misses),
        ("hit_ns", ns(counts.elapsed.saturating_sub(counts.in_misses))),
        ("miss_ns", ns(counts.in_misses)),
        ("fill_ns", ns(counts.in_fills)),
        ("overhead_ns", ns(counts.in_misses.saturating_sub(counts.in_fills))),
        ("resident_bytes", proc::resident(std::process::id()).unwrap_or(0)),
    ])
}

/// Counts the hits of a policy on a trace, without bytes and times.
pub fn simulate(simulator: &mut dyn Simulator, trace: &Trace, served_by: &str) -> Measurement {
    for page in &trace.warm_up {
        simulator.lookup(*page);
    }
    let mut hits = 0;
    for _ in 0..trace.passes {
        hits += trace.measured.iter().filter(|page| simulator.lookup(**page)).count() as u64;
    }
    let lookups = trace.lookups();
    let window = Measurement::of_window(lookups, 0, 0, 0, served_by);
    Measurement { verified: lookups, ..window }.with(&[("hits", hits), ("misses", lookups - hits)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caches::{QuickCache, VmCache};
    use crate::page::Page;
    use crate::simulators::Lru;
    use crate::trace::Workload;

    fn terms() -> Terms {
        Terms { tasks: 2, cpus: Vec::new(), latency: Duration::from_micros(2) }
    }

    #[test]
    fn every_lookup_is_counted_and_verified() {
        let trace = Workload::Twice.trace(256, 6, 1);
        let caches = VmCache::new(256, trace.pages).unwrap();
        let one = measure(&caches, &trace, &terms(), "vmcache").unwrap();
        let two = measure(&QuickCache::new(256), &trace, &terms(), "quick_cache").unwrap();
        for measurement in [one, two] {
            assert_eq!((measurement.operations, measurement.verified), (6 * 256, 6 * 256));
            let of = |name: &str| measurement.counters[name];
            assert_eq!(of("hits") + of("misses"), 6 * 256);
            assert!(of("misses") > 256 && of("fill_ns") >= of("misses") / 2 * 2000);
            assert!(of("miss_ns") >= of("fill_ns"));
        }
    }

    struct Liar(Page);

    impl PageCache for Liar {
        fn get(&self, key: Key, reading: Reading) -> Option<u64> {
            Some(self.0.read(key, reading))
        }

        fn insert(&self, _: Key, _: impl FnOnce(&Page)) -> bool {
            true
        }
    }

    #[test]
    fn wrong_bytes_are_not_verified() {
        let trace = Workload::Loop.trace(100, 6, 1);
        let liar = Liar(Page::zeroed());
        liar.0.write(Key::of(5));
        let measurement = measure(&liar, &trace, &terms(), "liar").unwrap();
        assert!(measurement.verified < measurement.operations / 50);
    }

    #[test]
    fn simulators_have_no_times() {
        let trace = Workload::HotSmall.trace(2000, 6, 1);
        let measurement = simulate(&mut Lru::new(2000, trace.pages), &trace, "lru");
        assert_eq!(measurement.counters["misses"], 0);
        assert_eq!(measurement.time_ns, 0);
    }
}
