//! Stacks with fewer instruments: one without any, and one with the heap profile alone.

use crate::support::{Backing, Bed, TestOs, VirtualConfig, small};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::heap::{CheckFlags, CheckOptions, Sampling};
use quarry_mm::pcp::V6_18;
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{Entry, Instrument, Request, Stack, StackConfig, StackHost, Watch};
use quarry_sys::os::{Linux, Os};
use quarry_sys::percpu::{Object, VirtualSlots};
use quarry_sys::primitive::Ordering;
use quarry_watch::profile::layout::{Head, MOST_FRAMES, words};
use quarry_watch::profile::{Area, ProfileKind, ProfileOptions};
use quarry_watch::{AllInstruments, HeapProfile};

struct Plain;

impl StackConfig for Plain {
    type PerCpu = VirtualSlots;
    type Slab = Sheaf;
    type Pages = V6_18;
    type Cache = ();
    type Watch = ();
}

struct Profiled;

impl StackConfig for Profiled {
    type PerCpu = VirtualSlots;
    type Slab = Sheaf;
    type Pages = V6_18;
    type Cache = ();
    type Watch = HeapProfile;
}

fn bed<C: StackConfig<PerCpu = VirtualSlots, Pages = V6_18>>(options: &StackOptions) -> Bed<C> {
    bed_of_pages(4096, options)
}

fn bed_of_pages<C>(page_size: usize, options: &StackOptions) -> Bed<C>
where
    C: StackConfig<PerCpu = VirtualSlots, Pages = V6_18>,
{
    let os = Box::leak(Box::new(TestOs::new(Backing::Linux, page_size)));
    os.protects.store(true, Ordering::Relaxed);
    Bed::on(os, options, |percpu: &VirtualSlots| percpu.choice().declare(2, || 0)).expect("memory")
}

fn with_heap() -> StackOptions {
    StackOptions { heap: true, ..small() }
}

/// Allocates objects, blocks and mappings, checks their sizes, resizes and frees them.
fn play<C: StackConfig>(stack: &Stack<C>) {
    let sizes = [0, 1, 100, 2048, 5000, 32 << 10, 100_000, 1 << 20, 3 << 20];
    let mut objects: Vec<(Object, usize)> = Vec::new();
    for size in sizes {
        for request in [Request::of(size), Request::of(size).aligned(4096).zeroed()] {
            let object = stack.alloc(request).expect("memory");
            assert!(stack.usable_size(object).unwrap() >= size);
            stack.demand(Entry::FreeSized, object, size, Some(request.align));
            // SAFETY: the object has `size` bytes, and only this test uses it.
            unsafe { object.as_ptr().write_bytes(7, size) };
            objects.push((object, size));
        }
    }
    assert_eq!(stack.validate(), Ok(()));
    for (object, size) in objects {
        // SAFETY: only this test uses the object, which is freed once.
        unsafe {
            let object = stack.realloc(object, size * 2 + 1).expect("memory");
            let bytes = core::slice::from_raw_parts(object.as_ptr(), size);
            assert!(bytes.iter().all(|byte| *byte == 7));
            stack.free(object);
        }
    }
    assert_eq!(stack.stats().wrong_sizes, 0);
    assert_eq!(stack.validate(), Ok(()));
}

#[test]
fn a_stack_without_instruments_serves_requests() {
    let mut options = with_heap();
    options.checks = CheckOptions { debug: CheckFlags::SANITY, harden: true, ..CheckOptions::OFF };
    play(&bed_of_pages::<Plain>(64 << 10, &options).stack);
    let bed = bed::<Plain>(&options);
    play(&bed.stack);
    bed.stack.switch_instrument(Instrument::Debug, true);
    let object = bed.stack.fast.alloc(100).expect("the fast path is open: there is no instrument");
    assert_eq!(Watch::alloc_outside(&bed.stack.watch, &bed.stack, 100, false), None);
    // SAFETY: the object was just allocated.
    assert_eq!(unsafe { bed.stack.fast.free(object.as_ptr()) }, Ok(()));
    bed.assert_empty(&[]);
}

#[test]
fn a_stack_without_instruments_has_no_room_for_them() {
    let size = size_of::<Stack<Plain>>();
    let with_all = size_of::<Stack<VirtualConfig<Sheaf>>>();
    let least = size_of::<AllInstruments>() / 256 * 256;
    assert!(least > 0 && size + least <= with_all, "{size} bytes, {with_all} with all");
}

#[test]
fn a_stack_may_have_the_heap_profile_alone() {
    let bed = bed::<Profiled>(&with_heap());
    let start = Linux.reserve(words(256, 2048) * 8).expect("memory");
    // SAFETY: fresh memory of `words(256, 2048)` words, which stays mapped.
    let area = unsafe { Area::new(start.cast(), 256, 2048) };
    let (profile, os): (_, &'static dyn Os) = (&bed.stack.watch, &Linux);
    profile.prepare(&bed.stack, os, area).expect("memory");
    let tracer = |frames: &mut [u64; MOST_FRAMES]| {
        frames[0] = 1;
        1
    };
    let options = ProfileOptions { mean: 1, kind: ProfileKind::InUse, seed: 42, tracer };
    profile.start(&bed.stack, &options).expect("no task is adding");
    play(&bed.stack);
    profile.stop(&bed.stack);
    let samples = profile.area().expect("prepared").load(Head::Samples as usize);
    assert!(samples > 0, "each request is a sample");
    play(&bed.stack);
    bed.assert_empty(&[]);
}

/// Only what is right is done there, so that slow paths report the rest.
#[test]
fn small_hardened_objects_need_no_slow_path() {
    let mut options = with_heap();
    options.checks = CheckOptions { harden: true, ..CheckOptions::OFF };
    let bed = bed::<VirtualConfig<Sheaf>>(&options);
    let stack = &bed.stack;
    let alloc = |size, zeroed| Watch::alloc_outside(&stack.watch, stack, size, zeroed);
    // SAFETY: an object of this test, which the call frees only if no other call has freed it.
    let free = |object: Object| unsafe { Watch::free_outside(&stack.watch, stack, object) };
    let slow: Vec<_> = (0..500).map(|_| stack.alloc(100).expect("memory")).collect();
    assert!(slow.into_iter().all(|object| free(object).is_some()));

    let object = alloc(100, true).expect("the running CPU has some");
    assert_eq!(stack.usable_size(object).unwrap(), 100);
    // SAFETY: the object has 100 bytes.
    let bytes = unsafe { core::slice::from_raw_parts(object.as_ptr(), 100) };
    assert_eq!(bytes, [0; 100]);
    let (start, reached) = (object.as_ptr(), 16 + 100 + 8 + 16);
    for at in (-16..0).chain(100..reached - 16) {
        let byte = start.wrapping_offset(at);
        // SAFETY: the byte belongs to the object's slot, and is changed back before it is used.
        unsafe { *byte ^= 1 };
        assert_eq!(free(object), None, "byte {at} was overwritten");
        // SAFETY: as above.
        unsafe { *byte ^= 1 };
    }
    // SAFETY: the address lies inside the object.
    assert_eq!(free(unsafe { object.add(16) }), None);
    assert!(free(object).is_some());
    assert_eq!(free(object), None, "it is free already");
    // SAFETY: the slot stays readable.
    let bytes = unsafe { core::slice::from_raw_parts(object.as_ptr(), 100) };
    assert_eq!(bytes, [0; 100], "a freed object is cleared");

    assert_eq!((alloc(0, false), alloc(64 << 10, false)), (None, None));
    let large = stack.alloc(64 << 10).expect("memory");
    assert_eq!(free(large), None);
    // SAFETY: only this test uses the block.
    unsafe { stack.free(large) };
    assert_eq!(stack.validate(), Ok(()));
}

/// The first byte at or after an address that the process cannot read, within 256 KiB.
fn first_fault(address: usize) -> Option<usize> {
    let is_readable = |at: usize| {
        let mut byte = 0_u8;
        let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let remote = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: 1 };
        // SAFETY: the kernel writes one byte, and refuses addresses that cannot be read.
        unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) == 1 }
    };
    let next = |at: usize| Some((at / 4096 + 1) * 4096);
    let places = std::iter::successors(Some(address), |at| next(*at));
    places.take_while(|at| at - address <= 256 << 10).find(|at| !is_readable(*at))
}

/// A guard is a page of the system. An overflow ends at its start, and no object lies in it.
#[test]
fn guards_are_pages_of_the_system() {
    for page in [4 << 10, 16 << 10, 64 << 10] {
        let mut options = with_heap();
        options.checks = CheckOptions { harden: true, ..CheckOptions::OFF };
        let bed = bed_of_pages::<VirtualConfig<Sheaf>>(page, &options);
        let stack = &bed.stack;
        let sizes = [1, 100, 1000, 5000, 30_000, 40_000, 100_000, 1 << 20];
        let mut objects = Vec::new();
        for (size, turn) in sizes.iter().flat_map(|size| (0..20).map(move |turn| (*size, turn))) {
            let object = stack.alloc(size).expect("memory");
            let end = object.as_ptr() as usize + size;
            // SAFETY: the object has `size` bytes, and only this test uses it.
            unsafe { object.as_ptr().write_bytes(turn, size) };
            let fault = first_fault(end).expect("a guard");
            assert!(fault.is_multiple_of(page), "{size} bytes, pages of {page}: {fault:#x}");
            // The length of a slab, or what rounds a large block up to pages.
            let most = if size < 32 << 10 { 128 << 10 } else { page + 8192 };
            assert!(fault - end <= most, "{size} bytes, pages of {page}: {}", fault - end);
            objects.push((object, size, turn));
        }
        assert_eq!(stack.validate(), Ok(()));
        for (object, size, turn) in objects {
            // SAFETY: only this test uses the object, which is freed once.
            unsafe {
                let bytes = core::slice::from_raw_parts(object.as_ptr(), size);
                assert!(bytes.iter().all(|byte| *byte == turn), "{size} bytes");
                stack.free(object);
            }
        }
        stack.watch.1.look_at_all(stack);
        assert_eq!(stack.validate(), Ok(()));
    }
}

fn is_in_memory(address: usize) -> bool {
    let mut flags = 0_u8;
    // SAFETY: the kernel writes one byte for the one page.
    assert_eq!(unsafe { libc::mincore(address as *mut libc::c_void, 1, &raw mut flags) }, 0);
    flags & 1 != 0
}

/// Where the system makes no guards, no memory and no part of the budget stands in for them.
#[test]
fn refused_guards_of_large_blocks_take_no_memory() {
    for (page, frames) in [(4 << 10, 11), (16 << 10, 12), (64 << 10, 16)] {
        let mut options = with_heap();
        options.checks = CheckOptions { harden: true, ..CheckOptions::OFF };
        let bed = bed_of_pages::<VirtualConfig<Sheaf>>(page, &options);
        bed.os.guards.store(false, Ordering::Relaxed);
        let (stack, budget) = (&bed.stack, bed.stack.pages().zones().budget());
        for round in 0..4 {
            let before = budget.used();
            let objects: Vec<_> = (0..50).map(|_| stack.alloc(42_000).expect("memory")).collect();
            if round == 0 {
                assert_eq!(budget.used() - before, 50 * frames, "pages of {page}");
            }
            assert_eq!(stack.validate(), Ok(()));
            for object in objects {
                // SAFETY: the object has so many bytes, and only this test uses it.
                unsafe { object.as_ptr().write_bytes(1, 42_000) };
                let block = object.as_ptr() as usize / page * page;
                assert!(is_in_memory(block));
                assert!(!is_in_memory(block + 4096 * frames as usize), "pages of {page}");
                // SAFETY: it is freed once.
                unsafe { stack.free(object) };
            }
            assert_eq!(stack.validate(), Ok(()));
        }
    }
}

/// Each sampled object has a page of the system between two guards.
#[test]
fn sampled_objects_lie_between_pages_of_the_system() {
    for (page, count) in [(4 << 10, 255), (16 << 10, 63), (64 << 10, 15)] {
        let mut options = with_heap();
        options.checks = CheckOptions { guard: Sampling::All, ..CheckOptions::OFF };
        let bed = bed_of_pages::<VirtualConfig<Sheaf>>(page, &options);
        let stack = &bed.stack;
        let objects: Vec<_> = (0..count).map(|_| stack.alloc(1000).expect("memory")).collect();
        for object in &objects {
            let start = object.as_ptr() as usize / page * page;
            assert_eq!(first_fault(start - page), Some(start - page), "the guard before it");
            assert_eq!(first_fault(start), Some(start + page), "the guard after it");
        }
        let mut places: Vec<_> = objects.iter().map(|at| at.as_ptr() as usize / page).collect();
        places.dedup();
        assert_eq!(places.len(), count, "each has its own page");
        let freed = objects[0].as_ptr() as usize;
        for object in objects {
            // SAFETY: only this test uses the object, which is freed once.
            unsafe { stack.free(object) };
        }
        assert_eq!(first_fault(freed), Some(freed), "a freed object faults");
        assert_eq!(stack.validate(), Ok(()));
    }
}
