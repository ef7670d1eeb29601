//! What is kept makes a stack no larger than it has been with what was in use.

use crate::support::{Backing, Bed, VirtualConfig, on_cpu};
use quarry_mm::frame::{FRAME_BYTES, PAGEBLOCK_BYTES};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{Request, StackHost};
use quarry_sys::percpu::Object;

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
        // SAFETY: just allocated, and used by nobody.
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

/// Freed mappings are kept while nothing else is touched, and no longer.
#[test]
fn freed_mappings_give_way_to_what_grows() {
    let bed = bed();
    let mappings: Vec<_> = (0..5).map(|_| alloc(&bed, 8 * MIB)).collect();
    let peak = footprint(&bed);
    // Not all at once: what goes back in one go has a bound.
    free(&bed, mappings[..2].iter().copied());
    assert!(bed.stack.mappings.cached_bytes() >= 16 * MIB, "nobody else needs memory");
    let mut small = Vec::new();
    for count in 0..16 * MIB / 1024 {
        small.push(alloc(&bed, 1024));
        let now = footprint(&bed);
        // The margin, and what one growth step of a sheaf brings in.
        assert!(now <= peak + 2 * MIB, "{now} bytes after {count} objects, {peak} at the peak");
    }
    let held = bed.stack.stats().memory;
    assert!(held.mappings_cached <= 2 * MIB, "{held:?}");
    assert_eq!(bed.stack.validate(), Ok(()));
    free(&bed, small);
    free(&bed, mappings[2..].iter().copied());
    bed.assert_empty(&[]);
}

/// A small request does not give all of it back: the process is above its peak by 5 MiB when the
/// first one has to.
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

/// The same where a larger mapping needs memory that no kept one has.
#[test]
fn freed_mappings_give_way_to_larger_ones() {
    let bed = bed();
    let mut mappings = Vec::new();
    for size in (3..8).map(|power| MIB << power) {
        let mapping = alloc(&bed, size);
        mappings.push(mapping);
        // In use are this one and the one before.
        let (now, in_use) = (footprint(&bed), size + size / 2);
        assert!(now <= in_use + in_use / 16 + 2 * MIB, "{now} bytes, {in_use} in use");
        if let [.., before, _] = mappings[..] {
            free(&bed, [before]);
        }
    }
    free(&bed, mappings.pop());
    bed.assert_empty(&[]);
}

/// Whoever wants to keep what is freed says so.
#[test]
fn freed_mappings_stay_where_nothing_ever_goes_back() {
    let mut options = StackOptions::default();
    options.set("PURGE_DELAY", "-1").expect("never");
    options.pages.reserve_bytes = 512 << 20;
    on_cpu(0);
    let bed = HeapBed::new(Backing::Linux, 4096, 1, &options);
    let mappings: Vec<_> = (0..2).map(|_| alloc(&bed, 8 * MIB)).collect();
    free(&bed, mappings);
    let small: Vec<_> = (0..32 * MIB / 1024).map(|_| alloc(&bed, 1024)).collect();
    assert_eq!(bed.stack.mappings.cached_bytes(), 16 * MIB);
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

/// What is taken and freed over and over again is kept, whatever else goes on beside it.
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

/// A program that keeps a little more each time that it needs a large buffer gives back as much of
/// the buffer as it keeps more, not all of it: what is missing then is known to be zero.
#[test]
fn a_kept_run_gives_its_end_only() {
    let bed = bed();
    let mut small = Vec::new();
    let buffer = alloc(&bed, 40 * MIB);
    // SAFETY: 40 MiB that are ours.
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

/// A request gives back whole pageblocks. What lies in smaller pieces is left to the thread that
/// gives back what has rested: a program at work takes it again at once.
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

/// Of large blocks that are replaced at random, the cache of mappings serves most: with room for an
/// eighth of what is in use, they made 690 system calls.
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
