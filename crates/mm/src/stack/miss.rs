//! A request that has found no memory, while its task reclaims for it.

use crate::zone::{Budget, Claim, Entry};
use quarry_sys::gate;
use quarry_sys::primitive::{task, timer};

/// Naps of a request while other tasks hold locks: about a second.
const MOST_NAPS: u32 = 10_000;

/// The side that reclaims for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimant {
    /// The heap, which leaves the cache its floor.
    Heap,
    /// The page cache.
    Cache,
}

/// See the module. Memory that is freed while it exists is the request's own, up to what it needs.
pub struct Miss<'a> {
    claimant: Claimant,
    frames: u32,
    claim: Claim<'a>,
    naps: u32,
}

impl<'a> Miss<'a> {
    /// Begins a reclaim for a request of `frames` frames. `None` where the task reclaims already,
    /// or where too many do and none of them ends in time.
    pub(super) fn begin(budget: &'a Budget, claimant: Claimant, frames: u32) -> Option<Self> {
        let mut naps = 0;
        loop {
            match budget.claim(frames) {
                Entry::Entered(claim) => return Some(Self { claimant, frames, claim, naps }),
                Entry::Crowded if nap(&mut naps) => {}
                _ => return None,
            }
        }
    }

    /// The side that the frames are for.
    #[must_use]
    pub fn claimant(&self) -> Claimant {
        self.claimant
    }

    /// Frames that the next attempt may have to take.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Frames of these that have not been found yet.
    #[must_use]
    pub fn missing(&self) -> u32 {
        self.claim.missing()
    }

    /// Takes what the budget has room for; returns whether the claim is complete.
    pub fn collect(&self) -> bool {
        self.claim.collect()
    }

    /// Lets others run; returns false where the request has waited for too long, or no other task
    /// can run: then a handler of a signal has interrupted the one that it would wait for.
    pub fn nap(&mut self) -> bool {
        nap(&mut self.naps)
    }
}

fn nap(naps: &mut u32) -> bool {
    if task::is_alone() {
        return false;
    }
    *naps += 1;
    // The caller has no lock, and what it has begun is a claim, which ends with a fork.
    gate::outside(timer::nap);
    *naps < MOST_NAPS
}
