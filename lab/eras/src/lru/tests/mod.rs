//! The LRU under every policy.

#[cfg(not(quarry_model))]
mod costs;
#[cfg(quarry_model)]
#[path = "../../../../../malloc/cache/src/lru/tests/model.rs"]
mod model;
#[cfg(quarry_model)]
mod model_single;
#[cfg(not(quarry_model))]
#[path = "../../../../../malloc/cache/src/lru/tests/suite.rs"]
mod suite;
#[path = "../../../../../malloc/cache/src/lru/tests/support.rs"]
mod support;
#[cfg(not(quarry_model))]
#[path = "../../../../../malloc/cache/src/lru/tests/threads.rs"]
mod threads;

use super::*;
use quarry_cache::lru::*;
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
        fn every_policy_keeps_the_order_of_plain_queues(
            known in prop::sample::select(LRU_POLICIES),
            sizes in sizes(),
            ops in prop::collection::vec(op(), 1..300),
        ) {
            keeps_the_order(known.policy, sizes, &ops);
        }
    }
}

#[cfg(not(quarry_model))]
#[test]
fn every_policy_has_all_pages_somewhere() {
    for known in LRU_POLICIES {
        threads::all_pages_are_somewhere(known.policy);
    }
}
