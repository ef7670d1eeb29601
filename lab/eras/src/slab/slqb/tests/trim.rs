//! Trimming, on a clock that the tests set.

use super::bed::Bed;
use crate::pages::tests::TINY;
use crate::slab::slqb::trim::TRIM_NS;
use crate::slab::tests::on_cpu;
use quarry_sys::clock::coarse_ns;
use quarry_sys::primitive::Ordering::Relaxed;

const START: u64 = 1_000_000_000;
/// The size of an object in bytes; a batch has 128 such objects.
const SIZE: usize = 2048;

fn trim(bed: &Bed, now_ns: u64) -> bool {
    bed.own(|own| own.trim_all(now_ns, false))
}

/// A list gives up one batch every three seconds, not earlier; its CPU keeps the other objects.
#[test]
fn a_list_gives_up_a_batch_every_three_seconds() {
    let bed = Bed::new(SIZE, &TINY);
    bed.free(0, bed.alloc(0, 300));
    on_cpu(3);
    // The first slow path has read the real clock; from here on the test sets the time.
    bed.list(0).trimmed_ns.store(START, Relaxed);
    assert!(!trim(&bed, START + TRIM_NS - 1));
    assert_eq!(bed.level(0), 300);
    for (trims, left) in [(1, 172), (2, 44), (3, 0)] {
        let now_ns = START + trims * TRIM_NS;
        assert!(trim(&bed, now_ns));
        assert!(!trim(&bed, now_ns + TRIM_NS - 1), "not twice");
        let stats = bed.stats();
        assert_eq!(stats.parked_objects, left, "after {trims} trims");
        assert_eq!(stats.total_slabs, left / 2);
        assert_eq!(bed.list(0).must_check(), left > 0, "its CPU finds the rest");
        bed.validate();
    }
    bed.finish();
}

/// A CPU whose list was trimmed uses the remaining objects of the list.
#[test]
fn a_trimmed_cpu_claims_the_rest_of_its_list() {
    let bed = Bed::new(SIZE, &TINY);
    bed.free(0, bed.alloc(0, 300));
    bed.list(0).trimmed_ns.store(START, Relaxed);
    assert!(trim(&bed, START + TRIM_NS));
    bed.list(0).trimmed_ns.store(coarse_ns(), Relaxed);
    let slabs = bed.stats().slabs_allocated;
    let again = bed.alloc(0, 172);
    assert_eq!((bed.stats().slabs_allocated, bed.stats().refills), (slabs, 1));
    bed.free(0, again);
    bed.finish();
}

/// A trim sends home the objects that a CPU has gathered, even if they are few. It sets no check
/// flag, because they are less than a batch.
#[test]
fn gathered_objects_go_home() {
    let bed = Bed::new(SIZE, &TINY);
    let mut all = bed.alloc(0, 516).into_iter();
    let own_objects = bed.alloc(1, 5);
    // First 512 objects of CPU 0's slabs, then five of CPU 1's own slabs: the batch has both.
    bed.free(1, all.by_ref().take(512));
    bed.free(1, own_objects);
    let gathered = bed.list(1).nr_outgoing();
    assert!(gathered > 0 && gathered < 128, "{gathered}");
    bed.list(1).trimmed_ns.store(START, Relaxed);
    bed.list(0).trimmed_ns.store(START + 1, Relaxed);
    assert!(trim(&bed, START + TRIM_NS));
    assert_eq!(bed.list(1).nr_outgoing(), 0, "also what this trim has gathered since");
    bed.validate();
    bed.free(0, all);
    bed.finish();
}

/// A CPU that takes a slow path when its list is due trims its own list.
#[test]
fn a_slow_path_trims_its_own_list() {
    let bed = Bed::new(SIZE, &TINY);
    let held = bed.alloc(0, 200);
    let (some, rest) = held.split_at(150);
    bed.free(0, some.iter().copied());
    assert_eq!(bed.level(0), 150);
    bed.list(0).trimmed_ns.store(coarse_ns().saturating_sub(2 * TRIM_NS).max(1), Relaxed);
    // An allocation takes the fast path: nothing is trimmed.
    let one = bed.alloc(0, 1);
    assert_eq!(bed.level(0), 149);
    bed.own(|own| own.trim_if_due(quarry_sys::percpu::SlotIndex(0)));
    assert_eq!(bed.level(0), 149 - 128);
    bed.own(|own| own.trim_if_due(quarry_sys::percpu::SlotIndex(0)));
    assert_eq!(bed.level(0), 149 - 128, "not twice");
    bed.validate();
    bed.free(0, one.into_iter().chain(rest.iter().copied()));
    bed.finish();
}

/// A cache that no thread uses is trimmed again and again until it has given back everything.
#[test]
fn an_idle_cache_is_not_forgotten() {
    let bed = Bed::new(SIZE, &TINY);
    bed.free(0, bed.alloc(0, 100));
    bed.list(0).trimmed_ns.store(START, Relaxed);
    let look = |now_ns| bed.own(|own| own.trim_all(now_ns, true));
    assert!(look(START + 1), "it waits for its time");
    assert!(look(START + TRIM_NS));
    assert_eq!(bed.stats().parked_objects, 0);
    assert!(!look(START + TRIM_NS + 1), "nothing is left to wait for");
    bed.finish();
}
