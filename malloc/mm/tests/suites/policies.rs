//! One suite for every slab policy: random operations on virtual CPUs, checked by the oracle.

use crate::support::{Backing, Bed, Oracle, VirtualConfig, check, on_cpu, small};
use proptest::prelude::*;
use quarry_mm::frame::NodeId;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::{CacheId, CacheOptions, CacheParams, PolicyOptions, SlabPolicy};
use quarry_mm::stack::StackHost;
use quarry_sys::os::OsError;
use quarry_sys::percpu::{Object, SlotIndex, VirtualSlots};
use std::mem::MaybeUninit;

/// Makes the tests of the suite for each policy.
macro_rules! stamp {
    ($($name:ident: $text:literal, $policy:ty;)*) => {$(
        mod $name {
            #[test]
            fn random_operations_agree_with_the_oracle() {
                for slots in [1, 2, 64] {
                    super::random_operations::<$policy>(slots);
                }
            }

            #[test]
            fn every_size_and_alignment_is_served() {
                super::sizes_and_alignments::<$policy>();
            }

            #[test]
            fn objects_freed_on_another_cpu_come_back() {
                super::frees_elsewhere::<$policy>();
            }

            #[test]
            fn bulk_requests_agree_with_single_ones() {
                super::bulk::<$policy>();
            }

            #[test]
            fn impossible_caches_are_refused() {
                super::impossible::<$policy>();
            }

            #[test]
            fn what_is_objects_remain_is_all_that_is_not_in_use() {
                super::objects_remain::<$policy>();
            }

            #[test]
            fn caches_of_two_nodes_and_equal_sizes_agree_with_the_oracle() {
                for nodes in [1, 2] {
                    super::random_operations_on_nodes::<$policy>(Default::default(), nodes);
                }
            }
        }
    )*};
}

slab_policies!(stamp);
stamp! { direct: "direct", crate::support::Direct; }

type PolicyBed<S> = Bed<VirtualConfig<S>>;

/// Maximum number of bytes that a random sequence holds: far fewer than 64 MiB of address space can
/// serve, so that every refusal is an error.
const MOST_BYTES: usize = 12 << 20;

#[derive(Clone, Debug)]
enum Op {
    Alloc { cache: usize },
    AllocMany { cache: usize, count: usize },
    AllocBulk { cache: usize, count: usize },
    Free { number: usize },
    FreeMany { number: usize, count: usize },
    FreeBulk { cache: usize, count: usize },
    Shrink { cache: usize },
}

/// Parameters of a new cache, from 1 byte to 32 KiB, mostly small.
fn params() -> impl Strategy<Value = CacheParams> {
    (0u32..=15, any::<u32>(), 0u32..=15).prop_map(|(bits, random, align_bits)| {
        let size = (1usize << bits) + (random as usize & ((1 << bits) - 1));
        CacheParams { size: size.min(32 << 10), align: 1 << align_bits.min(bits + 1) }
    })
}

fn step() -> impl Strategy<Value = (u32, Op)> {
    let count = prop_oneof![4 => 0usize..10, 3 => 10usize..70, 1 => 70usize..300];
    let (cache, number) = (0usize..3, any::<u16>().prop_map(usize::from));
    let some = (cache.clone(), count.clone());
    let op = prop_oneof![
        6 => cache.clone().prop_map(|cache| Op::Alloc { cache }),
        4 => some.clone().prop_map(|(cache, count)| Op::AllocMany { cache, count }),
        3 => some.prop_map(|(cache, count)| Op::AllocBulk { cache, count }),
        6 => number.clone().prop_map(|number| Op::Free { number }),
        5 => (number, count.clone()).prop_map(|(number, count)| Op::FreeMany { number, count }),
        4 => (cache.clone(), count).prop_map(|(cache, count)| Op::FreeBulk { cache, count }),
        1 => cache.prop_map(|cache| Op::Shrink { cache }),
    ];
    (0u32..64, op)
}

/// A bed with caches, the oracle of their objects, and the allocations and frees of each cache.
struct Play<S: SlabPolicy<VirtualSlots> + 'static> {
    bed: PolicyBed<S>,
    caches: Vec<(CacheId, CacheParams)>,
    oracle: Oracle,
    allocs: Vec<u64>,
    frees: Vec<u64>,
}

impl<S: SlabPolicy<VirtualSlots> + 'static> Play<S> {
    fn new(slots: u32, params: &[CacheParams]) -> Self {
        Self::with(slots, &small(), params)
    }

    fn with(slots: u32, options: &StackOptions, params: &[CacheParams]) -> Self {
        let bed = PolicyBed::<S>::new(Backing::Fake, 4096, slots, options);
        let caches: Vec<_> = params
            .iter()
            .map(|params| {
                (
                    bed.stack
                        .create_cache("test", params, &CacheOptions::default())
                        .expect("a cache"),
                    *params,
                )
            })
            .collect();
        let counts = vec![0; caches.len()];
        Self { bed, caches, oracle: Oracle::default(), allocs: counts.clone(), frees: counts }
    }

    /// The first of the caches that are one cache with `cache`: a policy that merges may give
    /// several requests the same cache, whose objects are counted together.
    fn merged(&self, cache: usize) -> usize {
        let (id, _) = self.caches[cache];
        self.caches.iter().position(|(other, _)| *other == id).expect("it is one of them")
    }

    fn has_room(&self) -> bool {
        self.oracle.bytes() < MOST_BYTES
    }

    fn adopt(&mut self, cache: usize, object: Object) {
        let (id, params) = self.caches[cache];
        let cache = self.merged(cache);
        let stride = self.bed.stack.cache(id).stride();
        self.oracle.insert(object, params.size, stride, params.align.max(16), cache);
        self.allocs[cache] += 1;
    }

    fn alloc(&mut self, cache: usize) {
        if self.has_room() {
            let object = self.bed.stack.cache(self.caches[cache].0).alloc();
            self.adopt(cache, object.expect("there is memory"));
        }
    }

    fn alloc_bulk(&mut self, cache: usize, count: usize) {
        if !self.has_room() {
            return;
        }
        let mut out = vec![MaybeUninit::uninit(); count];
        let taken = self.bed.stack.cache(self.caches[cache].0).alloc_bulk(&mut out);
        assert_eq!(taken, count, "there is memory for all of them");
        for object in out {
            // SAFETY: `alloc_bulk` has written this element.
            self.adopt(cache, unsafe { object.assume_init() });
        }
    }

    fn free(&mut self, number: usize) {
        let Some(live) = self.oracle.remove(number) else { return };
        self.frees[live.mark] += 1;
        // SAFETY: the object was live, and only the oracle knew it.
        unsafe { self.bed.stack.cache(self.caches[live.mark].0).free(live.object) };
    }

    fn free_bulk(&mut self, cache: usize, count: usize) {
        let cache = self.merged(cache);
        let numbers: Vec<_> = (0..self.oracle.len())
            .filter(|number| self.oracle.pick(*number).is_some_and(|live| live.mark == cache))
            .take(count)
            .collect();
        // From the back, because the oracle moves its last object to a removed one's place.
        let objects: Vec<_> = numbers
            .into_iter()
            .rev()
            .map(|number| self.oracle.remove(number).expect("it is live").object)
            .collect();
        self.frees[cache] += objects.len() as u64;
        // SAFETY: the objects were live and different, and only the oracle knew them.
        unsafe { self.bed.stack.free_objects(self.caches[cache].0, &objects) };
    }

    fn shrink(&mut self, cache: usize) {
        self.bed.stack.cache(self.caches[cache].0).shrink();
        let stats = self.bed.stack.cache(self.caches[cache].0).stats();
        assert_eq!(stats.parked_objects, 0, "a shrunk cache parks nothing");
        assert_eq!(stats.total_slabs, stats.active_slabs, "a shrunk cache has no empty slab");
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Alloc { cache } => self.alloc(cache),
            Op::AllocMany { cache, count } => (0..count).for_each(|_| self.alloc(cache)),
            Op::AllocBulk { cache, count } => self.alloc_bulk(cache, count),
            Op::Free { number } => self.free(number),
            Op::FreeMany { number, count } => (0..count).for_each(|more| self.free(number + more)),
            Op::FreeBulk { cache, count } => self.free_bulk(cache, count),
            Op::Shrink { cache } => self.shrink(cache),
        }
    }

    /// Checks the equations of `SlabStats`.
    fn check_stats(&self) {
        for (cache, (id, _)) in self.caches.iter().enumerate() {
            if self.merged(cache) != cache {
                continue;
            }
            let stats = self.bed.stack.cache(*id).stats();
            let live = self.oracle.iter().filter(|live| live.mark == cache).count() as u64;
            let per_slab = u64::from(self.bed.stack.cache(*id).objects());
            assert_eq!(stats.alloc_fast + stats.alloc_slow, self.allocs[cache], "{stats:?}");
            assert_eq!(stats.free_fast + stats.free_slow, self.frees[cache], "{stats:?}");
            assert_eq!(stats.active_objects - stats.parked_objects, live, "{stats:?}");
            assert_eq!(stats.total_objects, stats.total_slabs * per_slab, "{stats:?}");
            assert_eq!(stats.slabs_allocated - stats.slabs_freed, stats.total_slabs, "{stats:?}");
            assert!(stats.active_objects <= stats.total_objects, "{stats:?}");
            assert!(stats.partial_slabs <= stats.active_slabs, "{stats:?}");
            assert!(stats.active_slabs <= stats.total_slabs, "{stats:?}");
            assert!(stats.active_slabs <= stats.active_objects, "{stats:?}");
        }
    }

    fn validate(&self) {
        assert_eq!(self.bed.stack.validate(), Ok(()));
        self.check_stats();
    }

    fn finish(mut self) {
        while self.oracle.len() > 0 {
            on_cpu(self.oracle.len() as u32);
            self.free(0);
        }
        self.validate();
        let ids: Vec<_> = self.caches.iter().map(|(id, _)| *id).collect();
        self.bed.assert_empty(&ids);
        self.check_stats();
    }
}

pub(crate) fn random_operations<S: SlabPolicy<VirtualSlots> + 'static>(slots: u32) {
    random_operations_with::<S>(&small(), slots);
}

/// The suite's random operations, on a stack with these options.
pub(crate) fn random_operations_with<S: SlabPolicy<VirtualSlots> + 'static>(
    options: &StackOptions,
    slots: u32,
) {
    let caches = prop::collection::vec(params(), 3);
    let steps = prop::collection::vec(step(), 1..120);
    check(24, (caches, steps), |(caches, steps)| {
        run_all(Play::<S>::with(slots, options, &caches), &steps);
    });
}

/// Runs the steps, each on its CPU, and frees everything.
fn run_all<S: SlabPolicy<VirtualSlots> + 'static>(mut play: Play<S>, steps: &[(u32, Op)]) {
    for (number, (cpu, op)) in steps.iter().enumerate() {
        on_cpu(*cpu);
        play.run(op);
        play.check_stats();
        if number % 16 == 0 {
            play.validate();
        }
    }
    play.oracle.check_all();
    play.finish();
}

/// Random operations on four CPUs of one or two nodes, with options of the policy. Two of the
/// caches can be merged.
pub(crate) fn random_operations_on_nodes<S: SlabPolicy<VirtualSlots> + 'static>(
    slab: PolicyOptions,
    nodes: u8,
) {
    let mut options = StackOptions { slab, ..small() };
    options.pages.reserve_bytes = 256 << 20;
    options.pages.nodes = nodes;
    if nodes > 1 {
        options.pages.node_of_slot = |slot: SlotIndex| NodeId(slot.0 as u8 / 2);
    }
    let steps = prop::collection::vec(step(), 1..120);
    check(4, (params(), params(), steps), |(first, second, steps)| {
        run_all(Play::<S>::with(4, &options, &[first, second, first]), &steps);
    });
}

/// A cache with objects in use is not destroyed; the error has their number and addresses.
fn objects_remain<S: SlabPolicy<VirtualSlots> + 'static>() {
    for size in [16, 48, 100, 256, 1024, 4096, 20_000, 70_000] {
        let mut play = Play::<S>::new(2, &[CacheParams { size, align: 16 }]);
        let objects = (MOST_BYTES / 4 / size).min(700) as u32;
        for number in 0..objects {
            on_cpu(number / 40);
            play.alloc(0);
        }
        for number in 0..objects * 2 / 3 {
            on_cpu(number / 60);
            play.free(number as usize * 7);
        }
        // SAFETY: one thread uses the cache, which stays.
        let remain = unsafe { play.bed.stack.destroy_cache(play.caches[0].0) };
        let remain = remain.expect_err("objects are in use");
        assert_eq!(
            (remain.objects(), remain.parked()),
            (play.oracle.len() as u64, 0),
            "{size} bytes"
        );
        let mut live: Vec<_> = play.oracle.iter().map(|live| live.object).collect();
        live.sort_unstable();
        let named: Vec<_> = remain.named().collect();
        assert_eq!(named, live[..named.len()], "{size} bytes");
        assert_eq!(named.len(), live.len().min(8));
        play.finish();
    }
}

pub(crate) fn sizes_and_alignments<S: SlabPolicy<VirtualSlots> + 'static>() {
    let requests = [
        (1, 1),
        (3, 4096),
        (16, 16),
        (24, 8),
        (48, 16),
        (100, 64),
        (257, 1),
        (640, 128),
        (4096, 4096),
        (16 << 10, 16),
        (17_000, 32),
        (20 << 10, 512),
        (28_000, 16),
        (32 << 10, 32 << 10),
        (70_000, 16),
        (100_000, 4096),
        (1 << 20, 1 << 20),
    ];
    for (size, align) in requests {
        let mut play = Play::<S>::new(2, &[CacheParams { size, align }]);
        let objects = (MOST_BYTES / 2 / size).min(400) as u32;
        for round in 0..3 {
            for number in 0..objects {
                on_cpu(number / 7);
                play.alloc(0);
            }
            play.validate();
            for number in 0..objects {
                on_cpu(number / 5 + round);
                play.free(number as usize * 13);
            }
            play.validate();
        }
        play.finish();
    }
}

pub(crate) fn frees_elsewhere<S: SlabPolicy<VirtualSlots> + 'static>() {
    let mut play = Play::<S>::new(2, &[CacheParams { size: 256, align: 16 }]);
    for round in 0..200 {
        on_cpu(0);
        (0..100).for_each(|_| play.alloc(0));
        on_cpu(1);
        (0..100).for_each(|number| play.free(number * 7));
        if round % 20 == 0 {
            play.validate();
        }
    }
    let (id, _) = play.caches[0];
    let stats = play.bed.stack.cache(id).stats();
    // A policy that took new slabs instead of the objects that CPU 1 freed would exceed this.
    assert!(stats.total_objects < 2_000, "{stats:?}");
    play.finish();
}

pub(crate) fn bulk<S: SlabPolicy<VirtualSlots> + 'static>() {
    let mut play = Play::<S>::new(2, &[CacheParams { size: 64, align: 16 }]);
    for count in [0, 1, 2, 15, 63, 64, 65, 127, 128, 129, 1000] {
        for cpu in 0..2 {
            on_cpu(cpu);
            play.alloc_bulk(0, count);
            on_cpu(cpu + 1);
            (0..count / 3).for_each(|number| play.free(number * 11));
            play.free_bulk(0, count / 2);
            play.alloc_bulk(0, count / 4);
            play.validate();
        }
    }
    play.finish();
}

pub(crate) fn impossible<S: SlabPolicy<VirtualSlots> + 'static>() {
    let mut play = Play::<S>::new(1, &[CacheParams { size: 64, align: 16 }]);
    let largest = 4 << 20;
    for (size, align) in [
        (0, 16),
        (64, 0),
        (64, 48),
        (largest + 1, 16),
        (64, 2 * largest),
        (usize::MAX, 16),
        (usize::MAX - 62, 64),
        (1, 1 << 63),
    ] {
        let refused = play.bed.stack.create_cache(
            "impossible",
            &CacheParams { size, align },
            &CacheOptions::default(),
        );
        assert_eq!(refused, Err(OsError(libc::EINVAL)), "size {size}, align {align}");
    }
    play.alloc(0);
    play.finish();
}
