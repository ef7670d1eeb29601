//! Whole stacks on two virtual CPUs, whose sequences the model interrupts. The objects are so large
//! that a sheaf or a slab has four, so a few requests reach every slow path.

use crate::explore;
use crate::hands::Hands;
use crate::system::{Backing, TestOs};
use quarry_mm::frame::NodeId;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::pcp::V6_18;
use quarry_mm::slab::{CacheId, CacheOptions, CacheParams, PolicyOptions, Sheaf, SlabPolicy};
use quarry_mm::stack::{Stack, StackConfig, StackHost};
use quarry_sys::percpu::{Object, PlantedBug, SlotIndex, SteppedSlots};
use quarry_watch::AllInstruments;
use shuttle::sync::Arc;
use shuttle::thread;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Mutex;

/// A stack on CPUs whose sequences the model interrupts.
pub(crate) struct Config<S>(PhantomData<S>);

impl<S: SlabPolicy<SteppedSlots> + 'static> StackConfig for Config<S> {
    type PerCpu = SteppedSlots;
    type Slab = S;
    type Pages = V6_18;
    type Cache = ();
    type Watch = AllInstruments;
}

/// A stack with one cache, and the oracle of its objects.
pub(crate) struct Play<S: SlabPolicy<SteppedSlots> + 'static> {
    pub(crate) stack: Box<Stack<Config<S>>>,
    pub(crate) cache: CacheId,
    hands: Hands,
    /// Objects that a thread leaves for another. The mutex is std's: its use is no step of the
    /// model.
    pub(crate) left: Mutex<Vec<Object>>,
    os: &'static TestOs,
}

// SAFETY: only the addresses in `left` are not Send and Sync by themselves; a thread that takes one
// out owns the object.
unsafe impl<S: SlabPolicy<SteppedSlots>> Sync for Play<S> {}
// SAFETY: as for Sync.
unsafe impl<S: SlabPolicy<SteppedSlots>> Send for Play<S> {}

impl<S: SlabPolicy<SteppedSlots> + 'static> Play<S> {
    /// A stack with one node.
    pub(crate) fn new(size: usize, bug: PlantedBug) -> Self {
        Self::on_nodes(1, size, bug)
    }

    /// A stack in which the two CPUs belong to different nodes, if `nodes` is more than one.
    pub(crate) fn on_nodes(nodes: u8, size: usize, bug: PlantedBug) -> Self {
        Self::with(StackOptions::default(), nodes, size, bug)
    }

    /// A stack in which the two CPUs are in different groups from the start.
    pub(crate) fn in_groups(size: usize, bug: PlantedBug) -> Self {
        let options = StackOptions { slab: PolicyOptions(1), ..StackOptions::default() };
        Self::with(options, 1, size, bug)
    }

    fn with(options: StackOptions<V6_18>, nodes: u8, size: usize, bug: PlantedBug) -> Self {
        let os: &'static TestOs = Box::leak(Box::new(TestOs::new(Backing::Fake, 4096)));
        let stack = Box::new(Stack::<Config<S>>::new());
        stack.percpu().sequences().set_cpus(2);
        stack.percpu().sequences().plant(bug);
        let mut options = StackOptions { heap: false, ..options };
        options.pages.reserve_bytes = 64 << 20;
        options.pages.nodes = nodes;
        options.pages.node_of_slot = match nodes {
            1 => |_| NodeId(0),
            _ => |slot: SlotIndex| NodeId(slot.0 as u8 % 2),
        };
        stack.init(os, &options, &Default::default()).expect("a system on which nothing fails");
        let params = CacheParams { size, align: 16 };
        let cache =
            stack.create_cache("model", &params, &CacheOptions::default()).expect("a cache");
        Self { stack, cache, hands: Hands::default(), left: Mutex::default(), os }
    }

    pub(crate) fn alloc(&self) -> Object {
        let object = self.stack.cache(self.cache).alloc().expect("there is memory");
        self.hands.take(object);
        object
    }

    pub(crate) fn free(&self, object: Object) {
        self.hands.give(object);
        // SAFETY: only this thread had the object.
        unsafe { self.stack.cache(self.cache).free(object) };
    }

    /// Allocates objects, leaves some of them, and frees some that another thread has left.
    pub(crate) fn trade(&self, rounds: usize) {
        let mut own = Vec::new();
        for round in 0..rounds {
            own.push(self.alloc());
            if round % 2 == 1 {
                let object = own.swap_remove(0);
                self.left.lock().unwrap().push(object);
            }
            let found = self.left.lock().unwrap().pop();
            if let Some(object) = found {
                self.free(object);
            }
        }
        own.into_iter().for_each(|object| self.free(object));
    }

    fn trade_in_bulk(&self, count: usize) {
        let mut out = vec![MaybeUninit::uninit(); count];
        let taken = self.stack.cache(self.cache).alloc_bulk(&mut out);
        assert_eq!(taken, count, "there is memory for all of them");
        // SAFETY: alloc_bulk wrote all elements.
        let objects: Vec<_> =
            out.into_iter().map(|object| unsafe { object.assume_init() }).collect();
        objects.iter().for_each(|object| self.hands.take(*object));
        objects.iter().for_each(|object| self.hands.give(*object));
        // SAFETY: only this thread had the objects.
        unsafe { self.stack.free_objects(self.cache, &objects) };
    }

    /// Frees the objects that threads have left, and shrinks the cache. Checks that each object is
    /// in its slab then, and that no slab is left.
    pub(crate) fn finish(&self) {
        while let Some(object) = self.left.lock().unwrap().pop() {
            self.free(object);
        }
        assert_eq!(self.hands.count(), 0);
        assert_eq!(self.stack.validate(), Ok(()));
        let stats = self.stack.cache(self.cache).stats();
        assert_eq!(stats.active_objects, stats.parked_objects, "{stats:?}");
        let allocs = stats.alloc_fast + stats.alloc_slow;
        let frees = stats.free_fast + stats.free_slow;
        // SLUB and SLQB count a list operation before its commit, so a restart counts it twice.
        let counts_lists = S::NAME.starts_with("slub") || S::NAME == "slqb";
        assert!(allocs == frees || counts_lists, "{stats:?}");
        self.stack.cache(self.cache).shrink();
        let stats = self.stack.cache(self.cache).stats();
        assert_eq!((stats.total_slabs, stats.parked_objects), (0, 0), "{stats:?}");
        self.os.release_all();
    }
}

/// Two threads on two CPUs trade, while a third thread shrinks the cache.
pub(crate) fn trading<S: SlabPolicy<SteppedSlots> + 'static>(size: usize, bug: PlantedBug) {
    trading_on(Play::<S>::new(size, bug), 1);
}

/// The same with two shards, which take slabs over from each other, and more shrinks, which give
/// objects back to slabs meanwhile.
pub(crate) fn trading_in_groups(bug: PlantedBug) {
    trading_on(Play::<Sheaf>::in_groups(size_for("sheaf"), bug), 3);
}

fn trading_on<S: SlabPolicy<SteppedSlots> + 'static>(play: Play<S>, shrinks: usize) {
    let play = Arc::new(play);
    let mut threads: Vec<_> = (0..2)
        .map(|_| {
            let play = Arc::clone(&play);
            thread::spawn(move || play.trade(6))
        })
        .collect();
    threads.extend((0..shrinks).map(|_| {
        let shrinking = Arc::clone(&play);
        thread::spawn(move || shrinking.stack.cache(shrinking.cache).shrink())
    }));
    threads.into_iter().for_each(|thread| thread.join().expect("a thread of the model"));
    play.finish();
}

/// One thread allocates and frees by its slot, and another one empties all slots again and again.
pub(crate) fn draining<S: SlabPolicy<SteppedSlots> + 'static>(size: usize, bug: PlantedBug) {
    let play = Arc::new(Play::<S>::new(size, bug));
    let draining = Arc::clone(&play);
    let drainer = thread::spawn(move || {
        for _ in 0..4 {
            draining.stack.cache(draining.cache).shrink();
        }
    });
    let pairing = Arc::clone(&play);
    let pairs = thread::spawn(move || {
        for _ in 0..8 {
            let objects = [pairing.alloc(), pairing.alloc()];
            objects.into_iter().for_each(|object| pairing.free(object));
        }
    });
    drainer.join().expect("a thread of the model");
    pairs.join().expect("a thread of the model");
    play.finish();
}

/// Bulk requests fill and empty slots and barn, beside single requests and a shrink.
fn bulk<S: SlabPolicy<SteppedSlots> + 'static>(size: usize) {
    let play = Arc::new(Play::<S>::new(size, PlantedBug::None));
    let mut threads: Vec<_> = [9, 12]
        .into_iter()
        .map(|count| {
            let play = Arc::clone(&play);
            thread::spawn(move || play.trade_in_bulk(count))
        })
        .collect();
    let single = Arc::clone(&play);
    threads.push(thread::spawn(move || {
        single.trade(3);
        single.stack.cache(single.cache).shrink();
    }));
    threads.into_iter().for_each(|thread| thread.join().expect("a thread of the model"));
    play.finish();
}

/// Makes the models for each policy.
macro_rules! stamp {
    ($($name:ident: $text:literal, $policy:ty;)*) => {$(
        mod $name {
            use super::{PlantedBug, bulk, draining, explore, size_for, trading};

            #[test]
            fn trade_loses_no_object_and_hands_none_out_twice() {
                explore(400, || trading::<$policy>(size_for($text), PlantedBug::None));
            }

            #[test]
            fn slots_are_emptied_beside_a_thread_that_uses_them() {
                explore(400, || draining::<$policy>(size_for($text), PlantedBug::None));
            }

            #[test]
            fn bulk_requests_go_beside_single_ones() {
                explore(400, || bulk::<$policy>(size_for($text)));
            }
        }
    )*};
}

slab_policies!(stamp);

#[test]
fn groups_take_slabs_over_from_each_other() {
    explore(400, || trading_in_groups(PlantedBug::None));
}

/// The size of objects of which a sheaf has four; for other policies, a slab or a list has four.
pub(crate) fn size_for(policy: &str) -> usize {
    match policy {
        "sheaf" | "slam" => 32 << 10,
        "sheaf-6.18" => 64 << 10,
        // The CPUs have a shared array, and slabs two objects.
        "slab" => 2 << 10,
        // A batch has one object.
        "slqb" => 256 << 10,
        _ => 8 << 10,
    }
}
