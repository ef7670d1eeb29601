//! Threads on the page cache of one stack, with real sequences.

use crate::support::page_threads::share_pages;
use quarry_cache::lru::{Batched, Splice};
use quarry_cache::page_cache::TruncationPolicy;

#[test]
fn threads_share_pages_under_batched() {
    share_pages(Batched, TruncationPolicy::BatchedRelease, 0);
}

#[test]
fn threads_share_pages_under_every_truncation_policy() {
    for (_, truncation) in TruncationPolicy::ALL {
        share_pages(Splice, truncation, 0);
    }
}

#[test]
fn threads_share_pages_with_threads_that_cannot_walk() {
    share_pages(Splice, TruncationPolicy::BatchedRelease, 2);
}
