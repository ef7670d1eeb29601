//! The heap on policies of other eras.

use crate::policies::random_operations_with;
use crate::support::turns::sizes_take_turns;
use crate::support::{Backing, Bed, VirtualConfig, small};
use quarry_eras::slab::Mechanisms;
use quarry_eras::slab::{LinuxSlab, Slub4_9};
use quarry_mm::frame::NodeId;
use quarry_mm::heap::options::StackOptions;

const PAGE: usize = 4096;

#[test]
fn address_space_that_one_size_has_left_serves_any_other() {
    sizes_take_turns::<Slub4_9>();
}

/// The dense calls bypass the objects that CPUs hold. Under a policy that cannot do so, they return
/// `None` and false and do nothing; their callers then use `malloc` and `free`.
#[test]
fn policies_without_such_a_way_say_so() {
    let stack = Bed::<VirtualConfig<Slub4_9>>::new(
        Backing::Linux,
        PAGE,
        1,
        &StackOptions { heap: true, ..small() },
    );
    let object = stack.stack.alloc(100).expect("there is memory");
    assert_eq!(stack.stack.alloc_dense(100, 16), None);
    // SAFETY: if this succeeded, no code would use the object.
    assert!(!unsafe { stack.stack.free_dense(object.as_ptr()) });
    // SAFETY: no code uses the object any more.
    unsafe { stack.stack.free(object) };
    stack.assert_empty(&[]);
}

/// In the second run neighbouring CPUs are of different nodes, so that most objects are freed by a
/// CPU of another node than their memory's.
#[test]
fn mechanisms_of_slab_can_be_left_out() {
    for without in ["", "alien", "shared", "alien,shared"] {
        let mut options = small();
        options.slab = Mechanisms::without(without).expect("names of mechanisms").into();
        random_operations_with::<LinuxSlab>(&options, 2);
        options.pages.reserve_bytes = 256 << 20;
        options.pages.nodes = 2;
        options.pages.node_of_slot = |slot| NodeId(slot.0 as u8 % 2);
        random_operations_with::<LinuxSlab>(&options, 4);
    }
}
