//! The heap: requests in bytes on virtual CPUs, checked by the oracle, with several page sizes.

use crate::support::{
    Backing, Bed, Oracle, VirtualConfig, check, fix_checks, is_huge, on_cpu, pattern, small,
};
use proptest::prelude::*;
use quarry_mm::frame::{FRAME_BYTES, PAGEBLOCK_BYTES};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::heap::{CheckFlags, CheckOptions};
use quarry_mm::heap::{LARGEST_BLOCK, classes};
use quarry_mm::slab::{CacheOptions, Sheaf};
use quarry_mm::stack::{LargeStats, NotFreed, Request, StackHost};
use quarry_sys::percpu::Object;

type HeapBed = Bed<VirtualConfig<Sheaf>>;

/// Maximum number of bytes that a random sequence holds at once, in 256 MiB of address space.
const MOST_BYTES: usize = 64 << 20;
/// Largest request of a random sequence.
const LARGEST: usize = 16 << 20;

fn options() -> StackOptions {
    let mut options = StackOptions { heap: true, ..small() };
    options.pages.reserve_bytes = 256 << 20;
    options
}

#[derive(Clone, Debug)]
enum Op {
    Malloc(usize),
    Calloc(usize),
    Aligned {
        size: usize,
        align: usize,
    },
    CallocAligned {
        size: usize,
        align: usize,
    },
    Realloc {
        number: usize,
        size: usize,
    },
    /// `realloc` to `by` 256ths of the old size.
    Resize {
        number: usize,
        by: usize,
    },
    Free(usize),
    FreeMany {
        number: usize,
        count: usize,
    },
    Trim,
}

/// Sizes up to 16 MiB: half below 256 bytes, 1/8 next to limits, others evenly over doublings.
fn size() -> impl Strategy<Value = usize> {
    let large = (8u32..=24, any::<u32>()).prop_map(|(bits, random)| {
        ((1usize << bits) + (random as usize & ((1 << bits) - 1))).min(LARGEST)
    });
    let edges = [
        classes::LARGEST,
        LARGEST_BLOCK / 2,
        LARGEST_BLOCK,
        PAGEBLOCK_BYTES,
        2 * PAGEBLOCK_BYTES,
        FRAME_BYTES,
    ];
    let edge = (prop::sample::select(edges.to_vec()), 0usize..3)
        .prop_map(|(edge, beside)| edge + beside - 1);
    prop_oneof![8 => 0usize..256, 6 => large, 2 => edge]
}

fn align() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0u32..=12, 3 => 13u32..=20, 1 => 21u32..=24].prop_map(|bits| 1 << bits)
}

fn step() -> impl Strategy<Value = (u32, Op)> {
    let number = any::<u16>().prop_map(usize::from);
    let op = prop_oneof![
        8 => size().prop_map(Op::Malloc),
        4 => size().prop_map(Op::Calloc),
        3 => (size(), align()).prop_map(|(size, align)| Op::Aligned { size, align }),
        1 => (size(), align()).prop_map(|(size, align)| Op::CallocAligned { size, align }),
        4 => (number.clone(), size()).prop_map(|(number, size)| Op::Realloc { number, size }),
        4 => (number.clone(), 0usize..512).prop_map(|(number, by)| Op::Resize { number, by }),
        6 => number.clone().prop_map(Op::Free),
        2 => (number, 1usize..30).prop_map(|(number, count)| Op::FreeMany { number, count }),
        1 => Just(Op::Trim),
    ];
    (0u32..64, op)
}

/// Bytes that a request of `size` takes.
fn rounded(size: usize) -> usize {
    match size {
        ..=classes::LARGEST => classes::SIZES[classes::of(size).index()] as usize,
        _ => size.next_multiple_of(FRAME_BYTES),
    }
}

/// Bytes that a request of `size` takes if its class is hardly used.
fn rounded_coarsely(size: usize) -> usize {
    match size {
        ..=classes::LARGEST => classes::SIZES[classes::coarse(classes::of(size)).index()] as usize,
        _ => rounded(size),
    }
}

/// Maximum number of bytes that an allocation of `old` bytes has after a `realloc` to `size`.
fn most_after_realloc(old: usize, size: usize) -> usize {
    let grows_by_little = size > old && size <= old + old / 8 && size <= LARGEST_BLOCK;
    match size {
        // An allocation that grows a little will probably grow again.
        _ if grows_by_little => {
            rounded_coarsely(old + old / if old < 2 * FRAME_BYTES { 4 } else { 2 })
        }
        _ if size > old => rounded_coarsely(size),
        // An object may waste half of its bytes, a block a third, each rounded.
        ..=classes::LARGEST => rounded_coarsely(size).max(2 * size + 1),
        _ => rounded_coarsely(size) / 2 * 3 + FRAME_BYTES,
    }
}

/// A bed and the oracle of its allocations.
struct Play {
    bed: HeapBed,
    oracle: Oracle,
}

impl Play {
    fn new(backing: Backing, page_size: usize, slots: u32) -> Self {
        let bed = HeapBed::new(backing, page_size, slots, &options());
        Self { bed, oracle: Oracle::default() }
    }

    fn adopt(&mut self, object: Object, size: usize, align: usize) {
        let stack = &self.bed.stack;
        let usable = stack.usable_size(object).unwrap();
        assert!(stack.pages().arena().pfn(object.as_ptr()).is_some(), "memory of our own");
        if align <= 16 && size > 128 {
            let waste = usable - size;
            // An object wastes up to 35 % if its class is hardly used.
            let most = if size <= classes::LARGEST { usable * 35 / 100 } else { FRAME_BYTES - 1 };
            assert!(waste <= most, "a request of {size} wastes {waste} of {usable}");
        }
        self.oracle.insert(object, size, usable, align.max(16), 0);
    }

    fn alloc(&mut self, size: usize, align: usize, zeroed: bool) {
        if self.oracle.bytes() + size > MOST_BYTES {
            return;
        }
        let stack = &self.bed.stack;
        let object = match (align, zeroed) {
            (1, false) => stack.alloc(size),
            (1, true) => stack.alloc(Request::of(size).zeroed()),
            (_, false) => stack.alloc(Request::of(size).aligned(align)),
            (_, true) => stack.alloc(Request::of(size).aligned(align).zeroed()),
        };
        let object = object.unwrap_or_else(|| panic!("no memory for {size} at {align}"));
        assert!(!zeroed || pattern::is_zero(object, size), "calloc of {size} is not zero");
        self.adopt(object, size, align);
    }

    /// Requests some objects of each class, so that no class counts as hardly used any more.
    fn use_all_classes(&mut self) {
        for size in &classes::SIZES[1..] {
            let stack = &self.bed.stack;
            let objects = [(); 16].map(|()| stack.alloc(*size as usize).expect("memory"));
            for object in objects {
                // SAFETY: the object was just allocated, and no other code uses it.
                unsafe { stack.free(object) };
            }
        }
    }

    fn realloc(&mut self, number: usize, size: usize) {
        let Some(live) = self.oracle.pick(number) else { return };
        if size > LARGEST || self.oracle.bytes() + size > MOST_BYTES {
            return;
        }
        // SAFETY: the object is live, and only the oracle knows it.
        let moved = unsafe { self.bed.stack.realloc(live.object, size) };
        let moved = moved.unwrap_or_else(|| panic!("no memory to make {live:?} {size} bytes"));
        let kept = live.bytes.min(size);
        assert!(pattern::holds(moved, kept, live.tag), "realloc of {live:?} to {size} lost bytes");
        self.oracle.forget(&live);
        let usable = self.bed.stack.usable_size(moved).unwrap();
        let most = most_after_realloc(live.bytes, size);
        assert!(usable <= most, "{live:?} became {usable} bytes for {size}, at most {most}");
        self.oracle.insert(moved, size, usable, 16, 0);
    }

    fn free(&mut self, number: usize) {
        if let Some(live) = self.oracle.remove(number) {
            // SAFETY: the object was live, and only the oracle knew it.
            unsafe { self.bed.stack.free(live.object) };
        }
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Malloc(size) => self.alloc(size, 1, false),
            Op::Calloc(size) => self.alloc(size, 1, true),
            Op::Aligned { size, align } => self.alloc(size, align, false),
            Op::CallocAligned { size, align } => self.alloc(size, align, true),
            Op::Realloc { number, size } => self.realloc(number, size),
            Op::Resize { number, by } => {
                let size = self.oracle.pick(number).map_or(0, |live| live.size);
                self.realloc(number, size * by / 256);
            }
            Op::Free(number) => self.free(number),
            Op::FreeMany { number, count } => (0..count).for_each(|more| self.free(number + more)),
            Op::Trim => {
                let _ = self.bed.stack.trim();
            }
        }
    }

    fn validate(&self) {
        assert_eq!(self.bed.stack.validate(), Ok(()));
        let usage = self.bed.stack.stats().heap;
        assert!(usage.used_bytes + usage.mapped_bytes >= self.oracle.bytes(), "{usage:?}");
    }

    fn finish(mut self) {
        self.oracle.check_all();
        self.validate();
        while self.oracle.len() > 0 {
            on_cpu(self.oracle.len() as u32);
            self.free(0);
        }
        self.validate();
        self.bed.assert_empty(&[]);
        assert_eq!(self.bed.stack.stats().heap.used_bytes, 0);
    }
}

fn random_requests(backing: Backing, page_size: usize, slots: u32) {
    let cases = if backing == Backing::Fake { 10 } else { 20 };
    check(cases, prop::collection::vec(step(), 1..150), |steps| {
        let mut play = Play::new(backing, page_size, slots);
        for (number, (cpu, op)) in steps.iter().enumerate() {
            on_cpu(*cpu);
            play.run(op);
            if number % 32 == 0 {
                play.validate();
            }
        }
        play.finish();
    });
}

#[test]
fn random_requests_on_pages_of_4_kib() {
    random_requests(Backing::Fake, 4 << 10, 2);
    random_requests(Backing::Linux, 4 << 10, 64);
}

#[test]
fn random_requests_on_pages_of_16_kib() {
    random_requests(Backing::Fake, 16 << 10, 1);
    random_requests(Backing::Linux, 16 << 10, 2);
}

#[test]
fn random_requests_on_pages_of_64_kib() {
    random_requests(Backing::Fake, 64 << 10, 64);
    random_requests(Backing::Linux, 64 << 10, 1);
}

/// The checks (records, red zones, quarantine, hidden blocks, random order) change nothing for a
/// program without errors.
#[test]
fn random_requests_under_checks() {
    let letters = |letters: &str| {
        let flags = letters.bytes().map(|letter| CheckFlags::of_letter(letter).expect("known"));
        let debug = flags.fold(CheckFlags::NONE, CheckFlags::with);
        CheckOptions { debug, ..CheckOptions::OFF }
    };
    let small_only = CheckOptions { debugged: 0xffff_fffe, ..letters("FZP") };
    let harden = CheckOptions { harden: true, ..CheckOptions::OFF };
    let both = CheckOptions { harden: true, ..letters("ZU") };
    for checks in [letters("F"), letters("FZPU"), letters("P"), small_only, harden, both] {
        fix_checks(checks);
        random_requests(Backing::Linux, 4 << 10, 3);
        random_requests(Backing::Fake, 16 << 10, 2);
        random_requests(Backing::Linux, 64 << 10, 2);
    }
    fix_checks(CheckOptions::OFF);
}

#[test]
fn usable_bytes_are_those_that_were_asked_for_under_checks() {
    fix_checks(CheckOptions { harden: true, ..CheckOptions::OFF });
    let mut play = Play::new(Backing::Linux, 4096, 1);
    fix_checks(CheckOptions::OFF);
    for size in [0, 1, 17, 1000, 32 << 10, 40_000, 3 << 20] {
        play.alloc(size, 1, false);
        assert_eq!(play.oracle.pick(play.oracle.len() - 1).map(|live| live.bytes), Some(size));
    }
    play.bed.stack.watch.1.look_at_all(&play.bed.stack);
    play.finish();
}

/// Objects in quarantine are given up for requests that find no other memory.
#[test]
fn quarantine_gives_way_where_memory_is_short() {
    let mut options = StackOptions { heap: true, ..small() };
    options.checks = CheckOptions { debug: CheckFlags::SANITY, ..CheckOptions::OFF };
    options.pages.limit_frames = 2048;
    let bed = HeapBed::new(Backing::Linux, 4096, 1, &options);
    for _ in 0..20 {
        let objects: Vec<Object> =
            (0..150).map(|_| bed.stack.alloc(30_000usize).expect("what was freed")).collect();
        for object in objects {
            // SAFETY: the object was just allocated, and no other code uses it.
            unsafe { bed.stack.free(object) };
        }
    }
    assert_eq!(bed.stack.validate(), Ok(()));
}

/// A mapping stays for a request of as many frames, a block of pages also if it wastes a third.
#[test]
fn blocks_and_mappings_stay_where_they_are() {
    let bed = HeapBed::new(Backing::Fake, 4096, 1, &options());
    let stays_for = |address: *mut u8, size| {
        Object::new(address).is_some_and(|object| bed.stack.large_stays(object, size))
    };
    let block = bed.stack.alloc(40 * FRAME_BYTES).expect("there is memory");
    for frames in [1, 8, 9, 26, 27, 28, 39, 40, 41, 100, 300] {
        for size in [(frames - 1) * FRAME_BYTES + 1, frames * FRAME_BYTES] {
            let stays = (27..=40).contains(&frames) && size > classes::LARGEST;
            assert_eq!(stays_for(block.as_ptr(), size), stays, "{size} bytes");
        }
    }
    assert!(stays_for(block.as_ptr(), 40 * FRAME_BYTES), "as it is");
    assert!(!stays_for(block.as_ptr(), 0), "that frees it");
    assert!(!stays_for(block.as_ptr().wrapping_add(16), 40 * FRAME_BYTES), "inside");
    let behind = block.as_ptr().wrapping_add(FRAME_BYTES);
    assert!(!stays_for(behind, 40 * FRAME_BYTES), "a later frame");
    // SAFETY: the object was just allocated, and no other code uses it.
    unsafe { bed.stack.free(block) };
    assert!(!stays_for(block.as_ptr(), 40 * FRAME_BYTES), "freed");
    let mapping = bed.stack.alloc(4 << 20).expect("there is memory");
    assert!(stays_for(mapping.as_ptr(), 4 << 20), "as it is");
    assert!(!stays_for(mapping.as_ptr(), (4 << 20) + 1), "one frame more");
    assert!(!stays_for(mapping.as_ptr(), (4 << 20) - FRAME_BYTES), "one frame less");
    assert!(!stays_for(mapping.as_ptr().wrapping_add(2 << 20), 2 << 20), "inside");
    // SAFETY: the object was just allocated, and no other code uses it.
    unsafe { bed.stack.free(mapping) };
    assert_eq!(bed.stack.validate(), Ok(()));
}

/// Objects are handed out in the order of their addresses, also by an array that bursts have
/// enlarged, so that each refill takes several pieces.
#[test]
fn neighbours_are_handed_out_one_after_the_other() {
    let bed = HeapBed::new(Backing::Fake, 4096, 1, &options());
    let burst = |count| -> Vec<Object> {
        (0..count).map(|_| bed.stack.alloc(64usize).expect("there is memory")).collect()
    };
    let free = |objects: Vec<Object>| {
        for object in objects.into_iter().rev() {
            // SAFETY: the object was just allocated, and no other code uses it.
            unsafe { bed.stack.free(object) };
        }
    };
    for count in [500, 1000, 2000, 3000] {
        free(burst(count));
    }
    let objects = burst(8000);
    let address = |object: Object| object.as_ptr() as usize;
    let breaks = objects.windows(2).filter(|two| address(two[1]) != address(two[0]) + 64).count();
    let slabs = objects.len().div_ceil(255);
    assert!(breaks <= 2 * slabs, "{breaks} breaks in {slabs} slabs");
    free(objects);
}

#[test]
fn a_stack_that_is_not_ready_refuses_everything() {
    let bed = HeapBed::cold(Backing::Fake, 4096, 2);
    for size in [0, 1, 100, classes::LARGEST, classes::LARGEST + 1, 1 << 20, 10 << 20, usize::MAX] {
        assert_eq!(bed.stack.alloc(size), None, "{size} bytes");
        assert_eq!(bed.stack.alloc(Request::of(size).zeroed()), None, "{size} bytes");
        assert_eq!(bed.stack.alloc(Request::of(size).aligned(64)), None, "{size} bytes");
        assert_eq!(bed.stack.alloc(Request::of(size).aligned(8 << 20)), None, "{size} bytes");
    }
    assert_eq!(bed.stack.fast.stride(std::ptr::null_mut()), None);
    // SAFETY: a null pointer is no allocation.
    let refused = unsafe { bed.stack.fast.free(std::ptr::null_mut()) };
    assert_eq!(refused, Err(NotFreed::Outside));
}

#[test]
fn a_stack_without_a_heap_does_not_serve_from_other_caches() {
    let bed = HeapBed::new(Backing::Fake, 4096, 2, &small());
    for _ in 0..classes::COUNT / 2 {
        let params = quarry_mm::slab::CacheParams { size: 16, align: 16 };
        bed.stack.create_cache("small", &params, &CacheOptions::default()).expect("a cache");
    }
    for size in [0, 16, 128, 500, 4096] {
        assert_eq!(bed.stack.alloc(size), None, "{size} bytes");
        assert_eq!(bed.stack.alloc(Request::of(size).zeroed()), None, "{size} bytes");
        assert_eq!(bed.stack.alloc(Request::of(size).aligned(64)), None, "{size} bytes");
    }
    let block = bed.stack.alloc(classes::LARGEST + 1).expect("blocks need no classes");
    // SAFETY: the object was just allocated.
    unsafe { bed.stack.free(block) };
    assert_eq!(bed.stack.validate(), Ok(()));
}

#[test]
fn every_alignment_is_kept() {
    let mut play = Play::new(Backing::Linux, 4096, 2);
    for shift in 0..=24 {
        for size in [0, 1, 4096, 40_000, LARGEST_BLOCK + 1, 3 << 20] {
            play.alloc(size, 1 << shift, shift % 2 == 0);
        }
        while play.oracle.len() > if shift < 22 { 8 } else { 0 } {
            play.free(shift);
        }
        play.validate();
    }
    // 256 MiB hold at least three such mappings, at any address of the window.
    play.alloc(1, 64 << 20, true);
    play.finish();
}

#[test]
fn requests_that_nothing_can_serve_are_refused() {
    let bed = HeapBed::new(Backing::Linux, 4096, 2, &options());
    let half = isize::MAX as usize;
    for (size, align) in [
        (half, 16),
        (half + 1, 16),
        (usize::MAX, 16),
        (usize::MAX - 4095, 4096),
        (257 << 20, 16),
        (1 << 44, 16),
        (16, 1 << 40),
        (16, 1 << 53),
        (16, 1 << 62),
        (0, 1 << 63),
        (half, 1 << 62),
    ] {
        assert_eq!(
            bed.stack.alloc(Request::of(size).aligned(align)),
            None,
            "{size} bytes at {align}"
        );
        assert_eq!(
            bed.stack.alloc(Request::of(size).aligned(align).zeroed()),
            None,
            "{size} bytes at {align}"
        );
    }
    let object = bed.stack.alloc(100).expect("a small request");
    for size in [half, half + 1, usize::MAX, 300 << 20] {
        // SAFETY: the object is live; a refused realloc does not free it.
        assert_eq!(unsafe { bed.stack.realloc(object, size) }, None, "{size} bytes");
    }
    // SAFETY: the object is still live.
    unsafe { bed.stack.free(object) };
    bed.assert_empty(&[]);
}

/// Grows a block of `size` bytes by `step` up to `end`; returns how often it moved.
fn moves_of_a_growing_block(play: &mut Play, mut size: usize, step: usize, end: usize) -> u32 {
    play.alloc(size, 1, false);
    let mut moves = 0;
    while size + step <= end {
        size += step;
        let before = play.oracle.pick(0).expect("it is live").object;
        play.realloc(0, size);
        moves += u32::from(play.oracle.pick(0).expect("it is live").object != before);
    }
    play.free(0);
    moves
}

#[test]
fn what_grows_by_little_moves_seldom() {
    let mut play = Play::new(Backing::Fake, 4096, 1);
    play.use_all_classes();
    // At most one move per class up to 128 bytes, then one for each growth by a quarter or a half.
    let most = |from: usize, to: usize, by: f64| (to as f64 / from as f64).log(by).ceil() as u32;
    let (long, largest) = (2 * FRAME_BYTES, classes::LARGEST);
    let moves = moves_of_a_growing_block(&mut play, 16, 16, largest);
    let bound = 8 + most(128, long, 1.25) + most(long, largest, 1.5);
    assert!(moves <= bound, "{moves} moves to 32 KiB");
    let moves = moves_of_a_growing_block(&mut play, largest, 512, LARGEST_BLOCK);
    assert!(moves <= most(largest, LARGEST_BLOCK, 1.5), "{moves} moves to 1 MiB");
    play.finish();
}

#[test]
fn no_move_within_the_smallest_class() {
    let mut play = Play::new(Backing::Fake, 4096, 1);
    play.alloc(16, 1, false);
    let object = play.oracle.pick(0).expect("it is live").object;
    for size in (1..=16).rev().chain(1..=16) {
        play.realloc(0, size);
        assert_eq!(play.oracle.pick(0).expect("it is live").object, object, "{size} bytes");
    }
    play.finish();
}

#[test]
fn what_grows_by_much_gets_what_it_asks_for() {
    let mut play = Play::new(Backing::Fake, 4096, 1);
    play.use_all_classes();
    let mut size = 128;
    play.alloc(size, 1, false);
    while size < LARGEST_BLOCK / 2 {
        size = play.oracle.pick(0).expect("it is live").bytes * 8 / 7;
        play.realloc(0, size);
        assert_eq!(play.oracle.pick(0).expect("it is live").bytes, rounded(size));
    }
    play.finish();
}

#[test]
fn what_grows_again_finds_the_memory_of_its_predecessor() {
    let end = 24 << 20;
    let mut play = Play::new(Backing::Linux, 4096, 1);
    for round in 0..3 {
        play.alloc(LARGEST_BLOCK + 1, 1, false);
        let mut size = LARGEST_BLOCK + 1;
        while size < end {
            size = (size * 11 / 10).next_multiple_of(FRAME_BYTES);
            let live = play.oracle.pick(0).expect("it is live");
            // SAFETY: the object is live, and only the oracle knows it.
            let moved = unsafe { play.bed.stack.realloc(live.object, size) }.expect("memory");
            assert!(moved == live.object, "there is room behind it, in round {round}");
            play.oracle.forget(&live);
            let usable = play.bed.stack.usable_size(moved).unwrap();
            play.oracle.insert(moved, size, usable, 16, 0);
            let held = play.bed.stack.stats().memory;
            let both = held.mappings + held.mappings_cached;
            assert!(both <= end * 11 / 10 + PAGEBLOCK_BYTES, "{both} bytes in round {round}");
        }
        play.free(0);
        play.validate();
    }
    play.finish();
}

#[test]
fn mappings_that_grow_side_by_side_keep_their_contents() {
    for backing in [Backing::Linux, Backing::Fake] {
        let mut play = Play::new(backing, 4096, 1);
        (0..3).for_each(|_| play.alloc(LARGEST_BLOCK + 1, 1, true));
        for size in (2..=14).map(|blocks| blocks * PAGEBLOCK_BYTES - 5 * FRAME_BYTES) {
            // `realloc` puts the allocation last in the oracle, so number 0 is the next one.
            (0..3).for_each(|_| play.realloc(0, size));
            play.validate();
        }
        play.free(1);
        play.alloc(9 << 20, 1, true);
        play.realloc(0, 16 << 20);
        play.finish();
    }
}

/// The memory of a kept mapping that is too short serves a larger request, in place or moved, and
/// `calloc` clears the part that is not zero.
#[test]
fn a_mapping_takes_the_memory_of_a_kept_one_that_is_too_short() {
    for (backing, has_neighbour) in
        [Backing::Linux, Backing::Fake].into_iter().flat_map(|it| [(it, false), (it, true)])
    {
        let mut options = options();
        options.pages.faults.huge = false;
        let bed = HeapBed::new(backing, 4096, 2, &options);
        let mut play = Play { bed, oracle: Oracle::default() };
        play.alloc(9 << 20, 1, false);
        if has_neighbour {
            play.alloc(3 << 20, 1, false);
        }
        play.free(0);
        let used = |play: &Play| play.bed.stack.pages().zones().budget().used() as usize;
        let before = used(&play);
        play.alloc(13 << 20, 1, true);
        let held = play.bed.stack.stats().memory;
        assert_eq!(held.mappings_cached, 0, "{backing:?}, {has_neighbour}");
        assert_eq!(used(&play) - before, (4 << 20) / FRAME_BYTES, "what was charged serves");
        play.validate();
        play.free(0);
        play.finish();
    }
}

/// A table has fresh memory, unless the program filled the last one of its length.
#[test]
fn a_table_takes_the_memory_of_one_that_was_filled() {
    const MIB: usize = 1 << 20;
    let bed = &Play::new(Backing::Linux, 4096, 1).bed;
    let is_in_memory = |bytes: usize, is_filled: bool| {
        let object = bed.stack.alloc(Request::of(bytes).zeroed()).expect("memory");
        let end = object.as_ptr().wrapping_add(bytes - 4096);
        let mut resident = 0;
        // SAFETY: asks about one page, the table's last.
        assert_eq!(unsafe { libc::mincore(end.cast(), 4096, &raw mut resident) }, 0);
        assert!(pattern::is_zero(object, bytes), "a table of {bytes} bytes");
        let table = Written { bed, object };
        let table = if is_filled { table.fill(bytes) } else { table };
        // SAFETY: the object is live, and no other code knows it.
        unsafe { bed.stack.free(table.object) };
        resident & 1 != 0
    };
    let size = 40 * MIB;
    assert!(!is_in_memory(size, true), "none was filled before");
    assert!(is_in_memory(size, true) && is_in_memory(size, true));
    assert!(!is_in_memory(37 * MIB, true), "another length");
    is_in_memory(size, true);
    assert!(is_in_memory(size, false) && !is_in_memory(size, false), "one was sparse");
}

/// A mapping of which the test may write one byte in each 64.
struct Written<'a> {
    bed: &'a HeapBed,
    object: Object,
}

impl<'a> Written<'a> {
    fn new(bed: &'a HeapBed, bytes: usize) -> Self {
        Self { bed, object: bed.stack.alloc(bytes).expect("memory") }
    }

    fn fill(self, bytes: usize) -> Self {
        for at in (0..bytes).step_by(64) {
            // SAFETY: the offset is below `bytes`, and the object has at least that many.
            unsafe { self.object.as_ptr().add(at).write(1) };
        }
        self
    }

    fn grow(self, bytes: usize) -> Self {
        // SAFETY: the object is live, and no other code knows it.
        let object = unsafe { self.bed.stack.realloc(self.object, bytes) };
        Self { bed: self.bed, object: object.expect("memory") }
    }

    fn is_huge(&self) -> bool {
        is_huge(self.bed.stack.pages().zones(), self.object.as_ptr())
    }

    /// Frees the mapping and all cached ones. Returns whether it was huge, and the budget's use.
    fn end(self) -> (bool, usize) {
        let zones = self.bed.stack.pages().zones();
        let huge = self.is_huge();
        let used = zones.budget().used() as usize * FRAME_BYTES;
        // SAFETY: the object is live, and no other code knows it.
        unsafe { self.bed.stack.free(self.object) };
        let _ = self.bed.stack.trim();
        (huge, used)
    }
}

#[test]
fn a_mapping_is_huge_after_one_of_half_its_size_was_filled() {
    const MIB: usize = 1 << 20;
    let bed = &Play::new(Backing::Linux, 4096, 1).bed;
    let base = Written::new(bed, 4 * MIB).end().1 - 4 * MIB;
    let is_huge = |bytes| Written::new(bed, bytes).end().0;
    let filled = |bytes| Written::new(bed, bytes).fill(bytes).end();
    assert!(!is_huge(4 * MIB), "none was filled");
    assert_eq!(filled(4 * MIB), (false, base + 4 * MIB));
    assert!(!is_huge(10 * MIB), "more than 9/4 of 4");
    assert_eq!(filled(8 * MIB), (true, base + 8 * MIB));
    assert_eq!(filled(17 * MIB), (true, base + 18 * MIB), "charged for whole huge pages");
    assert_eq!(filled(7 * MIB), (true, base + 7 * MIB), "its end would be a seventh of it");
    assert!(is_huge(38 * MIB), "9/4 of 17");
    assert!(!is_huge(22 * MIB) && is_huge(21 * MIB), "it was not written: 9/4 of a quarter of it");
}

/// Tables that double while the old ones live become huge; sparse ones only up to the bound.
#[test]
fn huge_mappings_that_are_not_filled_yet_are_bounded() {
    const MIB: usize = 1 << 20;
    let bed = &Play::new(Backing::Linux, 4096, 1).bed;
    let filled = |bytes| Written::new(bed, bytes).fill(bytes);
    let tables = [4, 8, 16].map(|size| filled(size * MIB));
    assert_eq!(tables.each_ref().map(Written::is_huge), [false, true, true]);
    let sparse = [16; 3].map(|size| Written::new(bed, size * MIB));
    assert_eq!(sparse.each_ref().map(Written::is_huge), [true, true, false], "36 MiB in all");
    let [one, other, small] = sparse;
    let one = one.fill(16 * MIB);
    let more = [16; 2].map(|size| Written::new(bed, size * MIB));
    assert_eq!(more.each_ref().map(Written::is_huge), [true, false], "one is filled by now");
    for mapping in tables.into_iter().chain([one, other, small]).chain(more) {
        mapping.end();
    }
}

#[test]
fn a_filled_mapping_grows_in_huge_pages() {
    const MIB: usize = 1 << 20;
    let bed = &Play::new(Backing::Linux, 4096, 1).bed;
    let base = Written::new(bed, 4 * MIB).end().1 - 4 * MIB;
    let grown = Written::new(bed, 8 * MIB).fill(8 * MIB).grow(17 * MIB).fill(17 * MIB);
    assert_eq!(grown.end(), (true, base + 18 * MIB));
    let grown = Written::new(bed, 20 * MIB).grow(29 * MIB);
    assert_eq!(
        grown.end(),
        (true, base + 29 * MIB),
        "it was not written, so it grows in small ones"
    );
    assert!(!Written::new(bed, 12 * MIB).end().0, "9/4 of 5");
}

#[test]
fn a_mapping_is_not_huge_where_the_limit_has_no_room_for_its_end() {
    const MIB: usize = 1 << 20;
    let mut options = options();
    options.pages.limit_frames = (31 * MIB / FRAME_BYTES) as u32;
    let bed = &HeapBed::new(Backing::Linux, 4096, 1, &options);
    Written::new(bed, 8 * MIB).fill(8 * MIB).end();
    assert!(Written::new(bed, 17 * MIB).fill(17 * MIB).end().0);
    assert_eq!(Written::new(bed, 31 * MIB).end(), (false, 31 * MIB));
}

#[test]
fn a_mapping_that_grows_keeps_its_contents_and_is_charged_once() {
    let mut options = options();
    options.pages.limit_frames = (40 << 20) / FRAME_BYTES as u32;
    let mut play =
        Play { bed: HeapBed::new(Backing::Linux, 4096, 2, &options), oracle: Oracle::default() };
    play.alloc(10 << 20, 1, true);
    // A mapping right after the first one, so that the first one cannot grow in place.
    play.alloc(3 << 20, 1, false);
    play.realloc(0, 30 << 20);
    play.validate();
    play.realloc(1, 34 << 20);
    play.finish();
}

/// Each large request counts once: also if a kept extent serves it, and for every kind of request.
#[test]
fn every_large_request_is_counted() {
    let stack = &Play::new(Backing::Linux, 4096, 2).bed.stack;
    let none = LargeStats::default();
    assert_eq!((stack.stats().blocks, stack.stats().mappings), (none, none));
    for (size, is_block) in [(100 << 10, true), (LARGEST_BLOCK, true), (20 << 20, false)] {
        let before = [stack.stats().blocks, stack.stats().mappings];
        let grown = size + size / 2;
        for _ in 0..20 {
            let ways = [
                stack.alloc(size),
                stack.alloc(Request::of(size).zeroed()),
                stack.alloc(Request::of(size).aligned(1 << 16)),
                stack.alloc(Request::of(size).aligned(1 << 16).zeroed()),
            ];
            for object in ways.map(|object| object.expect("memory")) {
                // SAFETY: the object was just allocated, and no other code uses it.
                unsafe { stack.free(object) };
            }
        }
        let after = [stack.stats().blocks, stack.stats().mappings];
        let (counted, other) = if is_block { (0, 1) } else { (1, 0) };
        assert_eq!(after[counted].allocated - before[counted].allocated, 80, "{size}");
        assert_eq!(after[counted].freed, after[counted].allocated, "{size}");
        assert_eq!(after[other], before[other], "{size}");

        let object = stack.alloc(size).expect("memory");
        // SAFETY: the object was just allocated, and no other code uses it.
        let object = unsafe { stack.realloc(object, grown) }.expect("memory");
        // SAFETY: as above.
        unsafe { stack.free(object) };
        let [blocks, mappings] = [stack.stats().blocks, stack.stats().mappings];
        let changes = |stats: LargeStats| stats.allocated + stats.resized;
        assert!(changes(blocks) + changes(mappings) - changes(after[0]) - changes(after[1]) == 2);
        assert_eq!((blocks.freed, mappings.freed), (blocks.allocated, mappings.allocated));
    }
}
