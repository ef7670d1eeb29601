//! One test for each rule of the page `lab/docs/policies/slqb.md`.

use super::bed::Bed;
use crate::pages::tests::TINY;
use crate::slab::freelist::Freelist;
use crate::slab::tests::on_cpu;
use quarry_mm::frame::MetadataKind;
use quarry_mm::pcp::PageConfig;
use quarry_mm::slab::{CacheId, SlabPolicy};
use quarry_sys::percpu::{Object, SlotIndex, VirtualSlots};

/// Objects of this size: two to a slab, batches of 128, a high mark of 512.
const SIZE: usize = 2048;
const BATCH: u32 = 128;
const HIGH: usize = 512;

fn bed() -> Bed {
    let bed = Bed::new(SIZE, &TINY);
    assert_eq!(bed.own(|own| (own.freebatch(), own.hiwater())), (BATCH, HIGH as u32));
    bed
}

/// Objects that the test holds, linked.
fn linked(objects: &[Object]) -> Freelist {
    // SAFETY: the test has allocated them and uses none.
    unsafe { Freelist::linked(objects.iter().copied()) }
}

/// Frees up to the high mark are pushes; the next one flushes a batch.
#[test]
fn a_list_holds_the_high_mark_and_gives_up_a_batch_above() {
    let bed = bed();
    let all = bed.alloc(0, HIGH + 2);
    let locks = bed.page_locks(0);
    let (below, above) = all.split_at(HIGH);
    bed.free(0, below.iter().copied());
    assert_eq!((bed.level(0), bed.stats().free_slow), (HIGH as u64, 0));
    assert_eq!(bed.page_locks(0), locks, "pushes take no lock");
    bed.free(0, above[..1].iter().copied());
    let stats = bed.stats();
    assert_eq!((bed.level(0), stats.free_slow), (HIGH as u64 + 1 - u64::from(BATCH), 1));
    assert_eq!(bed.page_locks(0), locks + 1, "the objects of a batch go back in one section");
    // The batch is this object and the 127 freed last; 63 slabs have both their objects in it.
    assert_eq!(stats.slabs_freed, u64::from(BATCH) / 2 - 1, "{stats:?}");
    bed.validate();
    bed.free(0, above[1..].iter().copied());
    bed.finish();
}

/// Slabs without objects in use are freed at once; other slabs stay because of parked objects.
#[test]
fn empty_slabs_are_never_kept() {
    let bed = bed();
    for round in 1..=4 {
        let all = bed.alloc(0, round * HIGH);
        bed.free(0, all);
        bed.validate();
        let stats = bed.stats();
        assert_eq!(stats.active_slabs, stats.total_slabs);
        assert!(stats.total_slabs <= bed.level(0), "a slab for each parked object: {stats:?}");
        assert!(bed.level(0) <= HIGH as u64);
    }
    bed.finish();
}

/// An allocation takes one object of a slab; a slab without free objects leaves the partial list.
#[test]
fn an_empty_list_takes_one_object_of_the_first_partial_slab() {
    let bed = Bed::new(256, &TINY);
    let mut all = Vec::new();
    for taken in 1..=32 {
        all.extend(bed.alloc(0, 1));
        let stats = bed.stats();
        assert_eq!((stats.alloc_fast, stats.alloc_slow), (0, taken));
        assert_eq!(bed.list(0).nr_partial(), u32::from(taken % 16 != 0));
        assert_eq!(bed.list(0).free(), (16 - taken % 16) % 16);
        assert_eq!(bed.page_locks(0), taken, "each takes the lock once");
        assert_eq!(stats.slabs_allocated, taken.div_ceil(16));
    }
    bed.free(0, all);
    bed.finish();
}

/// Objects of another CPU's slabs leave the list one batch at a time, and each batch reaches that
/// CPU as a whole. If objects for more than half the high mark already wait there, the batch goes
/// into the slabs instead.
#[test]
fn a_batch_is_brought_whole_or_freed_where_many_wait() {
    let bed = bed();
    let mut all = bed.alloc(0, HIGH + 4 * BATCH as usize).into_iter();
    let locks = bed.page_locks(0);
    bed.free(1, all.by_ref().take(HIGH));
    let waiting = |bed: &Bed| (bed.list(0).nr_remote(), bed.list(0).must_check());
    assert_eq!((bed.level(1), waiting(&bed)), (HIGH as u64, (0, false)));
    for batches in 1..=3 {
        bed.free(1, all.by_ref().take(1));
        assert_eq!(waiting(&bed), (batches * BATCH, true), "the whole batch, and the flag");
        assert_eq!(bed.list(1).nr_outgoing(), 0);
        bed.free(1, all.by_ref().take(BATCH as usize - 1));
        assert_eq!(waiting(&bed), (batches * BATCH, true));
        assert_eq!(bed.level(1), HIGH as u64);
    }
    assert_eq!((bed.stats().slabs_freed, bed.page_locks(0)), (0, locks), "no slab was touched");
    bed.free(1, all.by_ref().take(1));
    assert_eq!(waiting(&bed), (3 * BATCH, true), "384 are more than 256");
    assert_eq!(bed.page_locks(0), locks + 1);
    assert!(bed.stats().slabs_freed >= u64::from(BATCH) / 2 - 1);
    bed.validate();
    let locks = bed.page_locks(0);
    // The flag is set and the list of CPU 0 is empty: all is claimed in one step.
    assert_eq!((bed.level(0), bed.list(0).claims.load(ORDER)), (0, 0));
    let one = bed.alloc(0, 1);
    assert_eq!(bed.list(0).claims.load(ORDER), 1);
    assert_eq!((bed.level(0), waiting(&bed)), (3 * u64::from(BATCH) - 1, (0, false)));
    assert_eq!(bed.page_locks(0), locks, "a claim takes no lock of slabs");
    bed.free(0, one);
    bed.free(1, all);
    bed.finish();
}

const ORDER: quarry_sys::primitive::Ordering = quarry_sys::primitive::Ordering::Relaxed;

/// Objects that wait while the flag is not set stay where they are, even if the list is empty.
#[test]
fn nothing_is_claimed_without_the_flag() {
    let bed = bed();
    let all = bed.alloc(0, 20);
    bed.own(|own| {
        own.free_to_remote(SlotIndex(1), linked(&all[..10]));
        assert_eq!((bed.list(1).nr_outgoing(), bed.list(0).nr_remote()), (10, 0));
        let (to, objects) = bed.list(1).with_outgoing(|it| (it.to, it.objects.take()));
        own.deliver(to, objects);
    });
    assert_eq!((bed.list(0).nr_remote(), bed.list(0).must_check()), (10, false));
    bed.validate();
    let slabs = bed.stats().slabs_allocated;
    let more = bed.alloc(0, 1);
    assert_eq!((bed.list(0).nr_remote(), bed.stats().refills), (10, 0));
    assert_eq!(bed.stats().slabs_allocated, slabs + 1, "a new slab was taken instead");
    bed.free(0, more);
    bed.free(0, all[10..].iter().copied());
    bed.shrink();
    bed.validate();
    assert_eq!(bed.stats().total_slabs, 0);
}

/// A CPU gathers for one other CPU at a time: before it gathers an object for a third CPU, it
/// brings the second CPU its objects.
#[test]
fn objects_are_gathered_for_one_list_at_a_time() {
    let bed = bed();
    let (of_0, of_2) = (bed.alloc(0, 6), bed.alloc(2, 6));
    let mixed: Vec<Object> = of_0[..3].iter().chain(&of_2[..2]).copied().collect();
    bed.own(|own| own.free_to_remote(SlotIndex(1), linked(&mixed)));
    assert_eq!((bed.list(0).nr_remote(), bed.list(1).nr_outgoing()), (3, 2));
    bed.validate();
    bed.own(|own| own.free_to_remote(SlotIndex(1), linked(&[of_0[3]])));
    assert_eq!((bed.list(2).nr_remote(), bed.list(1).nr_outgoing()), (2, 1));
    bed.validate();
    bed.free(0, of_0[4..].iter().chain(&of_2[2..]).copied());
    bed.shrink();
    assert_eq!(bed.stats().total_slabs, 0);
}

/// A thread that has claimed objects and wakes up on another CPU leaves them to its former CPU.
#[test]
fn a_thread_that_is_moved_leaves_its_list_to_the_owner() {
    let bed = bed();
    let all = bed.alloc(0, 12);
    on_cpu(1);
    bed.own(|own| own.leave(SlotIndex(0), linked(&all[..8])));
    assert_eq!((bed.level(0), bed.level(1)), (0, 0));
    assert_eq!((bed.list(0).nr_remote(), bed.list(0).must_check()), (8, true));
    let one = bed.alloc(0, 1);
    assert_eq!((one[0], bed.level(0)), (all[0], 7));
    bed.free(0, all[8..].iter().chain(&one).copied());
    bed.shrink();
    assert_eq!(bed.stats().total_slabs, 0);
}

/// If there is no memory for a new slab, objects of other CPUs' slabs serve the request.
#[test]
fn without_memory_other_cpus_slabs_serve() {
    let bed = Bed::new(256, &PageConfig { initial_frames: 512, grow: false, ..TINY });
    let mut all = bed.alloc(1, 1);
    on_cpu(0);
    all.extend(std::iter::from_fn(|| bed.try_alloc()));
    let stats = bed.stats();
    assert_eq!(all.len() as u64, stats.total_objects, "not one object is left");
    assert_eq!(stats.partial_slabs, 0);
    bed.free(0, all);
    bed.finish();
}

/// A cache with the number of an earlier, emptied cache starts without the state of that cache.
/// The lists of both caches count as metadata only once.
#[test]
fn a_number_that_is_used_again_starts_anew() {
    let bed = bed();
    let bytes = bed.context().metadata.bytes(MetadataKind::CpuSlabs);
    assert!(bytes > 0);
    let all = bed.alloc(0, 100);
    bed.free(1, all);
    bed.finish();
    assert_eq!(bed.policy().create(bed.context().with(bed.cache())), Ok(()));
    assert_eq!(bed.context().metadata.bytes(MetadataKind::CpuSlabs), bytes);
    let stats = bed.stats();
    assert_eq!((stats.allocs(), stats.frees(), stats.slabs_allocated), (0, 0, 0));
    let all = bed.alloc(0, 100);
    bed.free(1, all);
    bed.finish();
}

/// The metadata of the policy per frame, and per cache.
#[test]
fn its_metadata_is_counted_where_it_is_used() {
    let bed = bed();
    let headers = |bed: &Bed| bed.context().metadata.bytes(MetadataKind::SlabHeaders);
    assert_eq!(headers(&bed), 0, "no slab yet");
    let all = bed.alloc(0, 1);
    assert_eq!(<crate::slab::Slqb as SlabPolicy<VirtualSlots>>::BYTES_PER_FRAME, 8);
    assert_eq!(headers(&bed), 16 * 1024 * 8);
    let of_lists = bed.context().metadata.bytes(MetadataKind::CpuSlabs);
    assert!(of_lists <= 4 * 384 && CacheId::new(1) == bed.cache().id());
    bed.free(0, all);
    bed.finish();
}
