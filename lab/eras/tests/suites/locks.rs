//! Every lock of a policy is visited once, and counts.

use crate::support::locks::{NODES, OF_ALL, bed, visited};
use quarry_eras::slab::{KernelSheaf, LinuxSlab, Slqb, Slub3_0, Slub4_9};
use quarry_mm::heap::classes;
use quarry_mm::slab::SlabPolicy;
use quarry_sys::percpu::VirtualSlots;

#[test]
fn a_visitor_meets_every_lock_of_the_policy_slub_once() {
    fn visits<S: SlabPolicy<VirtualSlots> + 'static>(own: &[(&'static str, usize)]) {
        let mut names = visited(&bed::<S>());
        assert_eq!(names.remove("percpu->stripe"), Some(1));
        let of_slub = [
            ("slab->list_lock", classes::COUNT * NODES),
            ("slub->growth", 1),
            ("slub->slot_lock", 1),
        ];
        assert_eq!(names, OF_ALL.into_iter().chain(of_slub).chain(own.iter().copied()).collect());
    }
    visits::<Slub4_9>(&[]);
    // The bits of all slabs are counted as one lock.
    visits::<Slub3_0>(&[("slub->slab_lock", 1)]);
}

#[test]
fn a_visitor_meets_every_lock_of_the_policy_slab_once() {
    let mut names = visited(&bed::<LinuxSlab>());
    assert_eq!(names.remove("percpu->stripe"), Some(1));
    // On one node there are no alien arrays.
    let of_slab = [("slab->list_lock", classes::COUNT * NODES), ("slab->growth", 1)];
    assert_eq!(names, OF_ALL.into_iter().chain(of_slab).collect());
}

#[test]
fn a_visitor_meets_every_lock_of_the_policy_sheaf_6_18_once() {
    let mut names = visited(&bed::<KernelSheaf>());
    assert_eq!(names.remove("percpu->stripe"), Some(1));
    // One CPU has used one cache.
    let of_cpu = [("sheaf->pool", 1), ("sheaf->spare", 1)];
    let of_caches = [("slab->list_lock", classes::COUNT), ("barn->lock", classes::COUNT * NODES)];
    assert_eq!(names, OF_ALL.into_iter().chain(of_cpu).chain(of_caches).collect());
}

#[test]
fn a_visitor_meets_every_lock_of_the_policy_slqb_once() {
    let mut names = visited(&bed::<Slqb>());
    assert_eq!(names.remove("percpu->stripe"), Some(1));
    // There is one node, so there are no lists of nodes.
    let of_slqb = [
        ("slqb->growth", 1),
        ("slqb->page_lock", classes::COUNT),
        ("slqb->remote_free", classes::COUNT),
        ("slqb->rlist", classes::COUNT),
    ];
    assert_eq!(names, OF_ALL.into_iter().chain(of_slqb).collect());
}
