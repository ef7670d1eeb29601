//! Properties of `slam` alone: traffic leads to each mode and out of it, the modes differ in their
//! effects, and each fixed mode passes the suite of all policies.

use crate::policies;
use crate::support::{Backing, Bed, VirtualConfig, fix_slam_mode, on_cpu, small};
use quarry_eras::slab::{Slam, SlamMode};
use quarry_mm::frame::MetadataKind;
use quarry_mm::slab::{CacheId, CacheOptions, CacheParams, SlabStats};
use quarry_mm::stack::{ReclaimState, Report, Section, StackHost};
use quarry_sys::percpu::{Object, VirtualSlots};

type SlamBed = Bed<VirtualConfig<Slam>>;

const SIZE: usize = 64;
/// More objects than a CPU's array and the barn hold together.
const LONG: usize = 16_384;
/// More objects than the largest array holds, and far fewer than a barn holds.
const SHORT: usize = 4600;

/// A bed of two CPUs with one cache.
fn bed() -> (SlamBed, CacheId) {
    on_cpu(0);
    let bed = SlamBed::new(Backing::Fake, 4096, 2, &small());
    let id = bed.stack.create_cache(
        "test",
        &CacheParams { size: SIZE, align: 16 },
        &CacheOptions::default(),
    );
    (bed, id.expect("a cache"))
}

fn allocate(bed: &SlamBed, id: CacheId, count: usize) -> Vec<Object> {
    (0..count).map(|_| bed.stack.cache(id).alloc().expect("there is memory")).collect()
}

fn free(bed: &SlamBed, id: CacheId, objects: Vec<Object>) {
    for object in objects {
        // SAFETY: the tests free only objects that they have allocated, and each object once.
        unsafe { bed.stack.cache(id).free(object) };
    }
}

/// `count` bursts of `objects` objects on the running CPU.
fn bursts(bed: &SlamBed, id: CacheId, count: usize, objects: usize) {
    for _ in 0..count {
        free(bed, id, allocate(bed, id, objects));
    }
}

/// CPU 0 allocates objects, and CPU 1 frees them.
fn hand_over(bed: &SlamBed, id: CacheId, rounds: usize) {
    for _ in 0..rounds {
        on_cpu(0);
        let objects = allocate(bed, id, 1024);
        on_cpu(1);
        free(bed, id, objects);
    }
}

fn stats(bed: &SlamBed, id: CacheId) -> SlabStats {
    bed.stack.cache(id).stats()
}

/// How often `work` takes the locks of barn and slabs (the statistics take each lock once more).
fn locks(bed: &SlamBed, id: CacheId, work: impl FnOnce()) -> (u64, u64) {
    let of = |stats: SlabStats| (stats.barn_lock.acquisitions, stats.list_lock.acquisitions);
    let before = of(stats(bed, id));
    work();
    let after = of(stats(bed, id));
    (after.0 - before.0 - 1, after.1 - before.1 - 1)
}

#[test]
fn long_bursts_come_back_without_a_lock() {
    let (bed, id) = bed();
    let (barn, slabs) = locks(&bed, id, || bursts(&bed, id, 2, LONG));
    assert!(barn > 50 && slabs > 0, "mode array at first: {barn} and {slabs}");
    bursts(&bed, id, 2, LONG);
    assert_eq!(stats(&bed, id).mode_changes, 1, "linked");
    bursts(&bed, id, 1, LONG);
    assert_eq!(locks(&bed, id, || bursts(&bed, id, 4, LONG)), (0, 0));
    assert_eq!(bed.stack.validate(), Ok(()));
    // After a few short bursts, surplus objects go to the barn again.
    bursts(&bed, id, 1, SHORT);
    assert_eq!(stats(&bed, id).mode_changes, 1, "one look does not decide");
    bursts(&bed, id, 10, SHORT);
    assert_eq!(stats(&bed, id).mode_changes, 2, "array");
    let before = stats(&bed, id).barns[0].objects;
    free(&bed, id, allocate(&bed, id, 2 * LONG));
    assert!(stats(&bed, id).barns[0].objects > before);
    assert_eq!(bed.stack.validate(), Ok(()));
    bed.assert_empty(&[id]);
}

#[test]
fn what_one_cpu_frees_goes_to_the_one_that_allocates() {
    let (bed, id) = bed();
    let (barn, _) = locks(&bed, id, || hand_over(&bed, id, 2));
    assert!(barn > 16, "mode array: {barn}");
    hand_over(&bed, id, 8);
    assert_eq!(stats(&bed, id).mode_changes, 1, "CPU 1 is remote, CPU 0 is not");
    let before = stats(&bed, id).slabs_allocated;
    assert_eq!(locks(&bed, id, || hand_over(&bed, id, 10)), (0, 0));
    assert_eq!(stats(&bed, id).slabs_allocated, before, "all of it comes back");
    assert_eq!(bed.stack.validate(), Ok(()));
    // CPU 1 begins to allocate as well.
    bursts(&bed, id, 12, 2000);
    assert_eq!(stats(&bed, id).mode_changes, 2, "array");
    assert_eq!(bed.stack.validate(), Ok(()));
    bed.assert_empty(&[id]);
}

/// An inbox that its CPU does not empty takes no more than SLQB's high water mark.
#[test]
fn an_inbox_is_bounded() {
    let (bed, id) = bed();
    hand_over(&bed, id, 10);
    on_cpu(0);
    let objects = allocate(&bed, id, 2 * LONG);
    let parked = stats(&bed, id).parked_objects;
    on_cpu(1);
    free(&bed, id, objects);
    let after = stats(&bed, id);
    assert!(after.barns[0].objects >= 2048, "the rest is where every CPU finds it: {after:?}");
    assert!(after.parked_objects - parked <= 8192 + 1024 + 256, "{after:?}");
    assert_eq!(bed.stack.validate(), Ok(()));
    bed.assert_empty(&[id]);
}

/// Each cache has its own mode on each CPU.
#[test]
fn caches_and_cpus_have_modes_of_their_own() {
    let (bed, id) = bed();
    let other = bed.stack.create_cache(
        "other",
        &CacheParams { size: 192, align: 16 },
        &CacheOptions::default(),
    );
    let other = other.expect("a cache");
    bursts(&bed, id, 6, LONG);
    bursts(&bed, other, 20, SHORT);
    on_cpu(1);
    bursts(&bed, id, 20, SHORT);
    assert_eq!((stats(&bed, id).mode_changes, stats(&bed, other).mode_changes), (1, 0));
    bed.assert_empty(&[id, other]);
}

/// A cache that takes the number of an earlier cache starts in mode array, with counts of 0.
#[test]
fn a_number_that_is_used_again_starts_anew() {
    let (bed, id) = bed();
    bursts(&bed, id, 6, LONG);
    hand_over(&bed, id, 10);
    assert!(stats(&bed, id).mode_changes > 0);
    // SAFETY: the test has one thread, and uses no object any more.
    assert_eq!(unsafe { bed.stack.destroy_cache(id) }, Ok(()));
    let again = bed.stack.create_cache(
        "again",
        &CacheParams { size: SIZE, align: 16 },
        &CacheOptions::default(),
    );
    assert_eq!(again, Ok(id), "the number is free");
    let new = stats(&bed, id);
    assert_eq!((new.allocs(), new.frees(), new.mode_changes), (0, 0, 0), "{new:?}");
    let objects = allocate(&bed, id, LONG);
    free(&bed, id, objects);
    let counts = stats(&bed, id);
    assert_eq!((counts.allocs(), counts.frees()), (LONG as u64, LONG as u64), "{counts:?}");
    bed.assert_empty(&[id]);
}

#[test]
fn every_mode_alone_agrees_with_the_oracle() {
    for mode in [SlamMode::Array, SlamMode::Linked, SlamMode::Remote] {
        fix_slam_mode(Some(mode));
        // A CPU that is always linked keeps objects that other CPUs need, up to the bound of
        // stocks, so the suite expects no sharing. For this reason modes change.
        if mode != SlamMode::Linked {
            policies::frees_elsewhere::<Slam>();
        }
        for slots in [1, 2, 64] {
            policies::random_operations::<Slam>(slots);
        }
        policies::sizes_and_alignments::<Slam>();
        policies::bulk::<Slam>();
        policies::impossible::<Slam>();
    }
}

#[test]
fn a_fixed_mode_is_not_left() {
    for (mode, changes) in [("array", 0), ("linked", 1), ("remote", 1), ("auto", 2)] {
        let mut options = small();
        options.set_slab::<VirtualSlots, Slam>("SLAM_MODE", mode).expect("it is accepted");
        options.set_slab::<VirtualSlots, Slam>("SLAB_WITHOUT", "merging").expect("it is accepted");
        on_cpu(0);
        let bed = SlamBed::new(Backing::Fake, 4096, 2, &options);
        let params = CacheParams { size: SIZE, align: 16 };
        let id =
            bed.stack.create_cache("test", &params, &CacheOptions::default()).expect("a cache");
        bursts(&bed, id, 6, LONG);
        bursts(&bed, id, 20, SHORT);
        assert_eq!(stats(&bed, id).mode_changes, changes, "{mode}");
        bed.assert_empty(&[id]);
    }
}

/// Stocks give back the objects that their CPU has not needed since the last look, and all objects
/// once the cache is idle.
#[test]
fn stocks_go_back_when_they_are_not_needed() {
    let (bed, id) = bed();
    bursts(&bed, id, 6, LONG);
    let mut state = ReclaimState::new();
    let parked = || stats(&bed, id).parked_objects;
    assert!(parked() >= LONG as u64);
    bed.stack.look(&mut state, 0, 0);
    // The CPU is busy, but needs far fewer objects.
    bursts(&bed, id, 2, 200);
    bed.stack.look(&mut state, 0, 0);
    bursts(&bed, id, 2, 200);
    bed.stack.look(&mut state, 0, 0);
    assert!(parked() < LONG as u64 / 2, "{} are parked", parked());
    bed.stack.look(&mut state, 0, 0);
    assert_eq!(parked(), 0, "an idle cache keeps nothing");
    assert_eq!(bed.stack.validate(), Ok(()));
    bed.assert_empty(&[id]);
}

/// A bound holds for all stocks together, as for barns.
#[test]
fn stocks_are_bounded() {
    fix_slam_mode(Some(SlamMode::Linked));
    let mut options = small();
    options.pages.reserve_bytes = 256 << 20;
    on_cpu(0);
    let bed = SlamBed::new(Backing::Fake, 4096, 2, &options);
    let params = CacheParams { size: 4096, align: 16 };
    let id = bed.stack.create_cache("test", &params, &CacheOptions::default()).expect("a cache");
    let objects = allocate(&bed, id, 20_000);
    free(&bed, id, objects);
    let parked = stats(&bed, id).parked_objects as usize * 4096;
    assert!(parked <= 40 << 20, "{} MiB are parked", parked >> 20);
    assert_eq!(bed.stack.validate(), Ok(()));
    bed.assert_empty(&[id]);
}

#[test]
fn its_metadata_is_counted_where_it_is_used() {
    let (bed, id) = bed();
    let bytes = bed.stack.stats().metadata_bytes(MetadataKind::CpuSlabs);
    // Two slots, 128 bytes for each cache, and the table of owners.
    assert_eq!(bytes, 2 * 128 + 2 + (16 << 10));
    let text = Report { stack: &bed.stack, sections: Section::ALL }.to_string();
    assert!(text.contains("slab policy 0.000 bytes per committed 4 KiB frame"), "{text}");
    bed.assert_empty(&[id]);
}
