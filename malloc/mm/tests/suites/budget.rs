//! One budget for the heap and the caches of a program: marks, shrinkers, pressure, changes of the
//! limit.

use crate::support::{Backing, Bed, VirtualConfig, on_cpu, small};
use quarry_cache::{
    Balanced, Count, Goal, ReclaimCaller, Scanned, ShrinkControl, Shrinker, ShrinkerOptions,
};
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{Pressure, Stack, StackHost};
use quarry_mm::zone::{Mark, MarkOptions};
use quarry_sys::hooks::HookId;
use quarry_sys::percpu::Object;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

type Config = VirtualConfig<Sheaf>;

const MIB: usize = 1 << 20;
const LIMIT: usize = 32 * MIB;

fn bed_of(limit: usize, cpus: u32) -> Bed<Config> {
    let mut options = StackOptions { heap: true, ..small() };
    options.pages.limit_frames = (limit / FRAME_BYTES) as u32;
    options.pages.reserve_bytes = 256 * MIB;
    Bed::new(Backing::Linux, 4096, cpus, &options)
}

/// A cache of the program: objects of one size, the oldest first.
struct Cache<'a> {
    stack: &'a Stack<Config>,
    size: usize,
    objects: Mutex<VecDeque<Address>>,
    scans: AtomicU64,
}

struct Address(Object);

// SAFETY: only a thread that holds the list's lock uses its objects.
unsafe impl Send for Address {}

impl<'a> Cache<'a> {
    fn new(stack: &'a Stack<Config>, size: usize) -> Self {
        Self { stack, size, objects: Mutex::default(), scans: AtomicU64::new(0) }
    }

    /// Adds an object; returns false if there is no memory.
    fn add(&self) -> bool {
        let object = self.stack.alloc(self.size);
        if let Some(object) = object {
            self.objects.lock().unwrap().push_back(Address(object));
        }
        object.is_some()
    }

    fn bytes(&self) -> usize {
        self.objects.lock().unwrap().len() * self.size
    }

    fn free(&self, count: u64) -> u64 {
        let mut freed = 0;
        while freed < count {
            let Some(Address(object)) = self.objects.lock().unwrap().pop_front() else { break };
            // SAFETY: the object was in the list, and only the list knew it.
            unsafe { self.stack.free(object) };
            freed += 1;
        }
        freed
    }
}

impl Shrinker for Cache<'_> {
    fn count(&self, _: &ShrinkControl) -> Count {
        match self.objects.lock().unwrap().len() {
            0 => Count::Empty,
            count => Count::Objects(count as u64),
        }
    }

    fn scan(&self, control: &ShrinkControl) -> Scanned {
        self.scans.fetch_add(1, Relaxed);
        let freed = self.free(control.objects);
        Scanned::Objects { freed, scanned: control.objects }
    }
}

/// Registers a shrinker that lives as long as the bed is used.
fn register<S: Shrinker>(stack: &Stack<Config>, shrinker: &S) -> HookId {
    stack.pages().zones().budget().keep_reserve();
    // SAFETY: tests keep a shrinker alive until they remove it or no balance runs any more.
    unsafe { stack.cached().shrinkers().add(shrinker, ShrinkerOptions::default()) }
        .expect("a place")
}

fn balance(stack: &Stack<Config>, goal: Goal) -> Balanced {
    quarry_cache::balance(stack, ReclaimCaller::Background, goal, || ())
}

/// Fills a cache until the budget is below its low mark.
fn fill_below_low(stack: &Stack<Config>, cache: &Cache<'_>) {
    while !stack.pages().zones().budget().is_below(Mark::Low) {
        assert!(cache.add(), "refused above the low mark");
    }
}

#[test]
fn the_background_returns_to_the_high_mark_whenever_it_is_woken() {
    let bed = bed_of(LIMIT, 2);
    let (stack, budget) = (&*bed.stack, bed.stack.pages().zones().budget());
    let cache = Cache::new(stack, 1000);
    let id = register(stack, &cache);
    for round in 0..50 {
        fill_below_low(stack, &cache);
        let done = balance(stack, Goal::HighMark);
        assert_eq!(done.missing, 0, "round {round}: {done:?}");
        assert!(budget.free() >= budget.marks().high, "round {round}");
        let kept = cache.bytes() as f64 / LIMIT as f64;
        assert!(kept > 0.7, "round {round}: no more than it takes, and {kept} is left");
    }
    let stats = stack.stats().budget.balances;
    assert_eq!((stats.runs, stats.reached), (50, 50));
    assert!(stack.cached().shrinkers().remove(id));
    cache.free(u64::MAX);
    bed.assert_empty(&[]);
}

#[test]
fn between_the_marks_nothing_is_reclaimed() {
    let bed = bed_of(LIMIT, 2);
    let (stack, budget) = (&*bed.stack, bed.stack.pages().zones().budget());
    // Wide gaps between the marks, because a request may take a batch of pages at once.
    budget.set_marks(MarkOptions { min: None, scale: 1000 });
    let cache = Cache::new(stack, 4096);
    let id = register(stack, &cache);
    fill_below_low(stack, &cache);
    assert_eq!(balance(stack, Goal::HighMark).missing, 0);
    let scans = cache.scans.load(Relaxed);
    // The free memory goes up and down between high and low: no balance is due.
    for _ in 0..100 {
        let mut taken = Vec::new();
        while budget.free() > budget.marks().low + 128 {
            taken.push(stack.alloc(4096).expect("above the low mark"));
        }
        assert!(!budget.is_below(Mark::Low));
        for object in taken {
            // SAFETY: the object was just allocated, and no other code uses it.
            unsafe { stack.free(object) };
        }
    }
    assert_eq!(cache.scans.load(Relaxed), scans);
    assert!(stack.cached().shrinkers().remove(id));
    cache.free(u64::MAX);
    bed.assert_empty(&[]);
}

#[test]
fn two_caches_give_in_proportion_until_the_goal_is_reached() {
    let bed = bed_of(64 * MIB, 2);
    let stack = &*bed.stack;
    let (large, small) = (Cache::new(stack, 2000), Cache::new(stack, 500));
    let ids = [register(stack, &large), register(stack, &small)];
    while large.bytes() < 32 * MIB {
        assert!(large.add());
    }
    while small.bytes() < 8 * MIB {
        assert!(small.add());
    }
    let used = stack.pages().zones().budget().used();
    let done = balance(stack, Goal::Used(used / 2));
    assert_eq!(done.missing, 0, "{done:?}");
    let left = [large.bytes() as f64 / (32 * MIB) as f64, small.bytes() as f64 / (8 * MIB) as f64];
    assert!(left[0] > 0.3 && left[1] > 0.3, "neither is emptied: {left:?}");
    assert!((left[0] - left[1]).abs() < 0.05, "in proportion: {left:?}");
    for (id, cache) in ids.into_iter().zip([&large, &small]) {
        assert!(stack.cached().shrinkers().remove(id));
        cache.free(u64::MAX);
    }
    bed.assert_empty(&[]);
}

#[test]
fn most_of_what_is_evicted_leaves_the_budget() {
    let bed = bed_of(LIMIT, 2);
    let stack = &*bed.stack;
    let cache = Cache::new(stack, 4096);
    let id = register(stack, &cache);
    let mut evicted = 0;
    let mut freed = 0;
    for _ in 0..20 {
        fill_below_low(stack, &cache);
        let (bytes, used) = (cache.bytes(), stack.pages().zones().budget().used());
        balance(stack, Goal::HighMark);
        evicted += bytes - cache.bytes();
        freed += (used - stack.pages().zones().budget().used()) as usize * FRAME_BYTES;
    }
    let part = freed as f64 / evicted as f64;
    assert!(part >= 0.9, "{freed} bytes freed of {evicted} evicted: {part}");
    assert!(stack.cached().shrinkers().remove(id));
    cache.free(u64::MAX);
    bed.assert_empty(&[]);
}

/// A shrinker that frees nothing, and returns a fixed answer.
struct Useless(Scanned);

impl Shrinker for Useless {
    fn count(&self, _: &ShrinkControl) -> Count {
        Count::Objects(u64::MAX)
    }

    fn scan(&self, _: &ShrinkControl) -> Scanned {
        self.0
    }
}

#[test]
fn shrinkers_that_free_nothing_or_lie_end_a_balance_and_refuse_nobody() {
    for said in [
        Scanned::Objects { freed: 0, scanned: 0 },
        Scanned::Objects { freed: 100, scanned: 100 },
        Scanned::Objects { freed: u64::MAX, scanned: 0 },
        Scanned::Stop,
    ] {
        let bed = bed_of(8 * MIB, 2);
        let stack = &*bed.stack;
        let (cache, useless) = (Cache::new(stack, 1000), Useless(said));
        let first = register(stack, &useless);
        while cache.add() {}
        let done = balance(stack, Goal::HighMark);
        assert!(done.missing > 0 && done.passes <= 64, "{done:?}");
        assert_eq!(quarry_cache::pressure(stack), Pressure::Critical);
        // A shrinker that can free objects is called as well.
        let second = register(stack, &cache);
        assert_eq!(balance(stack, Goal::HighMark).missing, 0);
        assert_eq!(stack.cached().pressure().level(), Pressure::None);
        assert!(
            stack.cached().shrinkers().remove(first) && stack.cached().shrinkers().remove(second)
        );
        cache.free(u64::MAX);
        bed.assert_empty(&[]);
    }
}

/// A shrinker whose scan allocates, and tries to reclaim.
struct Hungry<'a> {
    cache: Cache<'a>,
    got: AtomicU64,
    refused: AtomicU64,
}

impl Shrinker for Hungry<'_> {
    fn count(&self, control: &ShrinkControl) -> Count {
        self.cache.count(control)
    }

    fn scan(&self, control: &ShrinkControl) -> Scanned {
        let stack = self.cache.stack;
        assert!(stack.pages().zones().budget().reclaimers().is_in());
        let inner = balance(stack, Goal::Used(0));
        assert_eq!(inner.passes, 0, "a reclaim inside of a reclaim: {inner:?}");
        assert!(!quarry_cache::reclaim_pages(stack));
        let mut held = Vec::new();
        // The scan may take all of the reserve.
        while let Some(object) = stack.alloc(20_000) {
            held.push(object);
            self.got.fetch_add(1, Relaxed);
        }
        self.refused.fetch_add(1, Relaxed);
        for object in held {
            // SAFETY: the object was just allocated, and no other code uses it.
            unsafe { stack.free(object) };
        }
        self.cache.scan(control)
    }
}

#[test]
fn a_shrinker_that_allocates_has_the_reserve_and_never_reclaims() {
    let bed = bed_of(LIMIT, 2);
    let stack = &*bed.stack;
    let hungry = Hungry {
        cache: Cache::new(stack, 1000),
        got: AtomicU64::new(0),
        refused: AtomicU64::new(0),
    };
    let id = register(stack, &hungry);
    while hungry.cache.add() {}
    let budget = stack.pages().zones().budget();
    assert!(budget.room() < 8 && budget.free() >= budget.marks().min, "full but for the reserve");
    let reclaims = stack.stats().direct_reclaims;
    let done = balance(stack, Goal::HighMark);
    assert_eq!(done.missing, 0, "{done:?}");
    assert_eq!(stack.stats().direct_reclaims, reclaims, "no request reclaimed inside");
    assert!(hungry.got.load(Relaxed) > 0, "the reserve is there");
    assert!(hungry.refused.load(Relaxed) > 0, "and it ends");
    assert!(stack.cached().shrinkers().remove(id));
    hungry.cache.free(u64::MAX);
    bed.assert_empty(&[]);
}

/// No shrinker runs inside `malloc`, because the caller may hold any lock of the program.
#[test]
fn a_request_at_the_limit_calls_no_shrinker() {
    let bed = bed_of(8 * MIB, 2);
    let stack = &*bed.stack;
    let cache = Cache::new(stack, 1000);
    let id = register(stack, &cache);
    while cache.add() {}
    for size in [100, 5000, 100_000, 2 * MIB] {
        let _ = stack
            .alloc(size)
            .map(|object| cache.objects.lock().unwrap().push_back(Address(object)));
    }
    assert_eq!(cache.scans.load(Relaxed), 0);
    assert!(stack.cached().shrinkers().remove(id));
    cache.free(u64::MAX);
    bed.assert_empty(&[]);
}

#[test]
fn the_limit_is_halved_under_load() {
    let bed = bed_of(64 * MIB, 4);
    let stack = &*bed.stack;
    let budget = stack.pages().zones().budget();
    let caches: [Cache<'_>; 3] = [700, 3000, 9000].map(|size| Cache::new(stack, size));
    let ids = caches.each_ref().map(|cache| register(stack, cache));
    let (is_over, added) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut limit = budget.limit();
    std::thread::scope(|scope| {
        for (cpu, cache) in caches.iter().enumerate() {
            let (is_over, added) = (&is_over, &added);
            scope.spawn(move || {
                on_cpu(cpu as u32);
                while !is_over.load(Relaxed) {
                    // A refused request is no failure: it only shows that the background is slow.
                    added.fetch_add(u64::from(cache.add()), Relaxed);
                }
            });
        }
        on_cpu(3);
        // This thread does the work of the background.
        for halvings in 0..4 {
            let target = added.load(Relaxed) + 20_000;
            while added.load(Relaxed) < target {
                if budget.is_below(Mark::Low) {
                    balance(stack, Goal::HighMark);
                }
                std::thread::yield_now();
            }
            if halvings < 3 {
                limit /= 2;
                budget.set_limit(limit);
            }
            // As in `Resize::wait`: balances until no more than the limit is in use.
            let mut rounds = 0;
            while budget.used() > limit {
                balance(stack, Goal::HighMark);
                rounds += 1;
                assert!(rounds < 1000, "{} of {limit} frames", budget.used());
            }
        }
        is_over.store(true, Relaxed);
    });
    on_cpu(0);
    for (id, cache) in ids.into_iter().zip(&caches) {
        assert!(cache.bytes() > 0, "none was emptied");
        assert!(stack.cached().shrinkers().remove(id));
        cache.free(u64::MAX);
    }
    bed.assert_empty(&[]);
}

/// The pressure that a balance notes ends with the shortage; a shortage shows before any balance.
#[test]
fn pressure_follows_the_marks_without_a_balance() {
    let bed = bed_of(8 * MIB, 2);
    let stack = &*bed.stack;
    let (cache, useless) = (Cache::new(stack, 1000), Useless(Scanned::Stop));
    let id = register(stack, &useless);
    assert_eq!(quarry_cache::pressure(stack), Pressure::None);
    while cache.add() {}
    assert_eq!(quarry_cache::pressure(stack), Pressure::Low);
    assert!(balance(stack, Goal::HighMark).missing > 0);
    assert_eq!(quarry_cache::pressure(stack), Pressure::Critical);
    cache.free(u64::MAX);
    stack.shrink_all();
    assert_eq!(quarry_cache::pressure(stack), Pressure::None);
    assert_eq!(stack.cached().pressure().level(), Pressure::Critical, "not told yet");
    quarry_cache::note_relief(stack);
    assert_eq!(stack.cached().pressure().level(), Pressure::None);
    assert!(stack.cached().shrinkers().remove(id));
    bed.assert_empty(&[]);
}

#[test]
fn pressure_is_told_when_it_changes() {
    unsafe fn hear(context: *const (), level: Pressure) {
        // SAFETY: the context is `heard`, which outlives the callback.
        unsafe { &*context.cast::<Mutex<Vec<Pressure>>>() }.lock().unwrap().push(level);
    }
    let heard = Mutex::new(Vec::new());
    let bed = bed_of(LIMIT, 1);
    let stack = &*bed.stack;
    // SAFETY: `heard` outlives the callback, and a mutex guards the list.
    let hook =
        unsafe { stack.cached().pressure().add((&raw const heard).cast(), hear) }.expect("a place");
    let cache = Cache::new(stack, 1000);
    let id = register(stack, &cache);
    for _ in 0..3 {
        fill_below_low(stack, &cache);
        balance(stack, Goal::HighMark);
    }
    let told = heard.lock().unwrap().clone();
    assert_eq!(told.last(), Some(&Pressure::None), "{told:?}");
    assert!(told.windows(2).all(|pair| pair[0] != pair[1]), "each change once: {told:?}");
    assert!(stack.cached().pressure().remove(hook) && stack.cached().shrinkers().remove(id));
    fill_below_low(stack, &cache);
    balance(stack, Goal::HighMark);
    assert_eq!(*heard.lock().unwrap(), told, "removed");
    cache.free(u64::MAX);
    bed.assert_empty(&[]);
}

#[test]
fn figures_add_up() {
    let bed = bed_of(LIMIT, 2);
    let stack = &*bed.stack;
    let cache = Cache::new(stack, 1000);
    let id = register(stack, &cache);
    let empty = stack.stats().budget;
    assert_eq!((empty.limit, empty.used, empty.free), (LIMIT, 0, LIMIT));
    assert_eq!(empty.available, LIMIT - empty.min);
    fill_below_low(stack, &cache);
    let full = stack.stats().budget;
    assert_eq!(full.free, LIMIT - full.used);
    assert!(full.min <= full.low && full.low <= full.high && full.free < full.low);
    assert!(full.slab_unreclaimable >= cache.bytes());
    assert!(full.available < full.low, "all is in use: {full:?}");
    cache.free(u64::MAX);
    let parked = stack.stats().budget;
    assert!(parked.available > LIMIT / 2, "nothing is in use: {parked:?}");
    assert!(stack.cached().shrinkers().remove(id));
    bed.assert_empty(&[]);
}
