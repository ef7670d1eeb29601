//! Pages of sparse slabs go back, and objects in use keep their contents.

use crate::support::idle::reclaim;
use crate::support::{Backing, Bed, VirtualConfig, check, on_cpu, small};
use proptest::prelude::*;
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::slab::{CacheId, CacheOptions, CacheParams, Sheaf};
use quarry_mm::stack::{ReclaimState, StackHost};
use quarry_sys::percpu::Object;
use std::collections::{HashMap, HashSet};

type SheafBed = Bed<VirtualConfig<Sheaf>>;

/// An object filled with one byte value.
struct Filled {
    object: Object,
    byte: u8,
}

fn alloc(bed: &SheafBed, cache: CacheId, bytes: usize, number: usize) -> Filled {
    let object = bed.stack.cache(cache).alloc().expect("there is memory");
    let byte = (number % 251) as u8 + 1;
    // SAFETY: the object was just allocated from a cache of objects of `bytes` bytes.
    unsafe { object.as_ptr().write_bytes(byte, bytes) };
    Filled { object, byte }
}

fn is_intact(filled: &Filled, bytes: usize) -> bool {
    // SAFETY: the object is in use, was filled, and has `bytes` bytes.
    let contents = unsafe { std::slice::from_raw_parts(filled.object.as_ptr(), bytes) };
    contents.iter().all(|byte| *byte == filled.byte)
}

fn free(bed: &SheafBed, cache: CacheId, filled: &Filled) {
    // SAFETY: the object came from this cache, and is not used any more.
    unsafe { bed.stack.cache(cache).free(filled.object) };
}

/// Looks and purges until nothing is due. Returns the bytes that sparse slabs have given back.
pub(crate) fn rest(bed: &SheafBed, state: &mut ReclaimState) -> usize {
    let mut bytes = 0;
    for _ in 0..3 {
        reclaim(&bed.stack, state);
        while let Some(more) = bed.stack.purge(state, true) {
            bytes += more;
        }
    }
    bytes
}

/// Bytes of the pages on which objects lie.
fn pages_under(all: &[Filled], bytes: usize) -> usize {
    let pages = |it: &Filled| {
        let start = it.object.as_ptr() as usize;
        start / 4096..(start + bytes).div_ceil(4096)
    };
    all.iter().flat_map(pages).collect::<HashSet<_>>().len() * 4096
}

#[test]
fn pages_without_an_object_in_use_go_back_and_the_others_stay() {
    let sizes = prop_oneof![16usize..200, 200usize..5_000, 5_000usize..40_000];
    let keep = prop_oneof![Just(2usize), Just(17), Just(64), Just(1_000)];
    check(24, (sizes, keep, any::<u64>()), |(size, keep, seed)| {
        let bed = SheafBed::new(Backing::Linux, 4096, 1, &small());
        on_cpu(0);
        let params = CacheParams { size, align: 16 };
        let cache = bed
            .stack
            .create_cache("sparse", &params, &CacheOptions::default())
            .expect("there is room");
        let count = (8 << 20) / size;
        let mut live: Vec<_> = (0..count).map(|at| alloc(&bed, cache, size, at)).collect();
        let (mut survivors, mut number) = (Vec::new(), seed);
        for filled in live.drain(..) {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            match (number >> 33) as usize % keep {
                0 => survivors.push(filled),
                _ => free(&bed, cache, &filled),
            }
        }
        let mut state = ReclaimState::new();
        let given = rest(&bed, &mut state);
        assert!(survivors.iter().all(|it| is_intact(it, size)), "contents stay");
        let stats = bed.stack.cache(cache).stats();
        let objects = stats.total_objects as usize * size;
        // A slab with more than five objects in use may also keep a page that has its bits.
        let slab_bytes = bed.stack.slab_frames(cache) as usize * FRAME_BYTES;
        let mut in_use = HashMap::new();
        for it in &survivors {
            *in_use.entry(it.object.as_ptr() as usize / slab_bytes).or_insert(0) += 1;
        }
        let with_bits = in_use.values().filter(|count| **count > 5).count();
        let kept = pages_under(&survivors, size) + with_bits * FRAME_BYTES;
        assert!(given + kept >= objects, "{given} of {objects} went, {kept} may stay");
        assert_eq!(rest(&bed, &mut state), 0, "once in each rest");
        assert_eq!(bed.stack.validate(), Ok(()));
        // All freed objects are handed out again, each object once.
        let again: Vec<_> = (0..count).map(|at| alloc(&bed, cache, size, at + 7)).collect();
        assert!(again.iter().chain(&survivors).all(|it| is_intact(it, size)), "no object twice");
        again.iter().chain(&survivors).for_each(|it| free(&bed, cache, it));
        assert_eq!(bed.stack.validate(), Ok(()));
    });
}

/// Pages go back while another thread uses the cache; that thread does not wait for this.
#[test]
fn pages_go_back_beside_threads_that_use_the_cache() {
    let bed = SheafBed::new(Backing::Linux, 4096, 2, &small());
    let params = CacheParams { size: 300, align: 16 };
    let cache =
        bed.stack.create_cache("busy", &params, &CacheOptions::default()).expect("there is room");
    on_cpu(0);
    let all: Vec<_> = (0..40_000).map(|at| alloc(&bed, cache, 300, at)).collect();
    let (kept, freed): (Vec<_>, Vec<_>) =
        all.into_iter().enumerate().partition(|(at, _)| at % 50 == 0);
    freed.iter().for_each(|(_, it)| free(&bed, cache, it));
    let mut state = ReclaimState::new();
    for _ in 0..2 {
        reclaim(&bed.stack, &mut state);
    }
    let bed = &bed;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            on_cpu(1);
            for round in 0..20 {
                let mine: Vec<_> =
                    (0..2_000).map(|at| alloc(bed, cache, 300, at + round)).collect();
                assert!(mine.iter().all(|it| is_intact(it, 300)), "its objects are its own");
                mine.iter().for_each(|it| free(bed, cache, it));
            }
        });
        while bed.stack.purge(&mut state, true).is_some() {}
    });
    assert!(kept.iter().all(|(_, it)| is_intact(it, 300)), "contents stay");
    assert_eq!(bed.stack.validate(), Ok(()));
}
