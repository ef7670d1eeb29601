//! Groups of CPUs, each with a shard of every cache: its slabs and its barn.

use crate::policies::{random_operations_on_nodes, random_operations_with};
use crate::sparse::rest;
use crate::support::{Backing, Bed, VirtualConfig, on_cpu, small};
use crate::threads::{Config, exchange_in};
use quarry_mm::frame::MetadataKind;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::pcp::V6_18;
use quarry_mm::slab::{CacheId, CacheOptions, CacheParams, PolicyOptions, Sheaf};
use quarry_mm::stack::{ReclaimState, StackHost};
use quarry_sys::percpu::{NativeSlots, Object};

/// So many objects that most of them are in slabs, not in arrays or barns, once they are freed.
const MANY: usize = 60_000;

/// Four CPUs in two groups: 0 and 2, 1 and 3.
struct Machine {
    bed: Bed<VirtualConfig<Sheaf>>,
    cache: CacheId,
}

fn options(splits: u32) -> StackOptions {
    let mut options = StackOptions { slab: PolicyOptions(splits), ..small() };
    options.pages.reserve_bytes = 256 << 20;
    options
}

impl Machine {
    fn new(splits: u32) -> Self {
        let bed = Bed::new(Backing::Linux, 4096, 4, &options(splits));
        let params = CacheParams { size: 256, align: 16 };
        let cache = bed.stack.create_cache("shared", &params, &CacheOptions::default());
        let shards = bed.stack.stats().metadata_bytes(MetadataKind::CpuSlabs);
        assert_eq!(splits > 0, shards > 0, "{shards} bytes of shards");
        Self { cache: cache.expect("there is room"), bed }
    }

    fn alloc(&self, cpu: u32, count: usize) -> Vec<Object> {
        on_cpu(cpu);
        let alloc = || self.bed.stack.cache(self.cache).alloc().expect("there is memory");
        (0..count).map(|_| alloc()).collect()
    }

    fn free(&self, cpu: u32, objects: impl IntoIterator<Item = Object>) {
        on_cpu(cpu);
        for object in objects {
            // SAFETY: the object came from this cache, and only the caller knew it.
            unsafe { self.bed.stack.cache(self.cache).free(object) };
        }
    }

    fn slabs_made(&self) -> u64 {
        self.bed.stack.cache(self.cache).stats().slabs_allocated
    }

    fn finish(self) {
        assert_eq!(self.bed.stack.validate(), Ok(()));
        self.bed.assert_empty(&[self.cache]);
    }
}

/// A group makes no slab while another one has free objects, in its barn or in its slabs.
#[test]
fn a_group_takes_what_another_has_before_it_makes_slabs() {
    let machine = Machine::new(1);
    // Three quarters go back, from each slab, so slabs of all lists change their owner later.
    let (kept, freed): (Vec<_>, Vec<_>) =
        machine.alloc(0, MANY).into_iter().enumerate().partition(|(number, _)| number % 4 == 0);
    machine.free(0, freed.into_iter().map(|(_, object)| object));
    assert_eq!(machine.bed.stack.validate(), Ok(()));
    let made = machine.slabs_made();
    let again = machine.alloc(1, MANY / 2);
    assert_eq!(machine.slabs_made(), made, "slabs were made although objects were free");
    assert_eq!(machine.bed.stack.validate(), Ok(()));
    machine.free(3, kept.into_iter().map(|(_, object)| object));
    machine.free(2, again);
    machine.finish();
}

/// Each object goes back to its slab, whichever group frees it, and all memory goes back at rest.
#[test]
fn objects_that_change_groups_cost_no_memory() {
    for splits in [0, 1] {
        let machine = Machine::new(splits);
        let mut made = Vec::new();
        for round in 0..6 {
            let objects = machine.alloc(round % 4, MANY);
            machine.free((round + 1) % 4, objects);
            assert_eq!(machine.bed.stack.validate(), Ok(()));
            made.push(machine.bed.stack.cache(machine.cache).stats().total_slabs);
        }
        let most = made[0] + made[0] / 8;
        assert!(made.iter().all(|slabs| *slabs <= most), "{splits} splits: {made:?} slabs");
        machine.finish();
    }
}

/// At rest every shard gives its objects and slabs back, and the CPUs form one group again.
#[test]
fn a_look_at_idle_groups_empties_their_shards() {
    let machine = Machine::new(1);
    for cpu in 0..4 {
        let objects = machine.alloc(cpu, MANY / 4);
        machine.free((cpu + 1) % 4, objects);
    }
    let mut state = ReclaimState::new();
    (0..3).for_each(|_| {
        machine.bed.stack.look(&mut state, 0, 0);
    });
    let stats = machine.bed.stack.cache(machine.cache).stats();
    assert_eq!((stats.parked_objects, stats.total_slabs), (0, 0), "{stats:?}");
    // One group: what CPU 0 frees past its array is in the barn of CPU 1.
    machine.free(0, machine.alloc(0, 4000));
    let locked = || machine.bed.stack.cache(machine.cache).stats().barns[0].lock.acquisitions;
    let made = machine.slabs_made();
    let before = locked();
    machine.free(1, machine.alloc(1, 2000));
    assert!(locked() > before + 2 && machine.slabs_made() == made);
    machine.finish();
}

/// The walk through sparse slabs visits the slabs of every shard.
#[test]
fn pages_of_every_shard_go_back() {
    let bytes = [0, 1].map(|splits| {
        let machine = Machine::new(splits);
        let mut kept = Vec::new();
        for cpu in 0..4 {
            for (number, object) in machine.alloc(cpu, MANY / 4).into_iter().enumerate() {
                match number % 96 {
                    0 => kept.push(object),
                    _ => machine.free(cpu, [object]),
                }
            }
        }
        let purged = rest(&machine.bed, &mut ReclaimState::new());
        machine.free(0, kept);
        machine.finish();
        purged
    });
    assert!(bytes[0] > 1 << 20, "{bytes:?}");
    assert!(bytes[1] >= bytes[0] * 3 / 4, "two groups gave back less than one: {bytes:?} bytes");
}

/// Threads that trade objects, on the CPUs of this machine, while another gives memory back.
#[test]
fn threads_in_groups_lose_no_object() {
    let splits = PolicyOptions(2);
    exchange_in::<Config<NativeSlots, Sheaf>>(4, 1, 1, V6_18, splits);
    exchange_in::<Config<NativeSlots, Sheaf>>(4, 0, 2, V6_18, splits);
}

#[test]
fn random_operations_in_groups() {
    (1..=2).for_each(|splits| random_operations_with::<Sheaf>(&options(splits), 4));
}

#[test]
fn random_operations_in_groups_of_nodes() {
    random_operations_on_nodes::<Sheaf>(PolicyOptions(1), 2);
}
