//! Tests of `sheaf-7.0` alone: how often it takes the locks of nodes' lists.

use crate::support::{Backing, Bed, CacheBed, on_cpu, small};
use quarry_eras::slab::{Mechanisms, Sheaf7_0};
use quarry_mm::frame::NodeId;

/// Objects of 256 bytes in a sheaf.
const SHEAF: usize = 28;

/// Two CPUs, each of a node of its own, and a cache of objects of 256 bytes.
type Machine = CacheBed<Sheaf7_0>;

impl Machine {
    fn without(mechanisms: &str) -> Self {
        let mut options = small();
        options.slab = Mechanisms::without(mechanisms).expect("names of mechanisms").into();
        options.pages.reserve_bytes = 256 << 20;
        options.pages.nodes = 2;
        options.pages.node_of_slot = |slot| NodeId(slot.0 as u8 % 2);
        Self::on(Bed::new(Backing::Fake, 4096, 2, &options), 256)
    }

    /// Runs `act`; returns its result, and how often a list's lock was taken, without the looks at
    /// the statistics.
    fn locks<T>(&self, act: impl FnOnce() -> T) -> (T, u64) {
        let read = || self.stats().list_lock.acquisitions;
        let (first, before) = (read(), read());
        let result = act();
        (result, read() - before - (before - first))
    }
}

/// A sheaf takes one lock to take slabs off a list, and one for a slab that has objects left.
#[test]
fn a_sheaf_is_filled_by_two_locks_at_most() {
    let machine = Machine::without("");
    let mut all = Vec::new();
    for number in 0..20 {
        let (objects, locks) = machine.locks(|| machine.alloc(SHEAF));
        assert!(locks <= 2, "{locks} locks for sheaf {number}");
        all.extend(objects);
    }
    assert_eq!(machine.stats().parked_objects, 0, "each request used up its sheaf");
    machine.finish(all);
}

/// An object that another node's CPU frees goes to its slab, past the sheaves. Only the first
/// object of a full slab, and the last one in use, take the lock.
#[test]
fn a_free_of_another_node_takes_a_lock_for_a_slab_that_was_full() {
    let machine = Machine::without("");
    let objects = machine.alloc(10 * SHEAF);
    let slabs = machine.stats().total_slabs;
    on_cpu(1);
    let ((), locks) = machine.locks(|| machine.free(objects));
    assert_eq!(machine.stats().free_slow, 10 * SHEAF as u64, "none entered a sheaf");
    assert!((slabs..=3 * slabs).contains(&locks), "{locks} locks for {slabs} slabs");
    machine.finish([]);
}

/// A CPU of a node without memory has no barn, so it takes a list's lock for each object.
#[test]
fn without_memory_on_the_node_each_object_takes_a_lock() {
    let machine = Machine::without("local-memory");
    let (objects, locks) = machine.locks(|| machine.alloc(500));
    assert!((490..=500).contains(&locks), "{locks} locks for 500 objects");
    let stats = machine.stats();
    assert_eq!((stats.parked_objects, stats.barn_lock.acquisitions), (0, 0));
    machine.finish(objects);
}
