//! Which slabs are brought in whole: those whose pages will all be touched, and no others.

use crate::support::{VirtualConfig, on_cpu, small};
use quarry_core::slab::sheaf::Sheaf;
use quarry_core::slab::{CacheId, CacheParams};
use quarry_core::stack::Stack;
use quarry_sys::os::FakeOs;

type SheafStack = Stack<VirtualConfig<Sheaf>>;

const MIB: usize = 1 << 20;

/// A stack on a system that says of so many of each eight pages that they are in memory.
fn stack(eighths: Option<u32>) -> (&'static FakeOs, Box<SheafStack>) {
    let os: &'static FakeOs = Box::leak(Box::new(FakeOs::new(4096)));
    os.set_resident(eighths);
    let stack = Box::new(SheafStack::new());
    stack.percpu().choice().declare(1, || 0);
    on_cpu(0);
    stack.init(os, &small()).expect("a system on which nothing fails");
    (os, stack)
}

fn cache_of(stack: &SheafStack, size: usize) -> CacheId {
    stack.create_cache("objects", &CacheParams { size, align: 16 }).expect("there is room")
}

/// Allocates `bytes` of objects that stay; returns the bytes that were populated meanwhile.
fn grow(os: &FakeOs, stack: &SheafStack, cache: CacheId, bytes: usize) -> usize {
    let before = os.populated_bytes();
    for _ in 0..bytes / stack.cache(cache).stride() {
        stack.cache_alloc(cache).expect("there is memory");
    }
    assert_eq!(stack.validate(), Ok(()));
    os.populated_bytes() - before
}

#[test]
fn objects_of_a_page_are_populated_whatever_the_system_says() {
    for (size, eighths) in [(64, None), (1000, Some(0)), (4096, Some(0))] {
        let (os, stack) = stack(eighths);
        let cache = cache_of(&stack, size);
        let populated = grow(os, &stack, cache, 8 * MIB);
        assert!(populated > 6 * MIB, "{populated} of 8 MiB in objects of {size} bytes");
    }
}

#[test]
fn larger_ones_are_where_those_before_were_touched() {
    for size in [5000, 8192, 16_384, 32_768] {
        for (eighths, is_dense) in
            [(Some(8), true), (Some(7), true), (Some(6), false), (Some(0), false), (None, false)]
        {
            let (os, stack) = stack(eighths);
            let cache = cache_of(&stack, size);
            let populated = grow(os, &stack, cache, 16 * MIB);
            if is_dense {
                assert!(populated > 10 * MIB, "{populated} of 16 MiB, size {size}, {eighths:?}");
                assert!(populated < 16 * MIB, "nothing was left as a sample");
            } else {
                assert_eq!(populated, 0, "size {size}, {eighths:?}");
            }
        }
    }
}

#[test]
fn a_program_that_stops_touching_and_starts_again_is_noticed() {
    let (os, stack) = stack(Some(8));
    let cache = cache_of(&stack, 16_384);
    assert!(grow(os, &stack, cache, 12 * MIB) > 6 * MIB);
    os.set_resident(Some(1));
    grow(os, &stack, cache, 8 * MIB);
    assert_eq!(grow(os, &stack, cache, 8 * MIB), 0, "the sample was hardly touched");
    os.set_resident(Some(8));
    assert!(grow(os, &stack, cache, 8 * MIB) > 4 * MIB);
}

#[test]
fn a_cache_brings_in_an_eighth_of_what_it_has_at_most() {
    let (os, stack) = stack(Some(8));
    let cache = cache_of(&stack, 2048);
    // A refill is 128 KiB.
    assert_eq!(grow(os, &stack, cache, MIB - (128 << 10)), 0);
    assert!(grow(os, &stack, cache, MIB) > MIB / 2);
}

#[test]
fn memory_that_was_used_before_is_not_populated() {
    let (os, stack) = stack(Some(8));
    let cache = cache_of(&stack, 1000);
    let objects: Vec<_> =
        (0..8 * MIB / 1000).map(|_| stack.cache_alloc(cache).expect("there is memory")).collect();
    let populated = os.populated_bytes();
    // SAFETY: just allocated from this cache, and used by nobody.
    objects.into_iter().for_each(|object| unsafe { stack.cache_free(cache, object) });
    stack.shrink_cache(cache);
    grow(os, &stack, cache, 7 * MIB);
    assert!(os.populated_bytes() < populated + MIB);
}
