//! Tests of the page policies of other eras, each on a page allocator of its own.

mod numbers;
#[path = "../../../../../malloc/mm/src/pcp/tests/suite.rs"]
mod suite;
#[path = "../../../../../malloc/mm/src/pcp/tests/support.rs"]
mod support;

use super::registry::page_policies;
use super::*;
use proptest::prelude::*;
use quarry_mm::frame::{FrameState, MigrateType, NodeId, Order, Pfn};
use quarry_mm::pcp::{
    AllocFlags, CACHE_SLICE_BYTES, DrainWalk, FaultPolicy, FreeListPolicy, Page, PageAllocator,
    PageConfig, PagePolicy, PageRequest, PcpCounters, PolicyContext, RingSizes, SizeInputs, Sizes,
    Tuning, V6_18,
};
use quarry_mm::zone::{Zone, largest_blocks};
use quarry_sys::os::FakeOs;
use quarry_sys::percpu::SlotIndex;
use std::collections::BTreeMap;
use suite::{Step, run, step};
use support::{Owner, SHORT, build, fake_os, first_word, request, tiny};

/// For tests that change the policy.
pub(crate) const TINY: PageConfig<Chosen> = tiny(Chosen::V6_18(V6_18));

/// Takes all steps under a policy. Returns which blocks are owned afterwards, and every counter.
fn outcome<P: PagePolicy>(policy: P, steps: &[Step]) -> (BTreeMap<u32, u32>, Vec<PcpCounters>) {
    let node_of_slot = |slot: SlotIndex| NodeId((slot.0 % 2) as u8);
    let config = PageConfig { nodes: 2, node_of_slot, ..tiny(policy) };
    let pages = build(config, &RingSizes::default());
    let mut owner = Owner::new(&pages);
    steps.iter().for_each(|step| run(&mut owner, &pages, step));
    assert_eq!(pages.validate(), Ok(()));
    (owner.owned, (0..4).map(|slot| pages.pcp_counters(SlotIndex(slot))).collect())
}

/// A policy chosen by name is called through a dispatch; its results must be the same.
macro_rules! comparison {
    ($name:ident, $value:expr, $policy:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig {
                cases: (ProptestConfig::default().cases / 8).max(1),
                failure_persistence: None,
                ..ProptestConfig::default()
            })]

            #[test]
            fn $name(steps in prop::collection::vec(step(), 1..80)) {
                assert_eq!(outcome($policy, &steps), outcome($value, &steps));
            }
        }
    };
}

mod a_comparison_changes_nothing_but_the_way {
    use super::*;

    macro_rules! every {
        ($($type:ident, $page:literal, $about:literal,
           [$($id:ident: $name:literal = $value:expr),+];)+) => {
            $($(comparison!($id, $value, Chosen::$type($value));)+)+
        };
    }
    page_policies!(every);
}

macro_rules! every {
    ($($type:ident, $page:literal, $about:literal,
       [$($id:ident: $name:literal = $value:expr),+];)+) => {
        $($(suite::suite!($id, Chosen::$type($value));)+)+
    };
}
page_policies!(every);
