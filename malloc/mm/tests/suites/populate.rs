//! The new slabs that are populated: those whose pages a program will all touch, and no others.

use crate::support::{VirtualConfig, on_cpu, small};
use quarry_mm::slab::{CacheId, CacheParams};
use quarry_mm::slab::{CacheOptions, Sheaf};
use quarry_mm::stack::{Stack, StackHost};
use quarry_sys::os::FakeOs;

type SheafStack = Stack<VirtualConfig<Sheaf>>;

const MIB: usize = 1 << 20;

/// The bytes that a program writes into its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    /// A word in each 512 bytes.
    Everywhere,
    /// A word at the start.
    Front,
    /// A word in each 512 bytes, but only zeros, which fresh memory has already.
    Zeros,
}

/// A stack on a system that refuses nothing.
fn stack() -> (&'static FakeOs, Box<SheafStack>) {
    let os: &'static FakeOs = Box::leak(Box::new(FakeOs::new(4096)));
    let stack = Box::new(SheafStack::new());
    stack.percpu().choice().declare(1, || 0);
    on_cpu(0);
    stack.init(os, &small(), &Default::default()).expect("a system on which nothing fails");
    (os, stack)
}

fn cache_of(stack: &SheafStack, size: usize) -> CacheId {
    stack
        .create_cache("objects", &CacheParams { size, align: 16 }, &CacheOptions::default())
        .expect("there is room")
}

/// Allocates objects that stay, `bytes` in total; returns the bytes that were populated meanwhile.
fn grow(os: &FakeOs, stack: &SheafStack, cache: CacheId, bytes: usize, writes: Writes) -> usize {
    let before = os.populated_bytes();
    let stride = stack.cache(cache).stride();
    for _ in 0..bytes / stride {
        let object = stack.cache(cache).alloc().expect("there is memory");
        let (end, value) = match writes {
            Writes::Everywhere => (stride, 7),
            Writes::Front => (1, 7),
            Writes::Zeros => (stride, 0),
        };
        for at in (0..end).step_by(512) {
            // SAFETY: the object is ours and has `stride` bytes.
            unsafe { object.as_ptr().add(at).write(value) };
        }
    }
    assert_eq!(stack.validate(), Ok(()));
    os.populated_bytes() - before
}

#[test]
fn objects_of_a_page_are_populated_whatever_is_written() {
    for (size, writes) in [(64, Writes::Front), (1000, Writes::Zeros), (4096, Writes::Front)] {
        let (os, stack) = stack();
        let cache = cache_of(&stack, size);
        let populated = grow(os, &stack, cache, 8 * MIB, writes);
        assert!(populated > 6 * MIB, "{populated} of 8 MiB in objects of {size} bytes");
    }
}

/// Not under Miri, which has no system call that reads words that may not be readable.
#[cfg(not(miri))]
#[test]
fn larger_ones_are_where_those_before_were_written() {
    for size in [5000, 8192, 16_384, 32_768] {
        let (os, stack) = stack();
        let cache = cache_of(&stack, size);
        let populated = grow(os, &stack, cache, 16 * MIB, Writes::Everywhere);
        assert!(populated > 10 * MIB, "{populated} of 16 MiB, size {size}");
        assert!(populated < 16 * MIB, "nothing was left as a sample");
    }
}

#[test]
fn larger_ones_are_not_where_nothing_is_written() {
    for size in [5000, 8192, 16_384, 32_768] {
        for writes in [Writes::Front, Writes::Zeros] {
            let (os, stack) = stack();
            let cache = cache_of(&stack, size);
            assert_eq!(grow(os, &stack, cache, 16 * MIB, writes), 0, "size {size}, {writes:?}");
        }
    }
}

#[cfg(not(miri))]
#[test]
fn a_program_that_stops_touching_and_starts_again_is_noticed() {
    let (os, stack) = stack();
    let cache = cache_of(&stack, 16_384);
    assert!(grow(os, &stack, cache, 12 * MIB, Writes::Everywhere) > 6 * MIB);
    grow(os, &stack, cache, 8 * MIB, Writes::Front);
    let populated = grow(os, &stack, cache, 8 * MIB, Writes::Front);
    assert_eq!(populated, 0, "the sample was hardly touched");
    assert!(grow(os, &stack, cache, 8 * MIB, Writes::Everywhere) > 4 * MIB);
}

#[test]
fn a_cache_brings_in_an_eighth_of_what_it_has_at_most() {
    let (os, stack) = stack();
    let cache = cache_of(&stack, 2048);
    // A refill takes 128 KiB.
    assert_eq!(grow(os, &stack, cache, MIB - (128 << 10), Writes::Front), 0);
    assert!(grow(os, &stack, cache, MIB, Writes::Front) > MIB / 2);
}

#[test]
fn memory_that_was_used_before_is_not_populated() {
    let (os, stack) = stack();
    let cache = cache_of(&stack, 1000);
    let objects: Vec<_> =
        (0..8 * MIB / 1000).map(|_| stack.cache(cache).alloc().expect("there is memory")).collect();
    let populated = os.populated_bytes();
    // SAFETY: the object was just allocated from this cache, and no other code uses it.
    objects.into_iter().for_each(|object| unsafe { stack.cache(cache).free(object) });
    stack.cache(cache).shrink();
    grow(os, &stack, cache, 7 * MIB, Writes::Front);
    assert!(os.populated_bytes() < populated + MIB);
}
