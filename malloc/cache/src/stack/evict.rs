//! Direct reclaim, first stage: a request that has found no memory evicts cached pages.
//!
//! The request first takes cached mappings and objects in barns, which cost less to make again than
//! a page. Then it evicts clean unused pages, at most 32 in 200 us at a time, until this frees
//! none. The program may hold any lock of its own, so the request starts no writeback and calls no
//! function of the program. It only tries locks of mappings. It waits for LRU locks, whose holders
//! request no memory, and briefly for shrinkers that owe their part (see `debt.rs`). If all
//! evictable pages belong to locked mappings, it sleeps briefly outside of the gate, so that a
//! holder can go on. The heap leaves the cache a floor of as many frames as the low mark has:
//! without them reads would be refused.

use super::caching::PageCaching;
use super::debt::{listed_pages, naps, note_evicted};
use crate::lru::LruPolicy;
use crate::page_cache::{PageCacheRef, ScanRequest};
use quarry_mm::frame::NodeId;
use quarry_mm::pcp::MOST_LOST;
use quarry_mm::stack::{Claimant, Miss, StackHost};
use quarry_mm::zone::Entry;
use quarry_sys::own_stack;
use quarry_sys::percpu::PerCpu;

/// Pages that a request evicts at a time (`SWAP_CLUSTER_MAX`, Linux 2.6 to 6.18).
const CLUSTER: u32 = ScanRequest::DIRECT_MOST as u32;
/// Maximum number of pages that a request examines without freeing one: some milliseconds.
const MOST_FRUITLESS: u64 = 1 << 16;

/// See [`CachedPages::reclaim_for`](quarry_mm::stack::CachedPages::reclaim_for).
#[inline(never)]
pub(super) fn evict_for<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>>(
    stack: &S,
    cache: PageCacheRef<'_, S>,
    miss: &mut Miss<'_>,
    attempt: &mut dyn FnMut() -> bool,
) -> bool {
    let mut has_freed = stack.take_in_parts(miss.frames.max(CLUSTER), &|| miss.missing());
    // A first look at a used page only activates it.
    let most_fruitless = || (2 * listed_pages(stack, cache)).min(MOST_FRUITLESS);
    let (mut fruitless, mut lost) = (0, 0);
    loop {
        let has_all = miss.collect();
        if (has_all || has_freed && miss.frames <= CLUSTER) && attempt() {
            return true;
        }
        // The budget has the frames, but a zone or the system refuses them.
        lost += u32::from(has_all);
        if lost > MOST_LOST {
            return false;
        }
        if naps(stack, miss) {
            continue;
        }
        let most = evictable(stack, cache, miss.claimant, miss.missing());
        let done = cache.direct_reclaim(near(stack), most);
        note_evicted(stack, miss.claimant, done.freed);
        has_freed = done.freed > 0;
        fruitless = if has_freed { 0 } else { fruitless + done.scanned };
        let goes_on = has_freed
            || done.busy > 0 && miss.nap()
            || done.busy == 0 && done.scanned > 0 && fruitless < most_fruitless();
        if !goes_on {
            return false;
        }
    }
}

/// Number of pages that may be evicted next for `claimant`, while `missing` frames are missing. At
/// its floor the cache evicts for itself only what it needs, because the heap would take the rest.
fn evictable<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>>(
    stack: &S,
    cache: PageCacheRef<'_, S>,
    claimant: Claimant,
    missing: u32,
) -> usize {
    let spare = spare_frames(stack, cache);
    let least = if claimant == Claimant::Cache { missing.max(1).into() } else { 0 };
    spare.max(least).min(CLUSTER.into()) as usize
}

/// Frames of cached pages beyond the cache's floor, which is as large as the low mark. O(slots).
pub(super) fn spare_frames<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>>(
    stack: &S,
    cache: PageCacheRef<'_, S>,
) -> u64 {
    let floor = stack.pages().zones().budget().marks().low;
    cache.events().pages().saturating_sub(floor.into())
}

fn near<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>>(stack: &S) -> NodeId {
    stack.pages().zones().node_of(stack.percpu().current())
}

/// Evicts for the heap up to 32 clean pages that the cache has beyond its floor; returns whether
/// any were evicted. Does nothing inside another reclaim of the same task.
#[cold]
pub fn reclaim_pages<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>>(stack: &S) -> bool {
    let Some(cache) = PageCaching::opened(stack) else { return false };
    let reclaimers = stack.pages().zones().budget().reclaimers();
    let Entry::Entered(_inside) = reclaimers.enter() else { return false };
    let most = evictable(stack, cache, Claimant::Heap, 0);
    own_stack::run(|| cache.direct_reclaim(near(stack), most).freed > 0)
}
