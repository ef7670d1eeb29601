//! Quarry's slabs in the terms of jemalloc: Valkey from 8.1 on decides by them which objects to
//! move (its `allocator_defrag.c`).
//!
//! A bin is one of jemalloc's size classes, and holds the slabs whose objects are larger than the
//! bin before and no larger than the bin itself. Each has as many regions as the slabs that serve
//! requests of the bin's size have objects:
//! `regions in use = objects in use * regions / objects`. So a slab is as full in regions as it is
//! in objects; bins up to 128 bytes, and most larger ones, count the objects themselves.

#![cfg_attr(not(feature = "full"), expect(dead_code, reason = "only the policy there tells it"))]

#[cfg(feature = "full")]
use quarry::Quarry;
use quarry::process::{self, Mode, STACK};
use quarry_mm::heap::classes::{self, LARGEST};
use quarry_mm::slab::CacheId;
use quarry_mm::stack::StackHost;
use quarry_sys::own_stack;
#[cfg(feature = "full")]
use quarry_sys::percpu::Object;
use quarry_sys::primitive::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Bytes between the smallest classes. Valkey builds its own jemalloc with 8, and accepts no other.
pub const QUANTUM: usize = 8;
/// Number of classes that are as far apart as the smallest ones.
const FINE: usize = 8;
/// Number of bins: the classes up to Quarry's largest one.
pub const COUNT: usize = FINE + 4 * (LARGEST / (FINE * QUANTUM)).ilog2() as usize;

/// The size of jemalloc's class with this number: the quantum apart at first, then four classes to
/// a doubling.
pub const fn size(number: usize) -> usize {
    match number.checked_sub(FINE) {
        None => (number + 1) * QUANTUM,
        Some(coarse) => ((5 + coarse % 4) * 2 * QUANTUM) << (coarse / 4),
    }
}

/// The first of jemalloc's classes with at least so many bytes, if it is a bin.
#[inline(never)]
fn bin_of(bytes: usize) -> Option<usize> {
    let last = bytes.max(1) - 1;
    let bin = match (last / (FINE * QUANTUM)).checked_ilog2() {
        None => last / QUANTUM,
        Some(doubling) => 4 * doubling as usize + FINE - 4 + (last >> (doubling + 4)),
    };
    (bin < COUNT).then_some(bin)
}

/// Counts of a bin: regions in use, slabs in use, and those of them with a free region.
type Counts<T> = [T; 3];

/// The counts when the program last refreshed them: until then it gets the same answers, so
/// that it can compare them.
static COUNTS: [Counts<AtomicUsize>; COUNT] = [const { [const { AtomicUsize::new(0) }; 3] }; COUNT];
static ARE_TAKEN: AtomicBool = AtomicBool::new(false);

/// Number of regions of a slab of this bin; 1 if Quarry does not serve the process.
pub fn regions(bin: usize) -> usize {
    let class = classes::of(size(bin));
    if is_served() { STACK.cache(class).objects() as usize } else { 1 }
}

#[inline(never)]
fn is_served() -> bool {
    process::ensure_ready() == Mode::Ready && STACK.has_classes()
}

/// Counts all slabs anew. O(classes * slots).
#[inline(never)]
pub fn refresh() {
    own_stack::run(count);
}

/// A function of its own, so that it lies among those that no start needs.
#[inline(never)]
fn count() {
    let mut sums: [Counts<usize>; COUNT] = [[0; 3]; COUNT];
    if !is_served() {
        return;
    }
    for class in (1..=classes::COUNT).map(CacheId::new) {
        let (cache, stats) = (STACK.cache(class), process::cache_stats(class));
        let Some(bin) = bin_of(cache.object_bytes()) else { continue };
        let Some([used, all, nonfull]) = sums.get_mut(bin) else { continue };
        let (regions, objects) = (regions(bin), cache.objects().max(1) as usize);
        let (slabs, partial) = (stats.active_slabs as usize, stats.partial_slabs as usize);
        let full = slabs.saturating_sub(partial);
        let live = (stats.active_objects as usize).saturating_sub(full * objects);
        *used += full * regions + live * regions / objects;
        *all += slabs;
        *nonfull += partial;
    }
    for (count, sum) in COUNTS.as_flattened().iter().zip(sums.as_flattened()) {
        count.store(*sum, Relaxed);
    }
    ARE_TAKEN.store(true, Relaxed);
}

/// The counts of a bin; zeros if there is none with this number.
pub fn counts(bin: usize) -> Counts<usize> {
    if !ARE_TAKEN.load(Relaxed) {
        refresh();
    }
    let counts = COUNTS.get(bin).map(|counts| counts.each_ref().map(|it| it.load(Relaxed)));
    counts.unwrap_or_default()
}

/// The answer of `experimental.utilization.query`: no slab from which regions are taken now;
/// free regions, regions and bytes of the allocation's slab; free regions and regions of its
/// bin. Zeros if no allocation starts there, one region in use if it is in no slab.
#[cfg(feature = "full")]
pub fn utilization(pointer: *mut u8) -> [usize; 6] {
    if let Some(it) = Quarry::occupancy(pointer)
        && let Some(bin) = bin_of(it.bytes)
    {
        let (regions, [used, slabs, _]) = (regions(bin), counts(bin));
        let live = it.live as usize * regions / it.total.max(1) as usize;
        let (free, all) = ((regions - live).min(regions - 1), slabs * regions);
        return [0, free, regions, regions * size(bin), all.saturating_sub(used), all];
    }
    let single = |bytes| [0, 0, 1, bin_of(bytes).map_or(bytes, size), 0, 0];
    let bytes = Object::new(pointer).and_then(process::find_usable_size);
    bytes.map_or([0; 6], single)
}
