//! Objects of other nodes.

use super::machine::Machine;
use crate::slab::tests::on_cpu;
use quarry_sys::percpu::{Arrays, Object};
use std::vec::Vec;

const ALIENS: usize = 12;

/// A machine with objects of node 0; CPUs 0 and 1 are on node 0, CPUs 2 and 3 on node 1.
fn two_nodes(mechanisms: &str) -> (Machine, Vec<Object>) {
    let machine = Machine::without(2, 4, mechanisms);
    let objects = machine.alloc_all(0, machine.cache(64), 100);
    (machine, objects)
}

#[test]
fn aliens_go_home_together() {
    let (machine, objects) = two_nodes("");
    let cache = machine.caches.iter().next().expect("it has been created");
    let locked = |node: usize| machine.stats(cache).barns[node].lock.acquisitions;
    let before = (locked(0), locked(1));
    machine.free_all(2, cache, &objects[..ALIENS]);
    // The test itself takes each lock twice, to read.
    assert_eq!((locked(0), locked(1)), (before.0 + 2, before.1 + 2), "no list lock was taken");
    assert_eq!((machine.level(2, cache), machine.shared(0, cache)), (0, 0));
    assert_eq!(machine.stats(cache).parked_objects, ALIENS as u64);
    machine.validate();
    let before = locked(0);
    machine.free(3, cache, objects[ALIENS]);
    assert_eq!(locked(0), before + 2, "one hold of the list lock of node 0, and a look");
    assert_eq!(machine.shared(0, cache), ALIENS as u64, "both CPUs of the node share an array");
    assert_eq!(machine.stats(cache).parked_objects, ALIENS as u64 + 1);
    // These objects serve the CPUs of their home, the last one first.
    assert_eq!(machine.alloc(1, cache), objects[ALIENS - 1]);
    machine.free(1, cache, objects[ALIENS - 1]);
    machine.free_all(2, cache, &objects[ALIENS + 1..]);
    let stats = machine.stats(cache);
    assert_eq!(stats.free_slow, objects.len() as u64, "{stats:?}");
    machine.finish();
}

#[test]
fn without_alien_arrays_each_object_goes_to_its_slab() {
    let (machine, objects) = two_nodes("alien");
    let cache = machine.caches.iter().next().expect("it has been created");
    let locked = || machine.stats(cache).barns[0].lock.acquisitions;
    let (before, free) = (locked(), machine.free_objects(0, cache));
    machine.free_all(2, cache, &objects[..10]);
    assert_eq!(machine.free_objects(0, cache), free + 10);
    assert_eq!(locked(), before + 10 + 3, "ten frees, and three looks");
    assert_eq!(machine.stats(cache).parked_objects, 0);
    machine.free_all(2, cache, &objects[10..]);
    machine.finish();
}

#[test]
fn objects_of_the_own_node_stay_with_its_cpus() {
    let (machine, objects) = two_nodes("");
    let cache = machine.caches.iter().next().expect("it has been created");
    machine.free_all(1, cache, &objects);
    let stats = machine.stats(cache);
    assert_eq!(machine.level(1, cache), objects.len() as u64);
    assert_eq!((stats.free_fast, stats.free_slow), (objects.len() as u64, 0));
    machine.finish();
}

/// A thread that is moved in the middle of a slow path leaves objects on a CPU of another node.
#[test]
fn strangers_in_an_array_go_home_when_they_leave_it() {
    let machine = Machine::new(2, 4);
    let cache = machine.cache(64);
    let strangers = machine.alloc_all(0, cache, 60);
    let own = machine.alloc_all(2, cache, 200);
    on_cpu(2);
    assert!(machine.percpu.push_batch(cache.id().array(), &strangers[..60]));
    let (fill, rest) = own.split_at(60);
    machine.free_all(2, cache, fill);
    assert_eq!(machine.level(2, cache), 120);
    machine.free(2, cache, rest[0]);
    machine.validate();
    assert_eq!((machine.shared(0, cache), machine.shared(1, cache)), (60, 0));
}
