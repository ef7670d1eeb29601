//! The arrays of CPUs, the shared array that they exchange with, and the slabs.

use super::machine::Machine;
use quarry_mm::frame::MetadataKind;
use quarry_mm::slab::{Cache, CacheId, SlabPolicy, SlabStats};
use quarry_sys::percpu::Object;
use std::vec::Vec;

const LIMIT: usize = 120;
const BATCH: usize = 60;
const SHARED: usize = 8 * BATCH;

/// Frees enough objects to fill the array of CPU 0, and then `more`; returns them.
fn fill(machine: &Machine, cache: &Cache, more: usize) -> Vec<Object> {
    let mut objects = machine.alloc_all(0, cache, LIMIT + more);
    objects.truncate(LIMIT + more);
    machine.free_all(0, cache, &objects);
    objects
}

#[test]
fn the_oldest_objects_leave_a_full_array() {
    let machine = Machine::new(1, 4);
    let cache = machine.cache(64);
    let all = machine.alloc_all(0, cache, LIMIT + 1);
    let (freed, kept) = all.split_at(LIMIT + 1);
    machine.free_all(0, cache, &freed[..LIMIT]);
    assert_eq!((machine.level(0, cache), machine.shared(0, cache)), (LIMIT as u64, 0));
    machine.free(0, cache, freed[LIMIT]);
    let stats = machine.stats(cache);
    assert_eq!(stats.free_slow, 1, "{stats:?}");
    assert_eq!(machine.level(0, cache), (LIMIT - BATCH + 1) as u64);
    assert_eq!(machine.shared(0, cache), BATCH as u64);
    // The object that was freed last comes first; the shared array serves the last requests.
    let again: Vec<_> = freed.iter().map(|_| machine.alloc(0, cache)).collect();
    assert!(again.iter().eq(freed.iter().rev()));
    machine.validate();
    machine.free_all(0, cache, freed);
    machine.free_all(0, cache, kept);
    machine.finish();
}

#[test]
fn the_shared_array_serves_other_cpus_before_slabs_do() {
    let machine = Machine::new(1, 4);
    let cache = machine.cache(64);
    let objects = fill(&machine, cache, 1);
    let before = (machine.stats(cache).slabs_allocated, machine.free_objects(0, cache));
    // The first refill of an unused array takes 16 objects. The next one would take half of the
    // array's limit, 60, but the shared array has only 44 objects left.
    let mut taken = Vec::new();
    for (number, refill) in [(16, 16), (44, 44)] {
        taken.push(machine.alloc(1, cache));
        assert_eq!(machine.level(1, cache), refill - 1);
        taken.extend((1..number).map(|_| machine.alloc(1, cache)));
    }
    let after = (machine.stats(cache).slabs_allocated, machine.free_objects(0, cache));
    assert_eq!(before, after, "nothing came from slabs");
    assert_eq!(machine.shared(0, cache), 0);
    assert!(taken.iter().all(|object| objects[..BATCH].contains(object)));
    machine.validate();
}

#[test]
fn a_flush_moves_no_more_than_the_shared_array_has_room_for() {
    let machine = Machine::new(1, 4);
    let cache = machine.cache(64);
    let spare = machine.alloc_all(0, cache, LIMIT);
    fill(&machine, cache, SHARED - BATCH + 1);
    // CPU 1 takes its first refill, which is 16 objects.
    machine.alloc(1, cache);
    let (room, level) = (16, machine.level(0, cache) as usize);
    assert_eq!(machine.shared(0, cache), (SHARED - room) as u64);
    let (first, rest) = spare.split_at(LIMIT - level);
    machine.free_all(0, cache, first);
    let in_slabs = machine.free_objects(0, cache);
    machine.free(0, cache, rest[0]);
    assert_eq!(machine.level(0, cache), (LIMIT - room + 1) as u64);
    assert_eq!(machine.shared(0, cache), SHARED as u64);
    assert_eq!(machine.free_objects(0, cache), in_slabs);
    // Now the shared array has no room, and a whole batch goes to its slabs.
    machine.free_all(0, cache, &rest[1..room]);
    assert_eq!(machine.level(0, cache), LIMIT as u64);
    machine.free(0, cache, rest[room]);
    assert_eq!(machine.level(0, cache), (LIMIT - BATCH + 1) as u64);
    assert_eq!(machine.shared(0, cache), SHARED as u64);
    let stats = machine.stats(cache);
    let gone = stats.slabs_freed * u64::from(cache.objects());
    assert_eq!(machine.free_objects(0, cache) + gone, in_slabs + BATCH as u64, "{stats:?}");
    machine.validate();
}

#[test]
fn there_is_no_shared_array_for_one_cpu_nor_where_it_is_left_out() {
    for machine in [Machine::new(1, 1), Machine::without(1, 4, "shared")] {
        let cache = machine.cache(64);
        let objects = machine.alloc_all(0, cache, LIMIT + 1);
        machine.free_all(0, cache, &objects);
        let stats = machine.stats(cache);
        assert_eq!(machine.shared(0, cache), 0);
        assert_eq!(stats.parked_objects, machine.level(0, cache), "{stats:?}");
        machine.finish();
    }
}

/// With two objects per slab, batches of 12 and one CPU, a node keeps as many free objects as two
/// batches and one slab have together.
#[test]
fn a_node_keeps_free_slabs_up_to_its_limit() {
    const FREE_LIMIT: u64 = 2 * 12 + 2;
    let machine = Machine::new(1, 1);
    let cache = machine.cache(2048);
    let objects = machine.alloc_all(0, cache, 200);
    let mut most = 0;
    for object in &objects {
        machine.free(0, cache, *object);
        most = machine.free_objects(0, cache).max(most);
    }
    assert_eq!(most, FREE_LIMIT);
    let stats = machine.stats(cache);
    let freed = objects.len() as u64 - machine.level(0, cache) - FREE_LIMIT;
    assert_eq!(stats.slabs_freed, freed / 2, "{stats:?}");
    machine.finish();
}

/// Among partly free slabs, those that got an object back last are at the end of the list.
#[test]
fn a_slab_that_gets_an_object_back_goes_behind_the_others() {
    let machine = Machine::without(1, 4, "shared");
    let cache = machine.cache(2048);
    let objects = machine.alloc_all(0, cache, 48);
    let slab = |object: &Object| object.as_ptr() as usize / 4096;
    // One object of each of 24 slabs. They fill the array, and 12 of them go back to their slabs.
    let mut firsts: Vec<Object> = Vec::new();
    for object in &objects {
        if !firsts.iter().any(|other| slab(other) == slab(object)) {
            firsts.push(*object);
        }
    }
    assert!(firsts.len() >= 24);
    let rest: Vec<_> = objects.iter().filter(|object| !firsts.contains(object)).collect();
    machine.free_all(0, cache, &firsts);
    machine.free(0, cache, *rest[0]);
    assert_eq!(machine.level(0, cache), 24 - 12 + 1);
    for _ in 0..13 {
        machine.alloc(0, cache);
    }
    assert_eq!(machine.level(0, cache), 0);
    // The refill takes slabs in the order in which they got objects back; the object taken last is
    // handed out first.
    let back: Vec<_> = (0..12).map(|_| machine.alloc(0, cache)).collect();
    assert!(back.iter().rev().eq(firsts[..12].iter()), "{back:?}");
    machine.validate();
}

#[test]
fn a_cache_that_takes_the_number_of_another_starts_anew() {
    let machine = Machine::new(1, 4);
    let cache = machine.cache(64);
    let objects = machine.alloc_all(0, cache, 500);
    machine.free_all(0, cache, &objects);
    machine.finish();
    let bytes = || machine.metadata.bytes(MetadataKind::CpuSlabs);
    let before = bytes();
    machine.policy.create(machine.context().with(cache)).expect("it is empty");
    assert_eq!(machine.stats(cache), {
        let mut stats = SlabStats::default();
        // A lock's counts continue when a cache's number is reused.
        stats.barns[0].lock = machine.stats(cache).barns[0].lock;
        stats.barns[0].lock.acquisitions -= 1;
        stats.list_lock = stats.barns[0].lock;
        stats
    });
    let objects = machine.alloc_all(0, cache, 500);
    machine.free_all(0, cache, &objects);
    assert_eq!(machine.stats(cache).allocs(), objects.len() as u64);
    assert_eq!(bytes(), before, "no byte is counted twice");
    machine.finish();
}

/// A cache may get the number of a removed cache. Its arrays then hold as many objects as it wants,
/// but at most as many as the arrays of the first cache with that number.
#[test]
fn an_array_of_a_number_that_is_used_again_has_the_limit_of_its_cache() {
    let machine = Machine::new(1, 4);
    let again = |size: usize| {
        let cache = machine.cache(size);
        assert_eq!(cache.id(), CacheId::new(1), "the number is free");
        let objects = machine.alloc_all(0, cache, 2 * LIMIT);
        let (mut most, mut flushed) = (0, 0);
        for object in &objects {
            let before = machine.level(0, cache);
            machine.free(0, cache, *object);
            most = machine.level(0, cache).max(most);
            flushed = (before + 1 - machine.level(0, cache)).max(flushed);
        }
        machine.finish();
        // SAFETY: the test has no reference to the cache any more.
        unsafe { machine.caches.remove(CacheId::new(1)) };
        (most, flushed)
    };
    assert_eq!([2048, 8192, 64, 2048].map(again), [(24, 12), (8, 4), (24, 12), (24, 12)]);
}
