//! The heap profile of a stack: its counts, the samples as a program sees them, and the samples
//! that outlive the profile.

use crate::support::{Backing, Bed, VirtualConfig, on_cpu, small};
use quarry_mm::heap::CheckOptions;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{Request, Watch};
use quarry_sys::os::{Linux, Os};
use quarry_sys::percpu::Object;
use quarry_watch::profile::layout::{
    BUCKET_WORDS, Bucket, HEAD_WORDS, Head, MOST_FRAMES, SIZE_OF_FREES, words,
};
use quarry_watch::profile::{Area, Busy, MOST_RECORDS, ProfileKind, ProfileOptions};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

type HeapBed = Bed<VirtualConfig<Sheaf>>;

const BUCKETS: usize = 256;
const FRAMES: usize = 2048;

thread_local! {
    static SITE: Cell<u64> = const { Cell::new(1) };
}
static TRACES: AtomicU64 = AtomicU64::new(0);

/// Returns the call site that the test has set.
fn tracer(frames: &mut [u64; MOST_FRAMES]) -> usize {
    TRACES.fetch_add(1, Ordering::Relaxed);
    frames[..2].copy_from_slice(&[SITE.get(), 0x1000]);
    2
}

fn options(mean: u64) -> ProfileOptions {
    ProfileOptions { mean, kind: ProfileKind::InUse, seed: 42, tracer }
}

fn options_of_heap() -> StackOptions {
    let mut options = StackOptions { heap: true, ..small() };
    options.pages.reserve_bytes = 512 << 20;
    options
}

fn bed() -> HeapBed {
    bed_of(&options_of_heap())
}

fn bed_of(options: &StackOptions) -> HeapBed {
    let bed = HeapBed::new(Backing::Linux, 4096, 2, options);
    let start = Linux.reserve(words(BUCKETS, FRAMES) * 8).expect("memory");
    // SAFETY: fresh memory of `words(BUCKETS, FRAMES)` words, which stays mapped.
    let area = unsafe { Area::new(start.cast(), BUCKETS, FRAMES) };
    let os: &'static dyn Os = &Linux;
    bed.stack.watch.0.prepare(&bed.stack, os, area).expect("memory");
    bed
}

/// The counts of a bucket: `[objects allocated, their bytes, objects freed, their bytes]`.
type Counts = [u64; 4];

fn head(bed: &HeapBed, word: Head) -> u64 {
    bed.stack.watch.0.area().expect("prepared").load(word as usize)
}

/// For each call site, and separately for its allocations and its frees: the counts, and estimates
/// of the bytes that were allocated and of those in use.
fn read(bed: &HeapBed) -> HashMap<(u64, bool), (Counts, [f64; 2])> {
    let area = bed.stack.watch.0.area().expect("prepared");
    let mean = area.load(Head::Mean as usize) as f64;
    let mut found = HashMap::new();
    for bucket in 0..BUCKETS {
        let at = |word: Bucket| area.load(HEAD_WORDS + bucket * BUCKET_WORDS + word as usize);
        if at(Bucket::Key) == 0 {
            continue;
        }
        let first = (at(Bucket::Trace) & !(1 << 63)) >> 16;
        assert_eq!(at(Bucket::Trace) & 0xffff, 2, "two frames");
        let frames = HEAD_WORDS + BUCKETS * BUCKET_WORDS + first as usize;
        assert_eq!(area.load(frames + 1), 0x1000);
        let is_free = at(Bucket::Size) & SIZE_OF_FREES != 0;
        let key = (area.load(frames), is_free);
        let (counts, estimates) = found.entry(key).or_insert(([0; 4], [0.0; 2]));
        let new =
            [Bucket::Allocated, Bucket::AllocatedBytes, Bucket::Freed, Bucket::FreedBytes].map(at);
        for (sum, count) in counts.iter_mut().zip(new) {
            *sum += count;
        }
        let estimate = |objects: u64, bytes: u64| {
            let size = bytes as f64 / (objects as f64).max(1.0);
            bytes as f64 / (1.0 - (-size / mean).exp())
        };
        if new[0] > 0 {
            estimates[0] += estimate(new[0], new[1]);
        }
        if new[0] > new[2] {
            estimates[1] += estimate(new[0] - new[2], new[1] - new[3]);
        }
    }
    found
}

fn alloc(bed: &HeapBed, request: impl Into<Request>) -> Object {
    bed.stack.alloc(request).expect("there is memory")
}

/// Allocates as `libquarry.so` does.
fn alloc_leanly(bed: &HeapBed, size: usize) -> Object {
    bed.stack.watch.alloc_outside(&bed.stack, size, false).unwrap_or_else(|| alloc(bed, size))
}

fn free(bed: &HeapBed, object: Object) {
    // SAFETY: the caller has allocated the object, and no other code knows it.
    unsafe { bed.stack.free(object) };
}

#[test]
fn a_profile_without_tables_does_not_start() {
    let bed = HeapBed::new(Backing::Linux, 4096, 2, &options_of_heap());
    free(&bed, alloc(&bed, 100));
    bed.stack.watch.0.start(&bed.stack, &options(1)).expect("no task is busy");
    assert!(!bed.stack.watch.0.is_on());
    assert!(bed.stack.fast.alloc(100).is_some(), "the fast path serves");
}

#[test]
fn estimates_are_right_for_every_size() {
    const MEAN: u64 = 16 << 10;
    for (size, count) in [
        (1, 400_000),
        (16, 400_000),
        (100, 200_000),
        (1000, 40_000),
        (20_000, 4000),
        (300_000, 400),
    ] {
        let bed = bed();
        bed.stack.watch.0.start(&bed.stack, &options(MEAN)).expect("nobody is busy");
        for round in 0..count {
            on_cpu(round % 2);
            let object = alloc_leanly(&bed, size);
            free(&bed, object);
        }
        bed.stack.watch.0.stop(&bed.stack);
        let (counts, [bytes, in_use]) = read(&bed)[&(1, false)];
        let expected = (size as u64 * u64::from(count)) as f64;
        // Six standard deviations of a binomial distribution are allowed; the seed is fixed.
        let chance = 1.0 - (-(size as f64) / MEAN as f64).exp();
        let deviation = (f64::from(count) * chance * (1.0 - chance)).sqrt() * size as f64 / chance;
        let error = (bytes - expected).abs();
        assert!(
            error <= 6.0 * deviation + 0.001 * expected,
            "{count} of {size} bytes: {bytes} instead of {expected}, {deviation}"
        );
        assert_eq!(counts[0], counts[2], "all were freed");
        assert!(in_use == 0.0);
        assert_eq!(head(&bed, Head::Lost), 0);
        assert_eq!(bed.stack.validate(), Ok(()));
    }
}

#[test]
fn what_is_in_use_is_told_by_call_site() {
    let bed = bed();
    bed.stack.watch.0.start(&bed.stack, &options(4 << 10)).expect("nobody is busy");
    let mut kept = Vec::new();
    for round in 0..60_000u64 {
        SITE.set(round % 3 + 10);
        // On average twelve samples are in use at a time: the test's table has few records.
        let object = alloc_leanly(&bed, 64);
        match round % 3 {
            0 if kept.len() < 1000 => kept.push(object),
            _ => free(&bed, object),
        }
    }
    let found = read(&bed);
    let in_use = |site: u64| found[&(site, false)].1[1];
    assert!(in_use(10) > 32_000.0 && in_use(10) < 128_000.0, "{} of 64,000", in_use(10));
    assert!(in_use(11) == 0.0 && in_use(12) == 0.0);
    for site in 10..13 {
        let allocated = found[&(site, false)].1[0];
        assert!((allocated / 1_280_000.0 - 1.0).abs() < 0.3, "{site}: {allocated} of 1,280,000");
    }
    bed.stack.watch.0.stop(&bed.stack);
    SITE.set(1);
    kept.into_iter().for_each(|object| free(&bed, object));
    assert!(read(&bed)[&(10, false)].1[1] > 0.0, "frees after the end are not counted");
    let _ = bed.stack.trim();
    assert_eq!(bed.stack.validate(), Ok(()));
}

#[test]
fn a_sample_is_as_any_other_object() {
    let bed = bed();
    let sizes = [32, 49, 100, 1000, 4096, 4097, 9000, 20_481, 32_768, 32_769, 100_000, 1 << 20];
    let usual: Vec<usize> = sizes
        .iter()
        .map(|size| {
            // After some requests the class counts as used, and has slabs of its own.
            (0..20).for_each(|_| free(&bed, alloc(&bed, *size)));
            let object = alloc(&bed, *size);
            let usable = bed.stack.usable_size(object).unwrap();
            free(&bed, object);
            usable
        })
        .collect();
    // With a mean of 1 byte, one object of 32 bytes in 10^13 is no sample.
    bed.stack.watch.0.start(&bed.stack, &options(1)).expect("nobody is busy");
    let samples = || head(&bed, Head::Samples);
    for (size, usual) in sizes.into_iter().zip(usual) {
        let before = samples();
        let object = alloc(&bed, Request::of(size).zeroed());
        assert_eq!(samples(), before + 1, "{size} bytes");
        assert_eq!(bed.stack.usable_size(object).unwrap(), usual, "of {size}");
        assert_eq!(bed.stack.fast.usable(object), None);
        // SAFETY: the test owns the object's `usual` bytes.
        let bytes = unsafe { std::slice::from_raw_parts_mut(object.as_ptr(), usual) };
        assert!(bytes[..size].iter().all(|byte| *byte == 0), "calloc of {size}");
        bytes.fill(0xa5);
        bed.stack.demand(quarry_mm::stack::Entry::FreeSized, object, size, Some(16));
        free(&bed, object);
        let aligned = alloc(&bed, Request::of(size).aligned(8192).zeroed());
        assert!((aligned.as_ptr() as usize).is_multiple_of(8192), "{size}");
        // SAFETY: the test owns the object's `size` bytes.
        let bytes = unsafe { std::slice::from_raw_parts(aligned.as_ptr(), size) };
        assert!(bytes.iter().all(|byte| *byte == 0), "aligned calloc of {size}");
        free(&bed, aligned);
    }
    bed.stack.watch.0.stop(&bed.stack);
    let (counts, _) = read(&bed)[&(1, false)];
    assert_eq!(counts[..2], counts[2..], "all were freed");
    assert_eq!(bed.stack.stats().wrong_sizes, 0);
    assert_eq!(bed.stack.validate(), Ok(()));
}

#[test]
fn realloc_moves_samples_and_makes_new_ones() {
    let bed = bed();
    bed.stack.watch.0.start(&bed.stack, &options(1)).expect("nobody is busy");
    let mut object = alloc(&bed, 40);
    let mut size = 40;
    // The object grows up to a mapping and shrinks again; each step keeps the contents.
    let up = (0..60).map(|step| 40 + step * step * step * 30);
    let steps: Vec<usize> = up.clone().chain(up.rev()).collect();
    for (step, new) in steps.into_iter().enumerate() {
        let kept = size.min(new);
        // SAFETY: the object has `size` bytes, and only the test uses it.
        unsafe {
            object.as_ptr().write_bytes(step as u8, size);
            object = bed.stack.realloc(object, new).expect("there is memory");
            let held = std::slice::from_raw_parts(object.as_ptr(), kept);
            assert!(held.iter().all(|byte| *byte == step as u8), "{size} to {new} bytes");
        }
        size = new;
        if step % 10 == 0 {
            assert_eq!(bed.stack.validate(), Ok(()));
            let [allocated, _, freed, _] = read(&bed)[&(1, false)].0;
            assert_eq!(allocated, freed + 1, "one object is in use");
        }
    }
    free(&bed, object);
    let (counts, _) = read(&bed)[&(1, false)];
    assert_eq!(counts[..2], counts[2..], "all were freed");
    bed.stack.watch.0.stop(&bed.stack);
    assert_eq!(bed.stack.validate(), Ok(()));
}

/// The checks look for a record of every allocation that is no sample, so when `realloc` turns a
/// sample into another allocation, it has to make a record.
#[test]
fn realloc_of_samples_agrees_with_the_checks() {
    let mut checked = options_of_heap();
    checked.checks = CheckOptions { harden: true, ..CheckOptions::OFF };
    let bed = bed_of(&checked);
    for new in [100, 40_000, 90_000, 110_000, 300_000, 700_000, 3 << 20] {
        for old in [40, 50_000, 100_000, 1_000_000, 2 << 20] {
            bed.stack.watch.0.start(&bed.stack, &options(1)).expect("nobody is busy");
            let object = alloc(&bed, old);
            bed.stack.watch.0.stop(&bed.stack);
            // SAFETY: only the test uses the object.
            let object = unsafe { bed.stack.realloc(object, new).expect("there is memory") };
            free(&bed, object);
        }
    }
}

#[test]
fn samples_outlive_their_profile_and_change_no_other() {
    let bed = bed();
    bed.stack.watch.0.start(&bed.stack, &options(1)).expect("nobody is busy");
    let old: Vec<_> = [40, 5000, 200_000, 3 << 20].map(|size| alloc(&bed, size)).into();
    bed.stack.watch.0.stop(&bed.stack);
    let usable: Vec<_> = old.iter().map(|object| bed.stack.usable_size(*object).unwrap()).collect();
    bed.stack.watch.0.start(&bed.stack, &options(1)).expect("nobody is busy");
    assert_eq!(read(&bed).len(), 0, "a new profile begins with nothing");
    let new = alloc(&bed, 40);
    for (object, usable) in old.into_iter().zip(usable) {
        assert_eq!(bed.stack.usable_size(object).unwrap(), usable);
        free(&bed, object);
    }
    assert_eq!(read(&bed)[&(1, false)].0[..3], [1, 40, 0], "the frees belong to the first one");
    bed.stack.watch.0.stop(&bed.stack);
    free(&bed, new);
    let object = alloc(&bed, 40);
    free(&bed, object);
    assert_eq!(bed.stack.fast.alloc(40), Some(object), "the fast path serves again");
    free(&bed, object);
    let _ = bed.stack.trim();
    assert_eq!(bed.stack.validate(), Ok(()));
}

#[test]
fn frees_are_traced_where_that_is_asked_for() {
    let bed = bed();
    bed.stack
        .watch
        .0
        .start(&bed.stack, &ProfileOptions { kind: ProfileKind::Frees, ..options(1) })
        .expect("nobody is busy");
    SITE.set(70);
    let objects: Vec<_> = (0..5).map(|_| alloc(&bed, 100)).collect();
    SITE.set(80);
    objects.into_iter().for_each(|object| free(&bed, object));
    SITE.set(1);
    let found = read(&bed);
    assert_eq!(found[&(70, false)].0, [5, 500, 5, 500]);
    assert_eq!(found[&(80, true)].0, [5, 500, 0, 0]);
    bed.stack.watch.0.stop(&bed.stack);
}

#[test]
fn what_finds_no_room_is_counted_and_served_all_the_same() {
    let bed = bed();
    bed.stack.watch.0.start(&bed.stack, &options(1)).expect("nobody is busy");
    // More call sites than there are buckets; all objects are freed.
    for site in 0..2 * BUCKETS as u64 {
        SITE.set(100 + site);
        let object = alloc(&bed, 100);
        free(&bed, object);
    }
    assert!(head(&bed, Head::Lost) > 0 && head(&bed, Head::Samples) > 0);
    bed.stack.watch.0.stop(&bed.stack);
    SITE.set(1);
    bed.stack.watch.0.start(&bed.stack, &options(1)).expect("nobody is busy");
    // (When another crate runs this test, the tables have their full size.)
    let count = if cfg!(debug_assertions) { MOST_RECORDS + 100 } else { MOST_RECORDS + 10 };
    let objects: Vec<_> = (0..count).map(|_| alloc(&bed, 40)).collect();
    assert_eq!(head(&bed, Head::Lost), (count - (MOST_RECORDS - 1)) as u64);
    let ([allocated, _, freed, _], _) = read(&bed)[&(1, false)];
    assert_eq!(allocated - freed, MOST_RECORDS as u64 - 1, "what is lost is not in use");
    objects.into_iter().for_each(|object| free(&bed, object));
    bed.stack.watch.0.stop(&bed.stack);
    assert_eq!(bed.stack.validate(), Ok(()));
}

#[test]
fn threads_switch_it_while_others_allocate() {
    let bed = bed();
    let rounds = 300;
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for cpu in 0..3u64 {
            let (bed, is_over) = (&bed, &is_over);
            scope.spawn(move || {
                on_cpu(cpu as u32);
                SITE.set(200 + cpu);
                let mut held = std::collections::VecDeque::new();
                let mut step = cpu as usize;
                while !is_over.load(Ordering::Relaxed) {
                    step += 1;
                    held.push_back(alloc_leanly(bed, step * 37 % 9000));
                    if held.len() > 40 {
                        free(bed, held.pop_front().expect("not empty"));
                    }
                }
                held.into_iter().for_each(|object| free(bed, object));
            });
        }
        let mut busy = 0;
        for _ in 0..rounds {
            match bed.stack.watch.0.start(&bed.stack, &options(64)) {
                Ok(()) => {}
                Err(Busy) => busy += 1,
            }
            std::thread::yield_now();
            bed.stack.watch.0.stop(&bed.stack);
        }
        assert!(busy < rounds, "it was on at least once");
        is_over.store(true, Ordering::Relaxed);
    });
    let _ = bed.stack.trim();
    assert_eq!(bed.stack.validate(), Ok(()));
    for ([allocated, bytes, freed, freed_bytes], _) in read(&bed).into_values() {
        assert!(freed <= allocated && freed_bytes <= bytes);
    }
}
