use super::*;
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// A cache that frees as many objects as it is asked to.
struct Cache {
    objects: AtomicU64,
    calls: AtomicU64,
}

impl Cache {
    fn new(objects: u64) -> Self {
        Self { objects: AtomicU64::new(objects), calls: AtomicU64::new(0) }
    }

    fn objects(&self) -> u64 {
        self.objects.load(Relaxed)
    }
}

impl Shrinker for Cache {
    fn count(&self, _: &ShrinkControl) -> Count {
        match self.objects() {
            0 => Count::Empty,
            objects => Count::Objects(objects),
        }
    }

    fn scan(&self, control: &ShrinkControl) -> Scanned {
        self.calls.fetch_add(1, Relaxed);
        let freed = control.objects.min(self.objects());
        self.objects.fetch_sub(freed, Relaxed);
        Scanned::Objects { freed, scanned: control.objects }
    }
}

fn register(shrinkers: &Shrinkers, cache: &Cache, seeks: u32) -> HookId {
    let options = ShrinkerOptions { seeks, batch: 16, object_bytes: 0 };
    // SAFETY: caches outlive the table in these tests.
    unsafe { shrinkers.add(cache, options) }.expect("there is a place")
}

fn shrink(shrinkers: &Shrinkers, priority: u32) -> Shrunk {
    shrinkers.shrink(ReclaimCaller::Explicit, Ask::Share(priority, Share::EVEN), u64::MAX / 8)
}

#[test]
fn two_caches_shrink_in_proportion() {
    let (large, small) = (Cache::new(1_000_000), Cache::new(100_000));
    let shrinkers = Shrinkers::new();
    register(&shrinkers, &large, 2);
    register(&shrinkers, &small, 2);
    for _ in 0..10 {
        shrink(&shrinkers, 6);
    }
    let left = |cache: &Cache, all: u64| cache.objects() * 1000 / all;
    let (of_large, of_small) = (left(&large, 1_000_000), left(&small, 100_000));
    assert!((700..740).contains(&of_large), "(1 - 2/64)^10 are left: {of_large} per mille");
    assert!(of_large.abs_diff(of_small) < 10, "{of_large} and {of_small} per mille");
}

#[test]
fn what_costs_more_to_have_again_is_scanned_less() {
    let (cheap, dear, worthless) = (Cache::new(100_000), Cache::new(100_000), Cache::new(100_000));
    let shrinkers = Shrinkers::new();
    register(&shrinkers, &cheap, 2);
    register(&shrinkers, &dear, 8);
    register(&shrinkers, &worthless, 0);
    shrink(&shrinkers, 4);
    let gone = |cache: &Cache| 100_000 - cache.objects();
    assert!(gone(&cheap).abs_diff(4 * gone(&dear)) < 64);
    assert_eq!(gone(&worthless), 50_000, "half of it, whatever the priority");
}

#[test]
fn what_is_less_than_a_batch_is_deferred() {
    let cache = Cache::new(200);
    let shrinkers = Shrinkers::new();
    register(&shrinkers, &cache, 2);
    // A pass asks for 200 >> 5 * 2 = 12 objects, less than a batch of 16, and for those deferred.
    let mut passes = 0;
    while cache.objects() == 200 && passes < 100 {
        shrink(&shrinkers, 5);
        passes += 1;
    }
    assert_eq!(passes, 2);
    assert_eq!(cache.objects(), 184, "one batch");
    shrink(&shrinkers, 0);
    assert_eq!(cache.objects(), 0, "all of it where memory is very short");
    assert_eq!(shrink(&shrinkers, 0), Shrunk::default());
}

/// A shrinker whose results do not match each other.
struct Liar {
    count: Count,
    scanned: Scanned,
    calls: AtomicU64,
}

impl Shrinker for Liar {
    fn count(&self, _: &ShrinkControl) -> Count {
        self.count
    }

    fn scan(&self, _: &ShrinkControl) -> Scanned {
        self.calls.fetch_add(1, Relaxed);
        self.scanned
    }
}

#[test]
fn a_shrinker_that_lies_is_not_asked_for_ever() {
    for (count, scanned, most) in [
        (Count::Objects(u64::MAX), Scanned::Objects { freed: 0, scanned: 0 }, MOST_IDLE_BATCHES),
        (Count::Objects(u64::MAX), Scanned::Objects { freed: 1, scanned: 0 }, MOST_BATCHES),
        (
            Count::Objects(u64::MAX),
            Scanned::Objects { freed: u64::MAX, scanned: u64::MAX },
            MOST_BATCHES,
        ),
        (Count::Objects(1), Scanned::Objects { freed: 0, scanned: 0 }, 2),
        (Count::Objects(u64::MAX), Scanned::Stop, 1),
        (Count::Unknown, Scanned::Stop, 0),
        (Count::Empty, Scanned::Stop, 0),
    ] {
        let liar = Liar { count, scanned, calls: AtomicU64::new(0) };
        let shrinkers = Shrinkers::new();
        // SAFETY: it outlives the table.
        let id = unsafe { shrinkers.add(&raw const liar, ShrinkerOptions::default()) };
        for priority in (0..=12).rev() {
            liar.calls.store(0, Relaxed);
            let shrunk = shrink(&shrinkers, priority);
            assert!(liar.calls.load(Relaxed) <= most.into(), "{count:?}, {scanned:?}");
            assert!(shrunk.freed <= shrunk.scanned);
        }
        assert!(shrinkers.remove(id.expect("a place")));
    }
}

#[test]
fn a_shared_cache_is_a_shrinker() {
    let cache = std::sync::Arc::new(Cache::new(64));
    let shrinkers = Shrinkers::new();
    // SAFETY: it outlives the table.
    let id = unsafe { shrinkers.add(&raw const cache, ShrinkerOptions::default()) };
    shrink(&shrinkers, 0);
    assert_eq!(cache.objects(), 0);
    assert!(shrinkers.remove(id.expect("a place")));
    assert!(!shrinkers.is_any());
}
