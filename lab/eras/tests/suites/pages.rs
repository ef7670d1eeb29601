//! Whole stacks under every page policy.

use crate::record;
use crate::support::idle::gives_all_back_when_idle;
use crate::support::small;
use crate::threads::{Config, exchange_on};
use quarry_eras::pages::{Chosen, PAGE_POLICIES};
use quarry_mm::pcp::PagePolicy;
use quarry_mm::slab::Sheaf;
use quarry_sys::percpu::NativeSlots;

/// Every page policy serves the same traffic.
#[test]
fn objects_change_hands_on_every_page_policy() {
    for known in PAGE_POLICIES {
        exchange_on::<Config<NativeSlots, Sheaf, Chosen>>(4, 0, 2, known.policy);
    }
}

#[test]
fn an_idle_program_gives_all_back_on_every_page_policy() {
    for known in PAGE_POLICIES {
        gives_all_back_when_idle(known.policy, known.name);
    }
}

#[test]
fn the_record_names_the_page_policy() {
    for known in PAGE_POLICIES {
        let mut options = small::<Chosen>();
        options.pages.policy = known.policy;
        assert_eq!(known.policy.name(), known.name);
        record::check::<Sheaf, _>(&options);
    }
}
