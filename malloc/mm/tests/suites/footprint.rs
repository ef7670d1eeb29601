//! Memory kept for reuse does not make a stack larger than its recent peak of memory in use.

use crate::support::{Backing, Bed, VirtualConfig, on_cpu};
use quarry_mm::frame::{FRAME_BYTES, PAGEBLOCK_BYTES};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{Request, StackHost};
use quarry_sys::percpu::Object;
use std::collections::{HashMap, HashSet};

type HeapBed = Bed<VirtualConfig<Sheaf>>;

const MIB: usize = 1 << 20;

fn bed() -> HeapBed {
    let mut options = StackOptions::default();
    options.pages.reserve_bytes = 512 << 20;
    on_cpu(0);
    HeapBed::new(Backing::Linux, 4096, 1, &options)
}

fn alloc(bed: &HeapBed, size: usize) -> Object {
    bed.stack.alloc(size).expect("there is memory")
}

fn free(bed: &HeapBed, objects: impl IntoIterator<Item = Object>) {
    for object in objects {
        // SAFETY: the object was just allocated, and no other code uses it.
        unsafe { bed.stack.free(object) };
    }
}

/// Free bytes of zones that may be in memory.
fn dirty(bed: &HeapBed) -> usize {
    bed.stack.pages().zones().all().map(|zone| zone.dirty() as usize * FRAME_BYTES).sum()
}

/// Bytes that may be in memory, as far as zones and mappings know.
fn footprint(bed: &HeapBed) -> usize {
    bed.stack.pages().zones().budget().used() as usize * FRAME_BYTES + dirty(bed)
}

/// Freed mappings are kept only until other memory is touched.
#[test]
fn freed_mappings_give_way_to_what_grows() {
    let bed = bed();
    let mappings: Vec<_> = (0..5).map(|_| alloc(&bed, 8 * MIB)).collect();
    let peak = footprint(&bed);
    // Frees two mappings only, because an allowance limits how much goes back at once.
    free(&bed, mappings[..2].iter().copied());
    assert!(bed.stack.mappings.cached_bytes() >= 16 * MIB, "nobody else needs memory");
    let mut small = Vec::new();
    for count in 0..16 * MIB / 1024 {
        small.push(alloc(&bed, 1024));
        let now = footprint(&bed);
        // The bound is the margin, and the memory that one growth step of a sheaf brings in.
        assert!(now <= peak + 2 * MIB, "{now} bytes after {count} objects, {peak} at the peak");
    }
    let held = bed.stack.stats().memory;
    assert!(held.mappings_cached <= 2 * MIB, "{held:?}");
    assert_eq!(bed.stack.validate(), Ok(()));
    free(&bed, small);
    free(&bed, mappings[2..].iter().copied());
    bed.assert_empty(&[]);
}

/// A small request gives back one step, not all that is above the bound: the process is 5 MiB above
/// its peak when the first request has to give back memory.
#[test]
fn a_small_request_gives_a_step() {
    let bed = bed();
    let mappings: Vec<_> = (0..20).map(|_| alloc(&bed, 8 * MIB)).collect();
    free(&bed, mappings[..6].iter().copied());
    let (mut small, mut most) = (Vec::new(), 0);
    for _ in 0..24 * MIB / 1024 {
        let before = footprint(&bed);
        small.push(alloc(&bed, 1024));
        most = most.max(before.saturating_sub(footprint(&bed)));
    }
    assert!((MIB..=2 * MIB).contains(&most), "a request gave {most} bytes");
    free(&bed, small);
    free(&bed, mappings[6..].iter().copied());
    bed.assert_empty(&[]);
}

/// Freed mappings also go back when a larger mapping needs memory that no kept mapping has.
#[test]
fn freed_mappings_give_way_to_larger_ones() {
    let bed = bed();
    let mut mappings = Vec::new();
    for size in (3..8).map(|power| MIB << power) {
        let mapping = alloc(&bed, size);
        mappings.push(mapping);
        // This mapping and the previous one are in use.
        let (now, in_use) = (footprint(&bed), size + size / 2);
        assert!(now <= in_use + in_use / 16 + 2 * MIB, "{now} bytes, {in_use} in use");
        if let [.., before, _] = mappings[..] {
            free(&bed, [before]);
        }
    }
    free(&bed, mappings.pop());
    bed.assert_empty(&[]);
}

/// With `PURGE_DELAY=-1` freed memory is never given back.
#[test]
fn freed_mappings_serve_small_requests_where_nothing_ever_goes_back() {
    let mut options = StackOptions::default();
    options.set("PURGE_DELAY", "-1").expect("never");
    options.pages.reserve_bytes = 512 << 20;
    on_cpu(0);
    let bed = HeapBed::new(Backing::Linux, 4096, 1, &options);
    let mappings: Vec<_> = (0..2).map(|_| alloc(&bed, 8 * MIB)).collect();
    free(&bed, mappings);
    let small: Vec<_> = (0..32 * MIB / 1024).map(|_| alloc(&bed, 1024)).collect();
    assert_eq!(bed.stack.mappings.cached_bytes(), 0, "the small ones have it");
    free(&bed, small);
    bed.assert_empty(&[]);
}

/// Free memory of zones gives way to mappings.
#[test]
fn free_blocks_give_way_to_mappings() {
    let bed = bed();
    let blocks: Vec<_> = (0..64).map(|_| alloc(&bed, MIB / 2)).collect();
    let peak = footprint(&bed);
    free(&bed, blocks[..30].iter().copied());
    let mapping = alloc(&bed, 15 * MIB);
    let now = footprint(&bed);
    assert!(now <= peak + peak / 16 + MIB, "{now} bytes, {peak} at the peak");
    free(&bed, [mapping]);
    free(&bed, blocks[30..].iter().copied());
    bed.assert_empty(&[]);
}

/// Memory that is allocated and freed again and again is kept, also if other requests come between.
#[test]
fn pairs_of_large_requests_make_no_system_call() {
    let bed = bed();
    let round = || {
        let mapping = alloc(&bed, 10 * MIB);
        let objects: Vec<_> = (0..200).map(|number| alloc(&bed, number * 40)).collect();
        free(&bed, objects);
        free(&bed, [mapping]);
    };
    (0..20).for_each(|_| round());
    let before = bed.os.calls();
    (0..50).for_each(|_| round());
    assert_eq!(bed.os.calls(), before);
    bed.assert_empty(&[]);
}

/// A program needs a large buffer again and again, and keeps a little more memory each time. Only
/// an equal part of the freed buffer goes back for it; this part then reads as zero.
#[test]
fn a_kept_run_gives_its_end_only() {
    let bed = bed();
    let mut small = Vec::new();
    let buffer = alloc(&bed, 40 * MIB);
    // SAFETY: the test owns these 40 MiB.
    unsafe { buffer.as_ptr().write_bytes(0xa5, 40 * MIB) };
    free(&bed, [buffer]);
    while bed.stack.mappings.cached_bytes() > 0
        && bed.stack.stats().memory.mappings_cached == 40 * MIB
    {
        small.push(alloc(&bed, 32 << 10));
    }
    let held = bed.stack.stats().memory;
    assert!(held.mappings_cached >= 30 * MIB, "{held:?}");
    assert_eq!(bed.stack.mappings.cached_bytes(), 40 * MIB, "the addresses stay");
    let again = bed.stack.alloc(Request::of(40 * MIB).zeroed()).expect("there is memory");
    assert_eq!(again, buffer);
    for page in (0..40 * MIB).step_by(FRAME_BYTES) {
        // SAFETY: within the 40 MiB.
        assert_eq!(unsafe { again.as_ptr().add(page).read() }, 0, "at {page}");
    }
    assert_eq!(bed.stack.validate(), Ok(()));
    free(&bed, small);
    free(&bed, [again]);
    bed.assert_empty(&[]);
    assert!(footprint(&bed) < PAGEBLOCK_BYTES);
}

/// A request gives back whole pageblocks only. Smaller pieces are left to the reclaim thread,
/// because a program at work soon needs them again.
#[test]
fn small_pieces_of_zones_stay() {
    let bed = bed();
    let blocks: Vec<_> = (0..512).map(|_| alloc(&bed, 64 << 10)).collect();
    let is_kept = |(at, _): &(usize, &Object)| at % 8 == 0;
    let (kept, freed): (Vec<_>, Vec<_>) = blocks.iter().enumerate().partition(is_kept);
    free(&bed, freed.into_iter().map(|(_, object)| *object));
    let before = dirty(&bed);
    assert!(before > 20 * MIB, "{before} bytes in pieces");
    let mapping = alloc(&bed, 20 * MIB);
    assert_eq!(dirty(&bed), before);
    free(&bed, [mapping]);
    free(&bed, kept.into_iter().map(|(_, object)| *object));
    bed.assert_empty(&[]);
}

/// Fills 8 MiB with objects of 256 bytes, and frees all but one in 64. Then fills 16 MiB with
/// larger objects, and calls `between` after each. Returns how many pages without a survivor may go
/// back, and how many of them still have their contents.
fn pages_left_behind(between: impl Fn(&HeapBed)) -> (usize, usize) {
    let bed = bed();
    let write = |object: Object, size: usize, byte: u8| {
        // SAFETY: the object was just allocated with at least `size` bytes.
        unsafe { object.as_ptr().write_bytes(byte, size) };
        object
    };
    let first = (0..8 * MIB / 256).map(|_| write(alloc(&bed, 256), 256, 0xa5));
    let (survivors, freed): (Vec<_>, Vec<_>) =
        first.enumerate().partition(|(number, _)| number % 64 == 0);
    let page = |object: &Object| object.as_ptr() as usize / FRAME_BYTES;
    let kept: HashSet<_> = survivors.iter().map(|(_, object)| page(object)).collect();
    free(&bed, freed.iter().map(|(_, object)| *object));
    let mut larger = Vec::new();
    for _ in 0..16 * MIB / 1000 {
        larger.push(write(alloc(&bed, 1000), 1000, 0x5a));
        between(&bed);
    }
    // SAFETY: each pageblock has a survivor, so all of them are mapped.
    let byte = |object: Object| unsafe { object.as_ptr().read() };
    assert!(survivors.iter().all(|(_, object)| byte(*object) == 0xa5), "contents stay");
    let mut pages: HashMap<_, bool> = HashMap::new();
    for (_, object) in freed.iter().filter(|(_, object)| !kept.contains(&page(object))) {
        *pages.entry(page(object)).or_default() |= byte(*object) == 0xa5;
    }
    assert_eq!(bed.stack.validate(), Ok(()));
    free(&bed, survivors.into_iter().map(|(_, object)| object));
    free(&bed, larger);
    bed.assert_empty(&[]);
    (pages.len(), pages.values().filter(|has| **has).count())
}

/// Sizes move on: pages of earlier sizes go back before the process grows, without a look.
#[test]
fn pages_without_an_object_in_use_give_way_to_what_grows() {
    let (all, left) = pages_left_behind(|_| ());
    assert!(all > 5 * MIB / FRAME_BYTES, "{all} pages without survivors");
    assert!(left < all / 8, "{left} of {all} pages stay");
}

/// The program still asks for the earlier size, so its pages would soon fault in again.
#[test]
fn pages_of_sizes_in_use_stay_while_the_process_grows() {
    let (all, left) = pages_left_behind(|bed| {
        let pair: Vec<_> = (0..8).map(|_| alloc(bed, 256)).collect();
        free(bed, pair);
    });
    assert!(left > all * 3 / 4, "{left} of {all} pages stay");
}

/// The mapping cache serves most large blocks that are replaced at random. When it could hold an
/// eighth of the memory in use, this test made 690 system calls.
#[test]
fn large_blocks_that_come_and_go_find_the_memory_of_others() {
    let mut options = StackOptions::default();
    options.pages.reserve_bytes = 2 << 30;
    on_cpu(0);
    let bed = HeapBed::new(Backing::Linux, 4096, 1, &options);
    let mut random = 1u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    let size = |draw: &mut dyn FnMut(u64) -> u64| (5 + draw(21) as usize) * MIB;
    let mut blocks: Vec<_> = (0..20).map(|_| alloc(&bed, size(&mut draw))).collect();
    let before = bed.os.calls();
    for _ in 0..1000 {
        let at = draw(20) as usize;
        let new = alloc(&bed, size(&mut draw));
        free(&bed, [std::mem::replace(&mut blocks[at], new)]);
    }
    let calls = bed.os.calls() - before;
    assert!(calls < 300, "{calls} system calls");
    free(&bed, blocks);
    bed.assert_empty(&[]);
}
