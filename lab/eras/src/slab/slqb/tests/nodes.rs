//! Two nodes: CPUs 0 and 1 are of node 0, 2 and 3 of node 1.

use super::bed::Bed;
use crate::pages::Chosen;
use crate::pages::tests::TINY;
use crate::slab::tests::on_cpu;
use quarry_mm::frame::NodeId;
use quarry_mm::pcp::PageConfig;
use quarry_sys::percpu::SlotIndex;

fn two_nodes() -> PageConfig<Chosen> {
    let node_of_slot = |slot: SlotIndex| NodeId(slot.0 as u8 / 2);
    PageConfig { nodes: 2, node_of_slot, ..TINY }
}

/// An object of this node goes onto the CPU's list, whichever CPU owns its slab; an object of
/// another node is gathered for its slab's list at once.
#[test]
fn objects_of_another_node_go_home_directly() {
    let bed = Bed::new(256, &two_nodes());
    let all = bed.alloc(0, 30);
    let (near, far) = all.split_at(10);
    bed.free(1, near.iter().copied());
    assert_eq!((bed.level(1), bed.list(1).nr_outgoing()), (10, 0));
    assert_eq!((bed.stats().free_fast, bed.stats().free_slow), (10, 0));
    bed.free(2, far.iter().copied());
    assert_eq!((bed.level(2), bed.list(2).nr_outgoing()), (0, 20));
    assert_eq!((bed.stats().free_fast, bed.stats().free_slow), (10, 20));
    bed.finish();
}

/// The slow path, which pushes objects of the CPU's node, keeps to the high mark, too.
#[test]
fn a_list_of_this_node_is_bounded() {
    let bed = Bed::new(2048, &two_nodes());
    let all = bed.alloc(0, 700);
    bed.free(1, all);
    assert!(bed.level(1) <= 512, "{} objects", bed.level(1));
    assert!(bed.stats().free_slow >= 1);
    bed.finish();
}

/// A node without memory borrows slabs of another node. These slabs belong to that other node, and
/// its list serves the CPUs of both nodes before a new slab is allocated.
#[test]
fn borrowed_slabs_belong_to_their_node() {
    let bed = Bed::new(256, &PageConfig { initial_frames: 512, grow: false, ..two_nodes() });
    on_cpu(0);
    let all: Vec<_> = std::iter::from_fn(|| bed.try_alloc()).collect();
    let stats = bed.stats();
    assert_eq!(all.len() as u64, stats.total_objects);
    let own = bed.list(0).slabs_allocated.load(quarry_sys::primitive::Ordering::Relaxed);
    assert!(own > 0 && own < stats.total_slabs, "{own} of {} slabs are its own", stats.total_slabs);
    bed.validate();
    bed.free(0, all);
    bed.validate();
    let again = bed.alloc(3, 1000);
    bed.validate();
    bed.free(1, again);
    bed.finish();
}
