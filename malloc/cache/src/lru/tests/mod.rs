//! The LRU under the policies of this crate.

#[cfg(quarry_model)]
mod model;
#[cfg(quarry_model)]
mod model_batched;
#[cfg(not(quarry_model))]
mod suite;
mod support;
#[cfg(not(quarry_model))]
mod threads;

use super::*;
use quarry_mm::frame::{MAX_NODES, NodeId};
use quarry_sys::os::FakeOs;
use quarry_sys::percpu::SlotIndex;
use quarry_sys::primitive::Ordering::Relaxed;
use support::{begin, fake_os, free, table};

#[cfg(not(quarry_model))]
mod order {
    use super::suite::{keeps_the_order, op, sizes};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn batched_keeps_the_order_of_plain_queues(
            sizes in sizes(),
            ops in prop::collection::vec(op(), 1..300),
        ) {
            keeps_the_order(Batched, sizes, &ops);
        }

        #[test]
        fn splice_keeps_the_order_of_plain_queues(
            sizes in sizes(),
            ops in prop::collection::vec(op(), 1..300),
        ) {
            keeps_the_order(Splice, sizes, &ops);
        }
    }
}

#[cfg(not(quarry_model))]
#[test]
fn batched_has_all_pages_somewhere() {
    threads::all_pages_are_somewhere(Batched);
}

#[cfg(not(quarry_model))]
#[test]
fn splice_has_all_pages_somewhere() {
    threads::all_pages_are_somewhere(Splice);
}
