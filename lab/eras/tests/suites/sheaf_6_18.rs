//! Tests of `sheaf-6.18` alone: which sheaf `main` is exchanged with, and when.

use crate::support::{Backing, Bed, CacheBed, on_cpu, small};
use quarry_eras::slab::KernelSheaf;
use quarry_mm::frame::{MetadataKind, NodeId};
use quarry_mm::slab::{CacheOptions, CacheParams, SlabPolicy};
use quarry_mm::stack::StackHost;
use quarry_sys::percpu::{SlotIndex, VirtualSlots};

/// Objects of a sheaf, and the most full sheaves of a barn (Linux 6.18).
const SHEAF: usize = 32;
const MOST_FULL: usize = 10;

/// Four CPUs of one node; or of two nodes, with CPUs 2 and 3 of node 1.
type Machine = CacheBed<KernelSheaf>;

impl Machine {
    fn new(nodes: u8, size: usize) -> Self {
        let mut options = small();
        options.pages.reserve_bytes = 256 << 20;
        options.pages.nodes = nodes;
        if nodes > 1 {
            options.pages.node_of_slot = |slot: SlotIndex| NodeId(slot.0 as u8 / 2);
        }
        Self::on(Bed::new(Backing::Fake, 4096, 4, &options), size)
    }

    /// Full sheaves in the barn of node 0.
    fn full(&self) -> u64 {
        self.stats().barns[0].objects / SHEAF as u64
    }

    fn barn_locks(&self) -> u64 {
        self.stats().barn_lock.acquisitions
    }

    /// How often the list lock of the slabs was taken; each reading of the statistics takes it as
    /// well.
    fn slab_locks(&self) -> u64 {
        self.stats().list_lock.acquisitions
    }

    fn sheaf_bytes(&self) -> usize {
        self.bed.stack.stats().metadata_bytes(MetadataKind::Sheaves)
    }
}

#[test]
fn an_empty_cpu_is_filled_from_slabs_a_sheaf_at_a_time() {
    let machine = Machine::new(1, 256);
    let first = machine.alloc(1);
    assert_eq!(machine.stats().parked_objects, SHEAF as u64 - 1);
    let before = machine.slab_locks();
    let rest = machine.alloc(SHEAF - 1);
    assert_eq!(machine.slab_locks() - before, 1, "this look");
    assert_eq!(machine.stats().parked_objects, 0);
    let stats = machine.stats();
    assert_eq!((stats.alloc_fast, stats.alloc_slow), (SHEAF as u64 - 1, 1));
    assert_eq!(machine.barn_locks(), 0, "an empty barn is not locked");
    machine.finish(first.into_iter().chain(rest));
}

/// Two sheaves, `main` and `spare`, serve a CPU without the barn and without slabs.
#[test]
fn main_and_spare_are_exchanged() {
    let machine = Machine::new(1, 256);
    let mut objects = machine.alloc(2 * SHEAF);
    machine.free(objects.drain(..));
    assert_eq!((machine.full(), machine.stats().parked_objects), (0, 2 * SHEAF as u64));
    let (barn, slabs) = (machine.barn_locks(), machine.slab_locks());
    for round in 1..=5 {
        objects = machine.alloc(2 * SHEAF);
        machine.free(objects.drain(..));
        assert_eq!(machine.slab_locks() - slabs, round, "only this look, {round}");
    }
    assert_eq!(machine.barn_locks(), barn);
    machine.finish([]);
}

/// A burst fills `main`, `spare` and the barn up to ten full sheaves; further objects go to slabs,
/// a sheaf at a time: the spare sheaf is flushed and used again.
#[test]
fn a_burst_fills_the_barn_up_to_ten_sheaves() {
    let machine = Machine::new(1, 256);
    let objects = machine.alloc((MOST_FULL + 12) * SHEAF);
    let mut pieces = objects.chunks(SHEAF);
    let mut free = |machine: &Machine| {
        machine.free(pieces.next().expect("enough pieces").iter().copied());
    };
    free(&machine);
    free(&machine);
    assert_eq!(machine.full(), 0, "main and spare hold two sheaves");
    for full in 1..=MOST_FULL as u64 {
        let locks = machine.barn_locks();
        free(&machine);
        assert_eq!(machine.full(), full);
        let taken = machine.barn_locks() - locks;
        assert_eq!(taken, 1, "one critical section for a sheaf, the {full}th");
        assert_eq!(machine.bed.stack.validate(), Ok(()));
    }
    let bytes = machine.sheaf_bytes();
    for _ in 0..8 {
        let (barn, slabs) = (machine.barn_locks(), machine.slab_locks());
        free(&machine);
        assert_eq!(machine.full(), MOST_FULL as u64);
        assert_eq!(machine.barn_locks(), barn, "a look at a full barn takes no lock");
        assert_eq!(machine.slab_locks() - slabs, 1 + 3, "one flush of a sheaf, and three looks");
    }
    assert_eq!(machine.sheaf_bytes(), bytes, "the flushed sheaf is used again");
    let left: Vec<_> = pieces.flatten().copied().collect();
    machine.finish(left);
}

/// Objects that one CPU frees reach another CPU through the barn, one sheaf in each critical
/// section. The emptied sheaves stay in the barn for the next burst.
#[test]
fn sheaves_travel_through_the_barn() {
    let machine = Machine::new(1, 256);
    let mut objects = machine.alloc((2 + MOST_FULL) * SHEAF);
    machine.free(objects.drain(..));
    assert_eq!(machine.full(), MOST_FULL as u64);
    let (bytes, slabs) = (machine.sheaf_bytes(), machine.stats().slabs_allocated);
    on_cpu(1);
    for left in (0..MOST_FULL as u64).rev() {
        let locks = machine.barn_locks();
        objects.extend(machine.alloc(SHEAF));
        assert_eq!((machine.full(), machine.barn_locks() - locks), (left, 1));
    }
    assert_eq!(machine.bed.stack.validate(), Ok(()));
    assert_eq!(machine.stats().slabs_allocated, slabs, "no slab was needed");
    // CPU 1 fills main, spare, and eight of the ten empty sheaves that are in the barn now.
    machine.free(objects.drain(..));
    assert_eq!(machine.full(), MOST_FULL as u64 - 2);
    assert_eq!(machine.sheaf_bytes(), bytes, "sheaves went round");
    machine.finish([]);
}

/// No sheaf gets lost: a cache that is used and shrunk again and again needs no more memory.
#[test]
fn the_memory_of_sheaves_is_used_again() {
    let machine = Machine::new(1, 256);
    let mut needed = None;
    for round in 0..10 {
        for cpu in 0..4 {
            on_cpu(cpu);
            let objects = machine.alloc(20 * SHEAF);
            on_cpu(cpu + round);
            machine.free(objects);
        }
        assert_eq!(machine.bed.stack.validate(), Ok(()));
        machine.bed.stack.cache(machine.cache).shrink();
        assert_eq!(machine.stats().parked_objects, 0);
        assert_eq!(machine.bed.stack.validate(), Ok(()));
        let bytes = machine.sheaf_bytes();
        // A round may have needed more sheaves than the first one, which had one CPU at a time.
        assert!(bytes <= 2 * *needed.get_or_insert(bytes), "round {round}: {bytes} bytes");
    }
    let bytes = machine.sheaf_bytes();
    let other = CacheParams { size: 512, align: 16 };
    let other =
        machine.bed.stack.create_cache("other", &other, &CacheOptions::default()).expect("a cache");
    let objects: Vec<_> = (0..2 * SHEAF)
        .map(|_| machine.bed.stack.cache(other).alloc().expect("there is memory"))
        .collect();
    for object in objects {
        // SAFETY: just allocated from this cache.
        unsafe { machine.bed.stack.cache(other).free(object) };
    }
    assert_eq!(machine.sheaf_bytes(), bytes, "another cache takes them from the pool");
    machine.finish([]);
}

/// A bulk request uses sheaves as long as the barn has full ones, then slabs.
#[test]
fn a_bulk_request_takes_what_sheaves_hold_and_then_slabs() {
    let machine = Machine::new(1, 256);
    let objects = machine.alloc(6 * SHEAF);
    // SAFETY: allocated above, freed once.
    unsafe { machine.bed.stack.free_objects(machine.cache, &objects) };
    // No sheaf is made for a bulk request: `main` takes one, the spare of the refills a second.
    assert_eq!((machine.full(), machine.stats().parked_objects), (0, 2 * SHEAF as u64));
    assert_eq!(machine.stats().free_slow, 4 * SHEAF as u64);
    let slabs = machine.slab_locks();
    let mut out = vec![std::mem::MaybeUninit::uninit(); 5 * SHEAF];
    assert_eq!(machine.bed.stack.cache(machine.cache).alloc_bulk(&mut out), out.len());
    assert_eq!(machine.slab_locks() - slabs, 2, "slabs serve the rest at once; and this look");
    assert_eq!(machine.stats().parked_objects, 0);
    // SAFETY: alloc_bulk wrote all of them.
    let objects = out.into_iter().map(|object| unsafe { object.assume_init() });
    machine.finish(objects);
}

/// An object of another node's memory goes past all sheaves to its slab.
#[test]
fn objects_of_other_nodes_bypass_sheaves() {
    let machine = Machine::new(2, 256);
    // Two slabs of node 0, then one of node 1.
    let mut others = machine.alloc(4 * SHEAF);
    on_cpu(2);
    let mut own = machine.alloc(SHEAF);
    let before = machine.stats();
    machine.free(others.drain(..3 * SHEAF));
    let after = machine.stats();
    assert_eq!(after.parked_objects, before.parked_objects, "no sheaf has taken one");
    assert_eq!(after.free_slow - before.free_slow, 3 * SHEAF as u64);
    // Both kinds in turns, by a bulk request and one by one.
    let mut mixed = || {
        let pairs = own.drain(..10).zip(others.drain(..10));
        pairs.flat_map(|(one, two)| [one, two]).collect::<Vec<_>>()
    };
    let (bulk, single) = (mixed(), mixed());
    // SAFETY: allocated here, freed once.
    unsafe { machine.bed.stack.free_objects(machine.cache, &bulk) };
    machine.free(single);
    let last = machine.stats();
    assert_eq!(last.parked_objects - after.parked_objects, 20, "its own entered main");
    assert_eq!(last.free_slow - after.free_slow, 20, "the others did not");
    assert_eq!((last.barns[0].objects, last.barns[1].objects), (0, 0));
    machine.finish(own.into_iter().chain(others));
}

/// Objects above 8 KiB have smaller sheaves, so that a sheaf is 256 KiB at most.
#[test]
fn large_objects_have_small_sheaves_or_none() {
    for (size, sheaf) in [(8 << 10, 32), (32 << 10, 8), (256 << 10, 1), (512 << 10, 0)] {
        let machine = Machine::new(1, size);
        let objects = machine.alloc(4);
        machine.free(objects);
        let parked = machine.stats().parked_objects;
        assert!(parked <= 4 * sheaf.max(1) && (parked > 0) == (sheaf > 0), "{size}: {parked}");
        machine.finish([]);
    }
}

/// A cache may ask for another capacity, even if it gets the number of a destroyed cache.
#[test]
fn a_cache_has_the_sheaves_that_it_asks_for() {
    let mut machine = Machine::new(1, 256);
    for wanted in [12, 60, 20, 0] {
        let options = CacheOptions { capacity: Some(wanted), ..CacheOptions::default() };
        let params = CacheParams { size: 128, align: 16 };
        // SAFETY: no other code uses the cache, or any part of the stack, meanwhile.
        unsafe { machine.bed.stack.destroy_cache(machine.cache) }.expect("no object is in use");
        let cache = machine.bed.stack.create_cache("asks", &params, &options);
        machine.cache = cache.expect("a cache");
        let objects = machine.alloc(1);
        // The array was laid out for the first cache of this number.
        let capacity = u64::from(wanted).min(SHEAF as u64);
        assert_eq!(machine.stats().parked_objects, capacity.saturating_sub(1), "{wanted} wanted");
        assert_eq!(machine.stats().allocs(), 1, "counts begin anew");
        machine.free(objects);
        assert_eq!(machine.bed.stack.validate(), Ok(()));
    }
    machine.finish([]);
}

/// The kernel's caches of `kmalloc` end at two pages.
#[test]
fn kmalloc_ends_where_that_of_slub_does() {
    assert_eq!(<KernelSheaf as SlabPolicy<VirtualSlots>>::LARGEST_KMALLOC, 8 << 10);
}
