//! Barns of several nodes.

use crate::support::{Backing, Bed, VirtualConfig, on_cpu, small};
use quarry_mm::frame::{MetadataKind, NodeId};
use quarry_mm::slab::{CacheId, CacheParams};
use quarry_mm::slab::{CacheOptions, Sheaf};
use quarry_mm::stack::{ReclaimState, StackHost};
use quarry_sys::percpu::{Object, SlotIndex};

/// CPUs 0 and 1 belong to node 0, CPUs 2 and 3 to node 1.
struct Machine {
    bed: Bed<VirtualConfig<Sheaf>>,
    cache: CacheId,
}

impl Machine {
    fn new(nodes: u8) -> Self {
        Self::limited(nodes, u32::MAX)
    }

    /// A machine with so much memory.
    fn limited(nodes: u8, frames: u32) -> Self {
        let mut options = small();
        options.pages.limit_frames = frames;
        options.pages.reserve_bytes = 256 << 20;
        options.pages.nodes = nodes;
        options.pages.node_of_slot = match nodes {
            1 => |_| NodeId(0),
            _ => |slot: SlotIndex| NodeId(slot.0 as u8 / 2),
        };
        let bed = Bed::new(Backing::Linux, 4096, 4, &options);
        let params = CacheParams { size: 256, align: 16 };
        let cache = bed
            .stack
            .create_cache("shared", &params, &CacheOptions::default())
            .expect("there is room");
        Self { bed, cache }
    }

    fn alloc(&self, cpu: u32, count: usize) -> Vec<Object> {
        on_cpu(cpu);
        let alloc = || self.bed.stack.cache(self.cache).alloc().expect("there is memory");
        (0..count).map(|_| alloc()).collect()
    }

    fn free(&self, cpu: u32, objects: Vec<Object>) {
        on_cpu(cpu);
        for object in objects {
            // SAFETY: the object came from this cache, and only the caller knew it.
            unsafe { self.bed.stack.cache(self.cache).free(object) };
        }
    }

    fn parked(&self, node: u8) -> u64 {
        self.bed.stack.cache(self.cache).stats().barns[usize::from(node)].objects
    }

    /// How often the lock of each node's barn has been taken; this call itself takes it once.
    fn locked(&self) -> [u64; 2] {
        let barns = self.bed.stack.cache(self.cache).stats().barns;
        [0, 1].map(|node| barns[node].lock.acquisitions)
    }

    /// One CPU allocates objects, and another one frees them.
    fn exchange(&self, from: u32, to: u32) {
        for _ in 0..10 {
            self.free(to, self.alloc(from, 600));
        }
    }

    fn finish(self) {
        assert_eq!(self.bed.stack.validate(), Ok(()));
        self.bed.assert_empty(&[self.cache]);
    }
}

#[test]
fn cpus_of_a_node_take_the_lock_of_its_barn_only() {
    let machine = Machine::new(2);
    // Each node gets objects of its own only: those of the other node go home.
    let held = [0, 2].map(|cpu| machine.alloc(cpu, 3000));
    for (cpu, objects) in [0, 2].into_iter().zip(held) {
        machine.free(cpu, objects);
    }
    (0..2).for_each(|_| [0, 2].into_iter().for_each(|cpu| machine.exchange(cpu, cpu + 1)));
    for (cpu, own) in [(0, 0), (2, 1)] {
        let before = machine.locked();
        machine.exchange(cpu, cpu + 1);
        let taken: Vec<u64> =
            machine.locked().iter().zip(before).map(|(now, before)| now - before).collect();
        assert!(taken[own] > 50, "CPUs of node {own} took the locks {taken:?} times");
        assert_eq!(taken[1 - own], 1, "CPUs of node {own} took the locks {taken:?} times");
    }
    machine.finish();
}

#[test]
fn objects_of_another_node_go_home() {
    let machine = Machine::new(2);
    let objects = machine.alloc(0, 1000);
    let slabs = machine.bed.stack.cache(machine.cache).stats().slabs_allocated;
    machine.free(2, objects);
    assert_eq!(machine.parked(1), 0, "the barn of node 1 has objects of node 0");
    assert!(machine.parked(0) >= 800, "{} objects came home", machine.parked(0));
    assert_eq!(machine.bed.stack.validate(), Ok(()));
    let again = machine.alloc(0, 800);
    assert_eq!(machine.bed.stack.cache(machine.cache).stats().slabs_allocated, slabs);
    assert!(machine.parked(0) < 200, "they came from the own node's barn");
    machine.free(1, again);
    machine.finish();
}

/// If no CPU of a node has needed objects of its barn since the last look, these objects go back,
/// even while the other node works on.
#[test]
fn the_barn_of_an_idle_node_goes_back() {
    let machine = Machine::new(2);
    let mut state = ReclaimState::new();
    machine.free(2, machine.alloc(2, 7000));
    machine.free(0, machine.alloc(0, 7000));
    assert!(machine.parked(0) > 1800 && machine.parked(1) > 1800);
    machine.bed.stack.look(&mut state, 0, 0);
    machine.free(0, machine.alloc(0, 7000));
    machine.bed.stack.look(&mut state, 0, 0);
    assert_eq!(machine.parked(1), 0);
    assert!(machine.parked(0) > 1800, "{} objects", machine.parked(0));
    machine.finish();
}

#[test]
fn barns_of_nodes_that_are_not_declared_take_no_memory() {
    let taken = |nodes| {
        let machine = Machine::new(nodes);
        let bytes = machine.bed.stack.stats().metadata_bytes(MetadataKind::CpuSlabs);
        machine.finish();
        bytes
    };
    assert_eq!(taken(1), 0);
    assert!((1..=640).contains(&taken(2)), "{} bytes for a second barn and shard", taken(2));
}

/// Nodes that this machine lacks have zones as well.
#[test]
fn nodes_ask_nothing_of_the_system() {
    let mut options = small();
    options.pages.reserve_bytes = 512 << 20;
    options.pages.nodes = 8;
    options.pages.node_of_slot = |slot| NodeId(slot.0 as u8 % 8);
    let bed = Bed::<VirtualConfig<Sheaf>>::new(Backing::Linux, 4096, 16, &options);
    let params = CacheParams { size: 256, align: 16 };
    let cache =
        bed.stack.create_cache("shared", &params, &CacheOptions::default()).expect("there is room");
    let machine = Machine { bed, cache };
    for cpu in 0..16 {
        let objects = machine.alloc(cpu, 500);
        let home = machine.bed.stack.pages().zones().node_of(SlotIndex(cpu));
        assert_eq!(home, NodeId(cpu as u8 % 8));
        assert!(machine.bed.stack.pages().zones().zone(home).managed() > 0, "it has memory");
        machine.free((cpu + 5) % 16, objects);
    }
    machine.bed.assert_empty(&[machine.cache]);
}

/// Slabs of a node serve CPUs of another one only where there is no memory for new slabs.
#[test]
fn slabs_serve_the_node_that_made_them() {
    let machine = Machine::new(2);
    let mut objects = machine.alloc(0, 12_000);
    let kept: Vec<Object> = objects.iter().copied().step_by(4).collect();
    objects.retain(|object| !kept.contains(object));
    // More than a barn holds.
    machine.free(2, objects);
    let others = machine.alloc(2, 9000);
    let node = |object: &Object| {
        let pages = machine.bed.stack.pages();
        let pfn = pages.zones().arena().pfn(object.as_ptr()).expect("it is in the window");
        pages.memory().pageblocks().of(pfn).tag().node()
    };
    let strangers = others.iter().filter(|object| node(object) != Some(NodeId(1))).count();
    assert!(strangers <= 128, "{strangers} objects beyond what an array holds");
    machine.free(3, others);
    machine.free(1, kept);
    machine.finish();
}

#[test]
fn a_node_takes_objects_of_another_before_it_has_none() {
    let machine = Machine::limited(2, 4096);
    on_cpu(0);
    let take = || machine.bed.stack.cache(machine.cache).alloc();
    let kept: Vec<Object> = core::iter::from_fn(take).collect();
    let (freed, kept): (Vec<_>, Vec<_>) = (0..).zip(kept).partition(|(number, _)| number % 2 == 1);
    let of = |some: Vec<(i32, Object)>| some.into_iter().map(|(_, object)| object).collect();
    // Objects without room in the barn of node 0 go back to its slabs.
    let count = freed.len();
    machine.free(0, of(freed));
    machine.free(2, machine.alloc(2, count / 8));
    machine.free(0, of(kept));
    machine.finish();
}
