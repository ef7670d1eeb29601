//! Nodes that wait until no walk can be in them, and the walks themselves.

use super::{Bed, NODE_BYTES, Nodes, OWNER, page};
use crate::lru::PageNo;
use crate::page_cache::NodeHost;
use crate::page_cache::index::{Entry, GRACE_BATCH, Index, Preload};
use quarry_mm::frame::NodeId;
use quarry_sys::os::FakeOs;
use quarry_sys::percpu::{NativeSlots, Object, PerCpu, WordTree};

#[test]
fn nodes_go_back_after_a_barrier_and_in_batches() {
    let (bed, index) = (Bed::default(), Index::new(OWNER, ()));
    let count = GRACE_BATCH as u64;
    for at in 0..=count {
        bed.put(&index, at * 64, page(1)).expect("there is memory");
    }
    let out = bed.host.out.borrow().len();
    for at in 1..=count {
        index.lock(&bed.nodes).remove(at * 64);
    }
    assert_eq!(bed.host.out.borrow().len(), out, "walks may be in them");
    assert!(bed.nodes.grace.waiting() > GRACE_BATCH);
    assert_eq!(bed.nodes.grace.release(&bed.host, out + 1), 0, "too few are not worth a barrier");
    assert_eq!(bed.nodes.grace.release(&bed.host, GRACE_BATCH), out);
    let stats = bed.nodes.grace.stats();
    assert_eq!((stats.waiting, stats.freed, stats.barriers), (0, out as u64, 1));
    bed.end(&index);
}

#[test]
fn without_a_barrier_nodes_wait_and_serve_again() {
    let (bed, index) = (Bed::default(), Index::new(OWNER, ()));
    bed.host.refuses_barrier.set(true);
    for round in 0..100 {
        bed.put(&index, 1, page(round)).expect("there is memory");
        assert_eq!(index.lock(&bed.nodes).remove(1), page(round));
        assert_eq!(bed.nodes.grace.release(&bed.host, 1), 0);
    }
    assert_eq!(bed.host.out.borrow().len(), 1, "one node serves all rounds");
    assert_eq!(bed.nodes.grace.stats().recycled, 99);
    bed.host.refuses_barrier.set(false);
    bed.end(&index);
}

#[test]
fn a_preload_that_is_not_used_waits_with_the_others() {
    let bed = Bed::default();
    let mut preload = Preload::new(&bed.host, &bed.nodes.grace);
    assert!(preload.nodes.len() == 0 && preload.fill(3) && preload.fill(2));
    assert_eq!(preload.nodes.len(), 3);
    drop(preload);
    assert_eq!(bed.nodes.grace.waiting(), 3);
    assert_eq!(bed.nodes.grace.release(&bed.host, 1), 3);
}

/// A host whose threads walk.
struct Walker(NativeSlots, Nodes);

impl NodeHost for Walker {
    fn alloc_node(&self) -> Option<(Object, NodeId)> {
        self.1.alloc_node()
    }

    unsafe fn free_nodes(&self, nodes: &[Object]) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.1.free_nodes(nodes) }
    }

    fn wait_for_walks(&self) -> bool {
        self.0.wait_for_walks()
    }

    unsafe fn walk(&self, tree: &WordTree, index: u64) -> u64 {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.0.walk(tree, index) }
    }
}

#[test]
fn a_walk_finds_pages_and_nothing_else() {
    static OS: FakeOs = FakeOs::new(4096);
    let walker = Walker(NativeSlots::INERT, Nodes::default());
    walker.0.init(&OS).expect("the fake OS refuses nothing");
    let nodes = crate::page_cache::index::IndexNodes::default();
    let index: Index<()> = Index::new(OWNER, ());
    let places = [0, 1, 63, 64, 4095, 4096, 1 << 30, (1 << 52) - 1];
    // A thread without sequences finds nothing.
    let walks = index_walks(&walker, &nodes);
    for (number, at) in places.into_iter().enumerate() {
        let mut preload = Preload::new(&walker, &nodes.grace);
        assert!(preload.fill(17));
        let entry = if at % 2 == 0 { page(number as u32) } else { Entry::Shadow(at) };
        index.lock(&nodes).insert(at, entry, &mut preload).expect("it is new");
        for (below, at) in places.into_iter().enumerate() {
            let wanted = (below <= number && at % 2 == 0).then_some(PageNo(below as u32));
            assert_eq!(index.walk(&walker, at), wanted.filter(|_| walks), "{at:#x}");
            assert_eq!(index.walk(&walker, at ^ 2), None);
        }
    }
    for at in places {
        index.lock(&nodes).remove(at);
        assert_eq!(index.walk(&walker, at), None);
    }
    nodes.grace.release(&walker, 1);
    assert!(walker.1.out.borrow().is_empty(), "{NODE_BYTES} bytes for each node went back");
    // SAFETY: no thread uses the slots any more.
    unsafe { walker.0.area().release(&OS) };
}

/// Returns whether threads of this process walk.
fn index_walks(walker: &Walker, nodes: &crate::page_cache::index::IndexNodes) -> bool {
    let probe: Index<()> = Index::new(OWNER, ());
    let mut preload = Preload::new(walker, &nodes.grace);
    probe.lock(nodes).insert(0, page(1), &mut preload).expect("the root has room");
    let walks = probe.walk(walker, 0).is_some();
    probe.lock(nodes).remove(0);
    walks
}
