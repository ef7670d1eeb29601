//! Models of single policies, and planted bugs, which the models must find.

use crate::explore_at_most;
use crate::exploring::is_found_out;
use crate::policies::{draining, trading, trading_in_groups};
use quarry_mm::slab::Sheaf;
use quarry_sys::percpu::PlantedBug;

#[test]
fn a_barrier_that_does_nothing_is_found_out() {
    is_found_out("planted::barrier_does_nothing");
}

#[test]
#[ignore = "run by the test above: it fails"]
fn barrier_does_nothing() {
    explore_at_most(2_000, || draining::<Sheaf>(32 << 10, PlantedBug::BarrierDoesNothing));
}

#[test]
fn a_sequence_that_goes_on_after_preemption_is_found_out() {
    is_found_out("planted::commits_after_preemption");
}

#[test]
#[ignore = "run by the test above: it fails"]
fn commits_after_preemption() {
    explore_at_most(2_000, || trading::<Sheaf>(32 << 10, PlantedBug::CommitsAfterPreemption));
}

#[test]
fn a_free_that_reads_the_owner_once_is_found_out() {
    is_found_out("planted::owner_is_read_once");
}

#[test]
#[ignore = "run by the test above: it fails"]
fn owner_is_read_once() {
    explore_at_most(4_000, || trading_in_groups(PlantedBug::OwnerIsReadOnce));
}
