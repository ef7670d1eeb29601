//! Tests of `slub` alone: orders by declared CPUs, merging, partial lists, the price of its words,
//! and its two slow paths.

use crate::support::{Backing, Bed, VirtualConfig, on_cpu, small};
use quarry_eras::slab::{Mechanisms, Slub2_6_29, Slub3_0, Slub3_1, Slub4_9};
use quarry_mm::frame::MetadataKind;
use quarry_mm::heap::classes;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::{CacheId, CacheOptions, CacheParams, SlabPolicy};
use quarry_mm::stack::{Report, Section, StackHost};
use quarry_sys::percpu::{Object, VirtualSlots};

type SlubBed<S> = Bed<VirtualConfig<S>>;

/// Two CPUs, of which the formulas count 16: document 003's machine.
fn bed<S: SlabPolicy<VirtualSlots> + 'static>() -> SlubBed<S> {
    let mut options = small();
    options.pages.declared_cpus = 16;
    on_cpu(0);
    SlubBed::<S>::new(Backing::Fake, 4096, 2, &options)
}

fn cache<S: SlabPolicy<VirtualSlots> + 'static>(bed: &SlubBed<S>, size: usize) -> CacheId {
    bed.stack
        .create_cache("test", &CacheParams { size, align: 16 }, &CacheOptions::default())
        .expect("a cache")
}

fn objects<S: SlabPolicy<VirtualSlots> + 'static>(
    bed: &SlubBed<S>,
    id: CacheId,
    count: usize,
) -> Vec<Object> {
    (0..count).map(|_| bed.stack.cache(id).alloc().expect("there is memory")).collect()
}

fn free<S: SlabPolicy<VirtualSlots> + 'static>(bed: &SlubBed<S>, id: CacheId, object: Object) {
    // SAFETY: the tests free what they have allocated, once.
    unsafe { bed.stack.cache(id).free(object) };
}

#[test]
fn caches_that_lie_equally_are_one() {
    let bed = bed::<Slub4_9>();
    let create = |name, size, align| {
        bed.stack
            .create_cache(name, &CacheParams { size, align }, &CacheOptions::default())
            .expect("a cache")
    };
    let heads = create("skbuff_head_cache", 232, 64);
    let small = create("kmalloc-192", 192, 16);
    assert_eq!(bed.stack.cache(heads).label().as_bytes(), b"skbuff_head_cache");
    assert_eq!(create("kmalloc-256", 256, 16), heads, "both are 256 bytes apart");
    assert_ne!(heads, small);
    assert_eq!((bed.stack.cache(heads).aliases(), bed.stack.cache(small).aliases()), (1, 0));
    assert_eq!(bed.stack.cache(heads).label().as_bytes(), b":0000256");
    assert_eq!(bed.stack.cache(small).label().as_bytes(), b"kmalloc-192");
    assert_eq!(bed.stack.cache(heads).order().get(), 1, "document 003: slabs of two pages");
    let bad = CacheParams { size: 256, align: 24 };
    assert!(
        bed.stack.create_cache("bad", &bad, &CacheOptions::default()).is_err(),
        "an alias is checked as a cache is"
    );
}

#[test]
fn classes_of_the_heap_are_nobodys_aliases() {
    let options = StackOptions { heap: true, ..small() };
    let bed = SlubBed::<Slub4_9>::new(Backing::Fake, 4096, 1, &options);
    let (first, second) = (cache(&bed, 64), cache(&bed, 64));
    assert_eq!(first.index(), classes::COUNT + 1);
    assert_eq!(first, second);
}

#[test]
fn its_metadata_is_counted_where_it_is_used() {
    let bed = bed::<Slub4_9>();
    let headers = || bed.stack.stats().metadata_bytes(MetadataKind::SlabHeaders);
    assert_eq!((headers(), bed.stack.stats().metadata_bytes(MetadataKind::CpuSlabs)), (0, 0));
    let id = cache(&bed, 256);
    assert_eq!(headers(), 0, "no slab yet");
    assert!(bed.stack.stats().metadata_bytes(MetadataKind::CpuSlabs) > 0);
    let object = objects(&bed, id, 1)[0];
    let section = 16 * 1024 * <Slub4_9 as SlabPolicy<VirtualSlots>>::BYTES_PER_FRAME;
    assert_eq!(headers(), section);
    free(&bed, id, object);
    let text = Report { stack: &bed.stack, sections: Section::ALL }.to_string();
    assert!(text.contains("slab policy 12.000 bytes per committed 4 KiB frame"), "{text}");
    bed.assert_empty(&[id]);
    assert_eq!(headers(), section, "a section stays");
}

/// Another CPU frees objects of full slabs. Slabs without an owner go onto that CPU's partial list;
/// when the list is too long, its slabs go to the node; the node keeps five empty slabs.
#[test]
fn slabs_wait_where_the_kernel_lets_them_wait() {
    const CPU_PARTIAL: u64 = 13;
    const MIN_PARTIAL: u64 = 5;
    let bed = bed::<Slub4_9>();
    let id = cache(&bed, 256);
    let per_slab = bed.stack.cache(id).objects() as usize;
    let all = objects(&bed, id, 40 * per_slab);
    on_cpu(1);
    // Frees the first object of each slab: one slab after the other goes onto CPU 1's list.
    for (freed, object) in all.iter().step_by(per_slab).enumerate() {
        free(&bed, id, *object);
        let stats = bed.stack.cache(id).stats();
        let list_lock = stats.list_lock.acquisitions;
        assert_eq!(stats.partial_slabs, freed as u64 + 1, "{stats:?}");
        // Each reading of the statistics takes the lock as well. A partial list with 14 free
        // objects is too long, so the 15th and the 29th slab each send the 14 slabs before them to
        // the node, in one critical section.
        let drains = freed as u64 / (CPU_PARTIAL + 1);
        let looks = freed as u64 + 1;
        assert_eq!(list_lock, looks + drains, "{freed}: {stats:?}");
    }
    assert_eq!(bed.stack.validate(), Ok(()));
    for slab in all.chunks(per_slab) {
        slab[1..].iter().for_each(|object| free(&bed, id, *object));
    }
    assert_eq!(bed.stack.validate(), Ok(()));
    let stats = bed.stack.cache(id).stats();
    // CPU 0 keeps its slab, CPU 1 the slabs since its last drain, the node its minimum.
    assert_eq!(stats.active_slabs, 0, "{stats:?}");
    assert!(stats.total_slabs >= MIN_PARTIAL, "{stats:?}");
    assert!(stats.total_slabs <= 1 + CPU_PARTIAL + 1 + MIN_PARTIAL, "{stats:?}");
    // CPU 0 uses the slabs that are kept before it takes a new one.
    on_cpu(0);
    let before = stats.slabs_allocated;
    let again = objects(&bed, id, MIN_PARTIAL as usize * per_slab);
    assert_eq!(bed.stack.cache(id).stats().slabs_allocated, before, "the node's slabs serve");
    again.into_iter().for_each(|object| free(&bed, id, object));
    bed.assert_empty(&[id]);
}

/// A CPU takes all objects that others have freed into its slab in one step, without a lock.
#[test]
fn a_cpu_takes_over_what_others_free_into_its_slab() {
    let bed = bed::<Slub4_9>();
    let id = cache(&bed, 256);
    let per_slab = bed.stack.cache(id).objects() as usize;
    let mut held = objects(&bed, id, per_slab);
    let locks = |stats: quarry_mm::slab::SlabStats| stats.list_lock.acquisitions;
    let before = bed.stack.cache(id).stats();
    for round in 1..=10 {
        on_cpu(1);
        held.drain(..per_slab / 2).for_each(|object| free(&bed, id, object));
        on_cpu(0);
        held.extend(objects(&bed, id, per_slab / 2));
        let stats = bed.stack.cache(id).stats();
        assert_eq!(stats.refills, round, "{stats:?}");
        assert_eq!(locks(stats), locks(before) + round, "only this look took the lock");
        assert_eq!(stats.total_slabs, 1);
    }
    held.into_iter().for_each(|object| free(&bed, id, object));
    bed.assert_empty(&[id]);
}

/// Bulk frees put the objects of one slab back in one step.
#[test]
fn a_bulk_free_goes_slab_by_slab() {
    let bed = bed::<Slub3_0>();
    let id = cache(&bed, 256);
    let per_slab = bed.stack.cache(id).objects() as usize;
    let all = objects(&bed, id, 2 * per_slab);
    let last = objects(&bed, id, 1);
    let locks = || bed.stack.cache(id).stats().slab_lock.acquisitions;
    let before = locks();
    on_cpu(1);
    // 12 objects of two slabs in turns: each step holds the bit of one slab.
    let mixed: Vec<_> = (0..6).flat_map(|at| [all[at], all[per_slab + at]]).collect();
    // SAFETY: allocated above, freed once.
    unsafe { bed.stack.free_objects(id, &mixed) };
    assert_eq!(locks() - before, 2, "two slabs");
    assert_eq!(bed.stack.cache(id).stats().free_slow, 12);
    let rest = (6..per_slab).flat_map(|at| [all[at], all[per_slab + at]]);
    rest.chain(last).for_each(|object| free(&bed, id, object));
    bed.assert_empty(&[id]);
}

/// Frees the objects of 16 slabs on CPU 1, the first object of each slab last. Returns how often
/// CPU 1 took the list lock and slab locks, and the number of slabs that the node keeps.
fn remote_frees<S: SlabPolicy<VirtualSlots> + 'static>(without: &str) -> (u64, u64, u64) {
    let mut options = small();
    options.pages.declared_cpus = 16;
    options.slab = Mechanisms::without(without).expect("a mechanism").into();
    on_cpu(0);
    let bed = SlubBed::<S>::new(Backing::Fake, 4096, 2, &options);
    let id = cache(&bed, 256);
    let per_slab = bed.stack.cache(id).objects() as usize;
    let all = objects(&bed, id, 16 * per_slab);
    let own = objects(&bed, id, 1);
    let before = bed.stack.cache(id).stats();
    on_cpu(1);
    let (last, first): (Vec<_>, Vec<_>) =
        all.into_iter().enumerate().partition(|(at, _)| at % per_slab == 0);
    first.into_iter().chain(last).for_each(|(_, object)| free(&bed, id, object));
    let after = bed.stack.cache(id).stats();
    assert_eq!(after.free_slow - before.free_slow, 16 * per_slab as u64);
    assert_eq!(bed.stack.validate(), Ok(()));
    own.into_iter().for_each(|object| free(&bed, id, object));
    bed.assert_empty(&[id]);
    // The statistics take the list lock, too; one slab is CPU 0's.
    let list = after.list_lock.acquisitions - before.list_lock.acquisitions - 1;
    let slab = after.slab_lock.acquisitions - before.slab_lock.acquisitions;
    (list, slab, after.total_slabs - 1)
}

/// Slabs of 32 objects come onto the list by their first free, and leave it with their last one.
#[test]
fn each_era_locks_and_keeps_as_its_kernel_did() {
    // One list lock for the first object of each slab, one for the last. Every free holds a bit.
    assert_eq!(remote_frees::<Slub2_6_29>(""), (32, 512, 0));
    assert_eq!(remote_frees::<Slub3_0>(""), (32, 512, 0));
    // `min_partial` = ilog2(256) = 8: a ninth slab on the list goes with its last object.
    assert_eq!(remote_frees::<Slub3_1>(""), (32, 0, 8));
    // `min_partial` = clamp(ilog2(256) / 2, 5, 10) = 5: a fifth slab on the list goes.
    assert_eq!(remote_frees::<Slub4_9>("cpu-partial"), (32, 0, 4));
    // The 15th slab sends the CPU's 14 to the node: one list lock. The last free to each of the 14
    // takes one more; the node keeps 4 of these slabs. The last two stay on the CPU's list.
    assert_eq!(remote_frees::<Slub4_9>(""), (15, 0, 6));
}

/// The lockless slow path costs 4 bytes per frame: document 002's trade.
#[test]
fn what_the_words_cost() {
    fn bytes<S: SlabPolicy<VirtualSlots> + 'static>() -> (usize, usize) {
        let bed = bed::<S>();
        let id = cache(&bed, 256);
        let object = objects(&bed, id, 1)[0];
        free(&bed, id, object);
        let headers = bed.stack.stats().metadata_bytes(MetadataKind::SlabHeaders);
        (S::BYTES_PER_FRAME, headers / (16 * 1024))
    }
    assert_eq!([bytes::<Slub2_6_29>(), bytes::<Slub3_0>()], [(8, 8); 2]);
    assert_eq!([bytes::<Slub3_1>(), bytes::<Slub4_9>()], [(12, 12); 2]);
}

#[test]
fn kmalloc_passes_through_what_its_kernel_passed_through() {
    fn largest<S: SlabPolicy<VirtualSlots>>() -> usize {
        S::LARGEST_KMALLOC
    }
    assert_eq!(largest::<Slub2_6_29>(), 4096);
    let later = [largest::<Slub3_0>(), largest::<Slub3_1>(), largest::<Slub4_9>()];
    assert_eq!(later, [8192; 3]);
}

#[test]
fn each_mechanism_can_be_left_out() {
    for without in ["cpu-partial", "merging", "cpu-partial,merging"] {
        let mut options = small();
        options.slab = Mechanisms::without(without).expect("mechanisms").into();
        for slots in [2, 64] {
            crate::policies::random_operations_with::<Slub4_9>(&options, slots);
        }
    }
}

#[test]
fn without_merging_caches_that_lie_equally_are_two() {
    let mut options = small();
    options.slab = Mechanisms { merging: false, ..Mechanisms::ALL }.into();
    let bed = SlubBed::<Slub4_9>::new(Backing::Fake, 4096, 2, &options);
    assert_ne!(cache(&bed, 256), cache(&bed, 256));
}
