//! Caches of values and pools of pages, in a program with another global allocator.

mod modes;

use quarry::{
    Cache, CacheBox, CacheOptions, CacheParams, ConstructedCache, Error, PageFlags, PagePool,
    Pages, Quarry, RawCache,
};
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;

/// Counts how many values of its type exist.
struct Counted<'a>(&'a AtomicUsize, #[expect(dead_code, reason = "it takes room")] [u64; 9]);

impl<'a> Counted<'a> {
    fn new(alive: &'a AtomicUsize) -> Self {
        alive.fetch_add(1, Relaxed);
        Self(alive, [7; 9])
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn values_live_in_our_memory_and_are_dropped_once() {
    let alive = AtomicUsize::new(0);
    let cache = Cache::new("counted").expect("a cache");
    let boxes: Vec<_> = (0..500).map(|_| cache.alloc(Counted::new(&alive)).ok().unwrap()).collect();
    assert_eq!(alive.load(Relaxed), 500);
    assert!(boxes.iter().all(|value| Quarry::owns((&raw const **value).cast())));
    drop(boxes);
    assert_eq!(alive.load(Relaxed), 0);
    let moved = cache.alloc(Counted::new(&alive)).ok().unwrap().into_inner();
    assert_eq!(alive.load(Relaxed), 1, "moved out, not dropped");
    drop(moved);
    let stats = cache.stats();
    assert_eq!((stats.allocs(), stats.frees()), (501, 501));
    assert_eq!(cache.destroy().map_err(|remaining| remaining.objects()), Ok(()));
}

#[test]
fn values_are_aligned_and_may_have_no_size() {
    #[repr(align(256))]
    #[derive(Debug)]
    struct Aligned(u8);
    let aligned = Cache::new("aligned").expect("a cache");
    let values: Vec<_> = (0..40).map(|n| aligned.alloc(Aligned(n)).unwrap()).collect();
    for (n, value) in values.iter().enumerate() {
        assert!((&raw const **value).is_aligned() && value.0 == n as u8);
    }
    let units = Cache::new("units").expect("a cache");
    let (one, other) = (units.alloc(()).unwrap(), units.alloc(()).unwrap());
    assert_ne!(&raw const *one, &raw const *other);
    let lines = Cache::<[u8; 40]>::hardware_aligned("lines").expect("a cache");
    let boxes: Vec<_> = (0..40).map(|_| lines.alloc([1; 40]).unwrap()).collect();
    assert!(boxes.iter().all(|value| value.as_ptr().addr().is_multiple_of(64)));
}

#[test]
fn values_move_between_threads() {
    let cache = Cache::unmerged("handed over").expect("a cache");
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel::<CacheBox<'_, String>>(64);
        scope.spawn(|| {
            let sender = sender;
            for number in 0..20_000 {
                let value = cache.alloc(number.to_string()).expect("there is memory");
                sender.send(value).expect("it listens");
            }
        });
        let mut next = 0;
        for value in receiver {
            assert_eq!(*value, next.to_string());
            next += 1;
        }
        assert_eq!(next, 20_000);
    });
    // This also takes the objects of the cache that other CPUs hold.
    cache.shrink();
    let stats = cache.stats();
    assert_eq!((stats.total_slabs, stats.parked_objects), (0, 0), "{stats:?}");
}

#[test]
fn a_reserve_gives_what_it_has() {
    let alive = AtomicUsize::new(0);
    let cache = Cache::new("reserved").expect("a cache");
    let mut reserve = cache.prefill(3).expect("there is memory");
    let boxes: Vec<_> =
        (0..3).map(|_| reserve.alloc(Counted::new(&alive)).ok().expect("three")).collect();
    assert!(reserve.alloc(Counted::new(&alive)).is_err() && reserve.left() == 0);
    drop(reserve);
    assert_eq!(alive.load(Relaxed), 3);
    drop(boxes);
    let unused = cache.prefill(1000).expect("there is memory");
    assert_eq!(unused.left(), 1000);
    drop(unused);
    assert!(cache.prefill(1 << 20).is_none(), "too many");
    let stats = cache.stats();
    assert_eq!(stats.allocs(), stats.frees());
}

#[test]
fn a_forgotten_box_is_reported_and_its_memory_stays() {
    let cache = Cache::unmerged("forgotten").expect("a cache");
    let value = cache.alloc([5u64; 20]).unwrap();
    let place: *const [u64; 20] = &raw const *value;
    std::mem::forget(value);
    let remaining = cache.destroy().expect_err("one is in use");
    assert_eq!(remaining.objects(), 1);
    assert_eq!(remaining.named().map(|object| object.as_ptr().addr()).next(), Some(place.addr()));
    // SAFETY: the box was forgotten, so its memory is ours for ever.
    assert_eq!(unsafe { *place }, [5; 20]);
}

#[test]
fn constructed_values_keep_their_state() {
    static MADE: AtomicU32 = AtomicU32::new(0);
    struct Table {
        serial: u32,
        uses: u32,
        _rest: [u8; 300],
    }
    let cache = ConstructedCache::new("tables", || Table {
        serial: MADE.fetch_add(1, Relaxed),
        uses: 0,
        _rest: [0; 300],
    })
    .expect("a cache");
    // Keeps the slab of this value while another test trims the heap.
    let held = cache.alloc().expect("there is memory");
    // How often each table has been used, by its serial number.
    let seen = Mutex::new(HashMap::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    let mut some: Vec<_> = (0..5).map(|_| cache.alloc().unwrap()).collect();
                    let mut seen = seen.lock().unwrap();
                    for table in &mut some {
                        let uses = seen.entry(table.serial).or_insert(0);
                        assert_eq!(table.uses, *uses, "as its last user left it");
                        table.uses += 1;
                        *uses += 1;
                    }
                }
            });
        }
    });
    let stats = cache.stats();
    let made = stats.slabs_allocated * (stats.total_objects / stats.total_slabs);
    assert_eq!(u64::from(MADE.load(Relaxed)), made, "one for each object: {stats:?}");
    assert!(seen.lock().unwrap().len() as u64 <= made && held.uses == 0);
}

#[test]
fn impossible_caches_have_an_error() {
    let error = Cache::<[u8; 5 << 20]>::new("large").expect_err("no slab holds it");
    assert_eq!(error, Error::BadLayout { size: 5 << 20, align: 1 });
    assert!(error.to_string().contains("4 MiB"));
}

/// Creates a cache of untyped objects without a constructor.
fn raw(size: usize) -> RawCache {
    let (params, options) = (CacheParams { size, align: 8 }, CacheOptions::default());
    // SAFETY: there is no constructor.
    RawCache::create("raw", &params, &options).expect("a cache")
}

#[test]
fn handles_outlive_their_caches_and_stand_for_no_other() {
    let first = raw(72);
    // SAFETY: no other code knows the handle.
    let of_handle = |handle| unsafe { RawCache::of_handle(handle) };
    assert_eq!(of_handle(first.handle()), Some(first));
    // SAFETY: no other code knows the cache.
    unsafe { first.destroy() }.expect("nothing is in use");
    let second = raw(72);
    assert_ne!(first.handle(), second.handle());
    assert_eq!(of_handle(first.handle()), None);
    let mut objects = [MaybeUninit::uninit(); 40];
    assert_eq!(second.alloc_bulk(&mut objects), 40);
    let objects: [NonNull<u8>; 40] =
        // SAFETY: all of them are written.
        objects.map(|object| unsafe { object.assume_init() });
    // SAFETY: they have 72 bytes each, and are freed once.
    unsafe {
        objects.iter().for_each(|object| object.write_bytes(1, 72));
        second.free_bulk(&objects);
        let zeroed = second.alloc_zeroed().expect("there is memory");
        assert!((0..72).all(|byte| zeroed.add(byte).read() == 0));
        second.free(zeroed);
        second.destroy().expect("nothing is in use");
    }
}

#[test]
fn caches_come_and_go_while_others_work() {
    let alive = AtomicUsize::new(0);
    let shared = Cache::new("shared").expect("a cache");
    thread::scope(|scope| {
        for seed in 0..4usize {
            let (shared, alive) = (&shared, &alive);
            scope.spawn(move || {
                for round in 0..300 {
                    let own = Cache::<[u64; 6]>::unmerged("own").expect("a cache");
                    let boxes: Vec<_> = (0..50).map(|n| own.alloc([n; 6]).unwrap()).collect();
                    let others: Vec<_> =
                        (0..30).map(|_| shared.alloc(Counted::new(alive)).ok().unwrap()).collect();
                    assert!(boxes.iter().zip(0..).all(|(value, n)| **value == [n; 6]));
                    drop((boxes, others));
                    if (round + seed) % 50 == 0 {
                        assert!(Quarry::stats().is_some());
                        let _ = Quarry::trim();
                    }
                    own.destroy().expect("nothing is in use");
                }
            });
        }
    });
    assert_eq!(alive.load(Relaxed), 0);
    assert_eq!(quarry::Quarry::validate(), Ok(()));
}

const ZEROED: PageFlags = PageFlags { zeroed: true, atomic: false };
const ATOMIC: PageFlags = PageFlags { zeroed: false, atomic: true };

#[test]
fn pools_count_their_pages() {
    let pool = PagePool::new();
    for order in 0..=9u8 {
        let mut pages = pool.alloc(order, ZEROED).expect("there is memory");
        let bytes = 4096usize << order;
        assert_eq!((pages.len(), pages.order(), pool.in_use()), (bytes, order, 1 << order));
        assert!(pages.as_ptr().addr().is_multiple_of(bytes));
        // SAFETY: the request was for zeroes.
        assert!(pages.iter().all(|byte| unsafe { byte.assume_init() } == 0));
        pages.iter_mut().for_each(|byte| {
            byte.write(order);
        });
    }
    assert_eq!(pool.in_use(), 0);
    assert!(pool.alloc(10, ZEROED).is_none(), "there is no such order");
}

#[test]
fn pools_move_many_pages_at_once() {
    let pool = PagePool::new();
    let mut blocks: [Option<Pages<'_>>; 100] = [const { None }; 100];
    blocks[3] = pool.alloc(4, ZEROED);
    let kept = blocks[3].as_ref().map(Pages::as_ptr);
    assert_eq!(pool.alloc_bulk(1, ZEROED, &mut blocks), 99, "one place was full");
    assert_eq!(pool.in_use(), 99 * 2 + 16);
    assert_eq!(blocks[3].as_ref().map(Pages::as_ptr), kept);
    let mut starts: Vec<usize> =
        blocks.iter().flatten().map(|pages| pages.as_ptr().addr()).collect();
    starts.sort_unstable();
    starts.dedup();
    assert_eq!(starts.len(), 100);
    // SAFETY: the requests were for zeroes.
    assert!(blocks.iter().flatten().all(|pages| unsafe { pages[0].assume_init() } == 0));
    blocks[50] = None;
    pool.free_bulk(&mut blocks);
    assert!(blocks.iter().all(Option::is_none) && pool.in_use() == 0);
    assert_eq!(pool.alloc_bulk(10, ZEROED, &mut blocks), 0, "there is no such order");
}

#[test]
fn what_was_freed_serves_those_who_cannot_wait() {
    let pool = PagePool::new();
    drop(pool.alloc(3, ZEROED).expect("there is memory"));
    let pages = pool.alloc(3, ATOMIC).expect("what was just freed");
    assert_eq!(pool.in_use(), 8);
    drop(pages);
    let mut blocks: [Option<Pages<'_>>; 4] = [const { None }; 4];
    assert!(pool.alloc_bulk(0, ATOMIC, &mut blocks) > 0);
    pool.free_bulk(&mut blocks);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn in_every_mode() {
    modes::run(&[]);
}
