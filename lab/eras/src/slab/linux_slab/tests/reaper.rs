//! The reaper takes back what was not used for some seconds.

use super::machine::Machine;
use super::{now_ns, set_now};
use crate::slab::tests::on_cpu;
use quarry_mm::slab::{Cache, Reclaim, SlabPolicy};
use std::vec::Vec;

const SECOND: u64 = 1_000_000_000;

/// A machine with a cache to observe and a second cache of large objects. Each operation on the
/// second cache takes a slow path, so that the running CPU's reaper checks the clock.
fn machine(nodes: u8, mechanisms: &str) -> Machine {
    let machine = Machine::without(nodes, 4, mechanisms);
    machine.cache(64);
    machine.cache(200_000);
    machine
}

impl Machine {
    fn small(&self) -> &Cache {
        self.caches.iter().next().expect("it has been created")
    }

    /// Makes a CPU check the clock after `seconds`.
    fn tick(&self, cpu: u32, seconds: u64) {
        set_now(now_ns() + seconds * SECOND);
        let large = self.caches.iter().last().expect("it has been created");
        let object = self.alloc(cpu, large);
        self.free(cpu, large, object);
        if self.level(cpu, large) > 0 {
            on_cpu(cpu);
            self.policy.reclaim(&self.context(), Reclaim::Cache(large));
        }
    }
}

#[test]
fn an_array_that_is_not_used_loses_a_fifth_in_two_seconds() {
    let machine = machine(1, "");
    let cache = machine.small();
    machine.tick(0, 0);
    let objects = machine.alloc_all(0, cache, 120);
    machine.free_all(0, cache, &objects[..120]);
    machine.tick(0, 1);
    assert_eq!(machine.level(0, cache), 120, "the time has not come");
    let mut levels = Vec::new();
    for _ in 0..7 {
        machine.tick(0, 2);
        levels.push(machine.level(0, cache));
        machine.validate();
    }
    // The array had been used before the first reap.
    assert_eq!(levels, [120, 96, 72, 48, 24, 0, 0]);
    machine.free_all(0, cache, &objects[120..]);
    machine.finish();
}

#[test]
fn less_than_a_fifth_goes_by_halves_and_the_oldest_first() {
    let machine = machine(1, "shared");
    let cache = machine.small();
    machine.tick(0, 0);
    let objects = machine.alloc_all(0, cache, 20);
    machine.free_all(0, cache, &objects[..20]);
    let levels = [2, 2, 2].map(|seconds| {
        machine.tick(0, seconds);
        machine.level(0, cache)
    });
    assert_eq!(levels, [20, 10, 5]);
    let left: Vec<_> = (0..5).map(|_| machine.alloc(0, cache)).collect();
    assert!(left.iter().eq(objects[15..20].iter().rev()));
    machine.free_all(0, cache, &objects[15..]);
    machine.finish();
}

#[test]
fn the_array_of_another_cpu_is_left_alone() {
    let machine = machine(1, "");
    let cache = machine.small();
    machine.tick(0, 0);
    let objects = machine.alloc_all(1, cache, 50);
    machine.free_all(1, cache, &objects);
    let level = machine.level(1, cache);
    (0..5).for_each(|_| machine.tick(0, 2));
    assert_eq!(machine.level(1, cache), level);
    machine.finish();
}

#[test]
fn a_shared_array_that_is_not_used_loses_a_fifth_in_four_seconds() {
    let machine = machine(1, "");
    let cache = machine.small();
    machine.tick(0, 0);
    let objects = machine.alloc_all(1, cache, 601);
    machine.free_all(1, cache, &objects[..601]);
    assert_eq!(machine.shared(0, cache), 480);
    // The first reap of a node's lists takes nothing and only sets the time of the next reap.
    let levels = [2, 2, 2, 2, 2, 2].map(|seconds| {
        machine.tick(0, seconds);
        machine.shared(0, cache)
    });
    assert_eq!(levels, [480, 480, 384, 384, 288, 288]);
    // One object that a CPU takes keeps the shared array for four more seconds.
    machine.alloc(2, cache);
    assert_eq!(machine.shared(0, cache), 272);
    let levels = [2, 2, 2].map(|seconds| {
        machine.tick(0, seconds);
        machine.shared(0, cache)
    });
    assert_eq!(levels, [272, 272, 176]);
    machine.validate();
}

/// A reap takes a fifth of the free objects that a node may keep, rounded up to slabs. `free_limit`
/// is 5 batches of 60 objects and a slab of 59, 359 objects, so each reap takes 2 slabs.
#[test]
fn free_slabs_that_were_not_needed_go() {
    let machine = machine(1, "shared");
    let cache = machine.small();
    machine.tick(0, 0);
    let objects = machine.alloc_all(1, cache, 1000);
    machine.free_all(1, cache, &objects);
    let free_slabs = || machine.with_lists(0, cache, |lists| lists.free_slabs);
    let kept = free_slabs();
    assert!((5..=6).contains(&kept), "{kept} slabs");
    // The allocations marked the free slabs as used; from then on no CPU needs them.
    let slabs = [2, 2, 2, 2, 2, 2, 2].map(|seconds| {
        machine.tick(0, seconds);
        free_slabs()
    });
    assert_eq!(slabs, [kept, kept, kept, kept, kept - 2, kept - 2, kept - 4]);
    machine.finish();
}

#[test]
fn aliens_of_one_node_go_home_at_each_reap() {
    let machine = machine(2, "");
    let cache = machine.small();
    let objects = machine.alloc_all(0, cache, 16);
    machine.tick(2, 0);
    machine.free_all(2, cache, &objects[..5]);
    assert_eq!(machine.shared(0, cache), 0);
    // Nodes take turns; one of two reaps takes from node 0.
    machine.tick(2, 2);
    machine.tick(2, 2);
    assert_eq!(machine.shared(0, cache), 5);
    machine.free_all(0, cache, &objects[5..]);
    machine.finish();
}
