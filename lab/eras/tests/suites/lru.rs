//! Whole stacks under every LRU policy.

use crate::support::page_threads::share_pages;
use quarry_cache::page_cache::TruncationPolicy;
use quarry_eras::lru::{LRU_POLICIES, Single};

#[test]
fn threads_share_pages_under_every_lru_policy() {
    for known in LRU_POLICIES {
        share_pages(known.policy, TruncationPolicy::BatchedRelease, 0);
    }
}

#[test]
fn threads_share_pages_under_every_truncation_policy() {
    for (_, truncation) in TruncationPolicy::ALL {
        share_pages(Single, truncation, 0);
    }
}

#[test]
fn threads_share_pages_with_threads_that_cannot_walk() {
    share_pages(Single, TruncationPolicy::BatchedRelease, 2);
}
