//! The memory that a look of the reclaim thread takes back, and the memory that it leaves.

use crate::support::idle::{burst, gives_all_back_when_idle, reclaim, touched};
use crate::support::{Backing, Bed, VirtualConfig, on_cpu, small};
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::pcp::V6_18;
use quarry_mm::slab::{CacheId, CacheParams};
use quarry_mm::slab::{CacheOptions, Sheaf};
use quarry_mm::stack::{ReclaimState, StackHost};
use quarry_sys::percpu::SlotIndex;

type SheafBed = Bed<VirtualConfig<Sheaf>>;

/// Parks objects of a cache on the running CPU.
fn park(bed: &SheafBed, cache: CacheId, count: usize) {
    let objects: Vec<_> =
        (0..count).map(|_| bed.stack.cache(cache).alloc().expect("there is memory")).collect();
    for object in objects {
        // SAFETY: the object was just allocated from this cache, and no other code uses it.
        unsafe { bed.stack.cache(cache).free(object) };
    }
}

fn level(bed: &SheafBed, cache: CacheId, cpu: u32) -> u64 {
    use quarry_sys::percpu::PerCpu;
    bed.stack.percpu().area().slot_level(SlotIndex(cpu), cache.array())
}

/// While one CPU is busy with a cache, idle CPUs still give back its objects.
#[test]
fn idle_cpus_are_drained_of_busy_caches() {
    let bed = SheafBed::new(Backing::Linux, 4096, 3, &small());
    let params = CacheParams { size: 512, align: 16 };
    let cache =
        bed.stack.create_cache("busy", &params, &CacheOptions::default()).expect("there is room");
    let mut state = ReclaimState::new();
    for cpu in 0..3 {
        on_cpu(cpu);
        park(&bed, cache, 40);
    }
    reclaim(&bed.stack, &mut state);
    assert!((0..3).all(|cpu| level(&bed, cache, cpu) > 0), "the first look takes nothing");
    on_cpu(1);
    park(&bed, cache, 40);
    let done = reclaim(&bed.stack, &mut state);
    assert_eq!(done.shrunk, 1);
    assert_eq!((level(&bed, cache, 0), level(&bed, cache, 2)), (0, 0), "idle CPUs are drained");
    assert!(level(&bed, cache, 1) > 0, "the busy one keeps its objects");
    reclaim(&bed.stack, &mut state);
    assert_eq!(level(&bed, cache, 1), 0, "nobody was busy since");
    assert_eq!(bed.stack.validate(), Ok(()));
    bed.assert_empty(&[cache]);
}

/// Due memory goes back in bounded steps; memory that is used again stays.
#[test]
fn purging_goes_in_bounded_steps() {
    let mut options = StackOptions::default();
    options.pages.reserve_bytes = 256 << 20;
    let bed = SheafBed::new(Backing::Linux, 4096, 1, &options);
    on_cpu(0);
    let blocks: Vec<_> =
        (0..96).map(|_| bed.stack.alloc(1 << 20).expect("there is memory")).collect();
    for block in blocks {
        // SAFETY: the object was just allocated, and no other code uses it.
        unsafe { bed.stack.free(block) };
    }
    let dirty = bed.stack.mappings.freeable_bytes(bed.stack.pages().zones());
    assert!(dirty >= 90 << 20, "{dirty} bytes free");
    let mut state = ReclaimState::new();
    bed.stack.look(&mut state, 0, 0);
    assert_eq!(bed.stack.purge(&mut state, false), None, "nothing has been free for a whole look");
    bed.stack.look(&mut state, 0, 0);
    let mut steps = Vec::new();
    while let Some(bytes) = bed.stack.purge(&mut state, false) {
        steps.push(bytes);
    }
    // A step may exceed its bound by one block.
    assert!(steps.iter().all(|bytes| *bytes <= 20 << 20), "{steps:?}");
    // `dirty` lacks the block that was freed last: the CPU's list had it until the second look.
    assert_eq!(steps.iter().sum::<usize>(), dirty + (1 << 20));
    assert_eq!(bed.stack.mappings.freeable_bytes(bed.stack.pages().zones()), 0);
    bed.assert_empty(&[]);
}

/// A mapping is charged for its frames, not for whole pageblocks.
#[test]
fn mappings_are_charged_by_the_frame() {
    let mut options = StackOptions::default();
    options.pages.reserve_bytes = 256 << 20;
    options.pages.limit_frames = (9 << 20) / FRAME_BYTES as u32;
    let bed = SheafBed::new(Backing::Linux, 4096, 1, &options);
    on_cpu(0);
    let used = || bed.stack.pages().zones().budget().used() as usize * FRAME_BYTES;
    let size = (2 << 20) + FRAME_BYTES;
    let mappings: Vec<_> =
        (0..4).map(|_| bed.stack.alloc(size).expect("within the limit")).collect();
    assert_eq!(used(), 4 * size);
    assert_eq!(bed.stack.alloc(size), None, "a fifth is beyond the limit");
    for mapping in mappings {
        // SAFETY: the object was just allocated, and no other code uses it.
        unsafe { bed.stack.free(mapping) };
    }
    // A kept extent serves a larger request, for which only the additional frames are charged.
    let larger = bed.stack.alloc(size + (1 << 20)).expect("within the limit");
    assert_eq!(bed.stack.validate(), Ok(()));
    // SAFETY: `larger` is live, and no other code uses it.
    let smaller = unsafe { bed.stack.realloc(larger, size) }.expect("what shrinks has room");
    assert_eq!(bed.stack.validate(), Ok(()));
    // SAFETY: `smaller` is live, and no other code uses it.
    unsafe { bed.stack.free(smaller) };
    bed.assert_empty(&[]);
}

/// A program that is idle gives all of its memory back.
#[test]
fn an_idle_program_gives_all_back() {
    gives_all_back_when_idle(V6_18, "v6.18");
}

fn bed_of(limit_bytes: usize) -> SheafBed {
    let mut options = StackOptions::default();
    options.pages.reserve_bytes = 512 << 20;
    options.pages.limit_frames = (limit_bytes / FRAME_BYTES) as u32;
    let bed = SheafBed::new(Backing::Linux, 4096, 1, &options);
    on_cpu(0);
    bed
}

/// Memory that one size has left serves the next size before untouched memory does, because barns
/// are shrunk to their bound under pressure.
#[test]
fn barns_are_shrunk_before_memory_is_touched() {
    let bed = bed_of(1 << 30);
    let live = 24 << 20;
    for size in (5..=16).map(|step| step * 1024) {
        burst(&bed, size, live, || {
            // Barns hold 8 MiB, and 2 MiB that they give at a time; wide arrays hold 4 MiB, and
            // narrow arrays of eight classes 256 KiB each. A third is added for slabs that one
            // parked object keeps, and for unused ends.
            let parked = (8 << 20) + (2 << 20) + (4 << 20) + 8 * (256 << 10);
            let touched = touched(&bed);
            assert!(touched <= (live + parked) * 4 / 3, "{touched} bytes for objects of {size}");
        });
        assert_eq!(bed.stack.validate(), Ok(()));
    }
    let held = bed.stack.stats().memory;
    assert!(held.parked >= live / 2, "what nobody else needs is kept: {held:?}");
    assert!(held.empty_slabs <= 2 << 20, "{held:?}");
    bed.assert_empty(&[]);
}

/// A program that goes through all sizes leaves no more parked than a program that uses a few
/// sizes: the bound is for all barns together.
#[test]
fn all_caches_together_keep_a_bounded_amount() {
    let bed = bed_of(1 << 30);
    // All objects are live at once, so that barns are shrunk only when all are freed.
    let sizes: Vec<usize> = (5..=32).map(|step| step * 1024).collect();
    let mut objects = Vec::new();
    for size in sizes {
        objects.extend((0..(4 << 20) / size).map(|_| bed.stack.alloc(size).expect("memory")));
    }
    for object in objects {
        // SAFETY: the object was just allocated, and no other code uses it.
        unsafe { bed.stack.free(object) };
    }
    assert_eq!(bed.stack.validate(), Ok(()));
    let held = bed.stack.stats().memory;
    // The barns, the arrays of 21 classes, and the wide arrays of a slot.
    let most = (32 << 20) + 21 * (256 << 10) + (4 << 20);
    assert!(held.parked <= most, "{held:?}");
    assert!(held.parked >= 24 << 20, "what may be kept is kept: {held:?}");
    bed.assert_empty(&[]);
}

/// Near the limit barns hold little, and no request fails because of the objects in barns.
#[test]
fn barns_make_room_within_a_limit() {
    let limit = 48 << 20;
    let bed = bed_of(limit);
    for size in [32 << 10, 10 << 10, 24 << 10, 100_000] {
        burst(&bed, size, 40 << 20, || {
            let used = bed.stack.pages().zones().budget().used() as usize * FRAME_BYTES;
            assert!(used <= limit, "{used} bytes");
        });
        assert_eq!(bed.stack.validate(), Ok(()));
    }
    bed.assert_empty(&[]);
}

/// A cache that only frees needs none of its parked objects: they go to their slabs, which go back.
#[test]
fn a_cache_that_serves_no_request_parks_nothing() {
    let bed = bed_of(1 << 30);
    let objects: Vec<_> = (0..20_000).map(|_| bed.stack.alloc(64).expect("memory")).collect();
    let mut state = ReclaimState::new();
    reclaim(&bed.stack, &mut state);
    for piece in objects.chunks(4_000) {
        for object in piece {
            // SAFETY: the object is in use, and no other code uses it.
            unsafe { bed.stack.free(*object) };
        }
        reclaim(&bed.stack, &mut state);
        assert_eq!(bed.stack.stats().memory.parked, 0, "after a look");
    }
    assert_eq!(bed.stack.validate(), Ok(()));
    bed.assert_empty(&[]);
}

/// A program asks for one size after the other, and keeps one object in 2,000: later sizes use the
/// memory of earlier ones, although arrays and barns still hold objects on each slab.
#[test]
fn sizes_that_move_on_leave_their_memory_to_later_ones() {
    let bed = bed_of(1 << 30);
    let mut kept = Vec::new();
    for size in (1..=30).map(|step| step * 64) {
        let objects: Vec<_> =
            (0..(6 << 20) / size).map(|_| bed.stack.alloc(size).expect("memory")).collect();
        for (number, object) in objects.into_iter().enumerate() {
            if number % 2_000 == 7 {
                kept.push(object);
            } else {
                // SAFETY: the object is in use, and no other code uses it.
                unsafe { bed.stack.free(object) };
            }
        }
    }
    // Each object that is kept keeps a slab. One size was in use at a time, another before it; how
    // much more there is depends on how long a page took to clear. All sizes together have 180 MiB.
    let most = kept.len() * (16 << 10) + 5 * (6 << 20);
    assert!(touched(&bed) <= most, "{} bytes touched, {most} expected", touched(&bed));
    for object in kept {
        // SAFETY: the object is in use, and no other code uses it.
        unsafe { bed.stack.free(object) };
    }
    assert_eq!(bed.stack.validate(), Ok(()));
    bed.assert_empty(&[]);
}

/// The barn of a cache in use keeps only the objects that were needed since the last look.
#[test]
fn barns_keep_what_was_needed() {
    let bed = bed_of(1 << 30);
    let mut state = ReclaimState::new();
    bed.stack.look(&mut state, 0, 0);
    let parked = || bed.stack.stats().memory.parked;
    for _ in 0..3 {
        burst(&bed, 16 << 10, 16 << 20, || {});
        bed.stack.look(&mut state, 0, 0);
        assert!(parked() >= 14 << 20, "{} bytes parked", parked());
    }
    burst(&bed, 16 << 10, 1 << 20, || {});
    bed.stack.look(&mut state, 0, 0);
    // The array's objects stay parked, and those of the barn that a burst of 1 MiB has moved.
    assert!(parked() <= 3 << 20, "{} bytes parked", parked());
    assert_eq!(bed.stack.validate(), Ok(()));
    bed.assert_empty(&[]);
}
