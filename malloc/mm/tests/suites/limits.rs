//! Limits: a stack refuses requests beyond its limit, and serves requests again after frees.

use crate::support::turns::sizes_take_turns;
use crate::support::{Backing, Bed, Oracle, VirtualConfig, on_cpu, small};
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{Entry, Request, StackHost};

type HeapBed = Bed<VirtualConfig<Sheaf>>;

const LIMIT: usize = 8 << 20;

fn limited(bytes: usize) -> StackOptions {
    let mut options = StackOptions { heap: true, ..small() };
    options.pages.reserve_bytes = 128 << 20;
    options.pages.limit_frames = (bytes / FRAME_BYTES) as u32;
    options
}

/// Allocates objects of `size` bytes until a request is refused; returns the bytes of the objects.
fn fill(bed: &HeapBed, oracle: &mut Oracle, size: usize) -> usize {
    let before = oracle.bytes();
    while let Some(object) = bed.stack.alloc(size) {
        oracle.insert(object, size, bed.stack.usable_size(object).unwrap(), 16, 0);
        let used = bed.stack.pages().zones().budget().used() as usize * FRAME_BYTES;
        assert!(used <= LIMIT, "{used} bytes in use");
        assert!(oracle.bytes() <= LIMIT, "more live bytes than the limit");
    }
    oracle.bytes() - before
}

fn free_all(bed: &HeapBed, oracle: &mut Oracle) {
    while let Some(live) = oracle.remove(oracle.len() / 2) {
        on_cpu(oracle.len() as u32);
        // SAFETY: the object was live, and only the oracle knew it.
        unsafe { bed.stack.free(live.object) };
    }
}

#[test]
fn every_size_fills_the_limit_and_frees_make_room_for_every_other() {
    let bed = HeapBed::new(Backing::Linux, 4096, 4, &limited(LIMIT));
    let mut oracle = Oracle::default();
    for size in [80, 1000, 9000, 32 << 10, 40_000, 300_000, 1 << 20, 2 << 20, 3 << 20, 160] {
        let filled = fill(&bed, &mut oracle, size);
        // Blocks of pages leave holes that only smaller blocks fit; mappings take whole pageblocks.
        let wanted = if size > 200_000 { LIMIT / 2 } else { LIMIT * 3 / 4 };
        assert!(filled >= wanted, "only {filled} bytes of objects of {size}");
        assert_eq!(bed.stack.validate(), Ok(()));
        oracle.check_all();
        free_all(&bed, &mut oracle);
    }
    bed.assert_empty(&[]);
}

#[test]
fn a_little_room_serves_whoever_fits_into_it() {
    let bed = HeapBed::new(Backing::Linux, 4096, 2, &limited(LIMIT));
    let mut oracle = Oracle::default();
    fill(&bed, &mut oracle, 10_000);
    for _ in 0..40 {
        let live = oracle.remove(0).expect("it is full");
        // SAFETY: the object was live, and only the oracle knew it.
        unsafe { bed.stack.free(live.object) };
    }
    for size in [10_000, 5000, 700, 16] {
        let object = bed.stack.alloc(size).unwrap_or_else(|| panic!("no room for {size}"));
        oracle.insert(object, size, bed.stack.usable_size(object).unwrap(), 16, 0);
    }
    assert_eq!(bed.stack.alloc(LIMIT / 2), None);
    let live = oracle.pick(3).expect("it is live");
    // SAFETY: the object is live; a refused realloc does not free it.
    assert_eq!(unsafe { bed.stack.realloc(live.object, LIMIT / 2) }, None);
    oracle.check_all();
    free_all(&bed, &mut oracle);
    bed.assert_empty(&[]);
}

/// A slab of 16 KiB objects has 32 frames. With room for only 8 frames, a request of that class is
/// still served.
#[test]
fn room_for_no_slab_serves_large_objects() {
    let bed = HeapBed::new(Backing::Linux, 4096, 2, &limited(LIMIT));
    let budget = || bed.stack.pages().zones().budget();
    let pages = std::iter::from_fn(|| {
        let is_roomy = budget().room() > 12;
        is_roomy.then(|| bed.stack.alloc(36_000).expect("there is room"))
    });
    let pages: Vec<_> = pages.collect();
    let mut oracle = Oracle::default();
    for size in [15_000, 3000] {
        let object = bed.stack.alloc(size).unwrap_or_else(|| panic!("no room for {size}"));
        oracle.insert(object, size, bed.stack.usable_size(object).unwrap(), 16, 0);
        bed.stack.demand(Entry::Free, object, size, Some(1));
    }
    assert_eq!(bed.stack.stats().wrong_sizes, 0);
    oracle.check_all();
    assert_eq!(bed.stack.validate(), Ok(()));
    for page in pages {
        // SAFETY: the object was live, and only this test knew it.
        unsafe { bed.stack.free(page) };
    }
    free_all(&bed, &mut oracle);
    bed.assert_empty(&[]);
}

#[test]
fn realloc_to_fewer_bytes_is_never_refused() {
    let bed = HeapBed::new(Backing::Linux, 4096, 2, &limited(LIMIT));
    for size in [3 << 20, 900_000, 30_000] {
        let mut oracle = Oracle::default();
        let object = bed.stack.alloc(size).expect("there is room");
        oracle.insert(object, size, bed.stack.usable_size(object).unwrap(), 16, 0);
        for filler in [1 << 20, 20_000, 100] {
            fill(&bed, &mut oracle, filler);
        }
        let live = oracle.pick(0).expect("the first");
        oracle.forget(&live);
        // SAFETY: the object is live, and only the oracle knew it.
        let less = unsafe { bed.stack.realloc(object, 17) }.expect("it has room enough");
        assert!(crate::support::pattern::holds(less, 17, live.tag));
        // SAFETY: as above.
        unsafe { bed.stack.free(less) };
        free_all(&bed, &mut oracle);
        bed.assert_empty(&[]);
    }
}

#[test]
fn a_limit_that_holds_nothing_refuses_everything() {
    let bed = HeapBed::new(Backing::Fake, 4096, 2, &limited(0));
    for size in [0, 16, 5000, 100_000, 5 << 20] {
        assert_eq!(bed.stack.alloc(size), None, "{size} bytes");
        assert_eq!(bed.stack.alloc(Request::of(size).zeroed()), None, "{size} bytes");
    }
    bed.assert_empty(&[]);
}

#[test]
fn address_space_that_kept_mappings_hold_is_found_again() {
    let mut options = limited(1 << 30);
    options.pages.reserve_bytes = 64 << 20;
    let bed = HeapBed::new(Backing::Linux, 4096, 2, &options);
    let mut oracle = Oracle::default();
    for round in 0..3 {
        // Freed extents of 6 MiB are kept; a request for 40 MiB can use none of them.
        for size in [6 << 20; 8] {
            let object = bed.stack.alloc(size).expect("48 of 64 MiB");
            oracle.insert(object, size, bed.stack.usable_size(object).unwrap(), 16, 0);
        }
        free_all(&bed, &mut oracle);
        let large = bed.stack.alloc(40 << 20);
        let large = large.unwrap_or_else(|| panic!("40 of 64 MiB in round {round}"));
        // SAFETY: the object was just allocated.
        unsafe { bed.stack.free(large) };
    }
    // The kept extent of 40 MiB must make room for slabs.
    for _ in 0..3000 {
        let object = bed.stack.alloc(16 << 10).expect("48 of 64 MiB in small objects");
        oracle.insert(object, 16 << 10, bed.stack.usable_size(object).unwrap(), 16, 0);
    }
    free_all(&bed, &mut oracle);
    bed.assert_empty(&[]);
}

/// If live mappings leave no addresses for a request, the request takes no memory from other parts.
#[test]
fn what_cannot_have_addresses_is_refused_before_anything_is_given_back() {
    let mut options = limited(1 << 30);
    options.pages.reserve_bytes = 64 << 20;
    let bed = HeapBed::new(Backing::Linux, 4096, 2, &options);
    let alloc = |size| bed.stack.alloc(size).expect("there are addresses");
    let (live, freed, small) = (alloc(40 << 20), alloc(8 << 20), alloc(100));
    // SAFETY: the object was just allocated, and no other code uses it.
    unsafe { bed.stack.free(freed) };
    let before =
        (bed.os.calls(), bed.stack.stats().direct_reclaims, bed.stack.mappings.cached_bytes());
    for _ in 0..10 {
        assert_eq!(bed.stack.alloc(30 << 20), None, "24 of 64 MiB are left");
    }
    let after =
        (bed.os.calls(), bed.stack.stats().direct_reclaims, bed.stack.mappings.cached_bytes());
    assert_eq!(after, before, "calls, reclaims, bytes kept");
    for object in [live, small, alloc(10 << 20)] {
        // SAFETY: the object was just allocated, and no other code uses it.
        unsafe { bed.stack.free(object) };
    }
    bed.assert_empty(&[]);
}

#[test]
fn address_space_that_one_size_has_left_serves_any_other() {
    sizes_take_turns::<Sheaf>();
}
