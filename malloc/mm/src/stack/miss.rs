//! A request that found no memory, while its task reclaims for it.

use crate::zone::{Budget, Claim, Entry};
use quarry_sys::gate;
use quarry_sys::primitive::{task, timer};

/// Maximum number of naps of a request while other tasks hold locks: about a second in all.
const MOST_NAPS: u32 = 10_000;

/// The side whose request found no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimant {
    /// The heap, which leaves the page cache as many frames as the low mark has.
    Heap,
    /// The page cache.
    Cache,
}

/// See the head of the file. While a `Miss` exists, up to `frames` frames that its task frees
/// belong to its request.
pub struct Miss<'a> {
    /// The side that the frames are for.
    pub claimant: Claimant,
    /// Frames that the next attempt may have to take.
    pub frames: u32,
    claim: Claim<'a>,
    naps: u32,
}

impl<'a> Miss<'a> {
    /// `None` if the task reclaims already, or if too many tasks reclaim and do not end in time.
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

    /// Frames that are still missing.
    #[must_use]
    pub fn missing(&self) -> u32 {
        self.claim.missing()
    }

    /// Claims frames from the budget; returns whether the claim is complete.
    pub fn collect(&self) -> bool {
        self.claim.collect()
    }

    /// Lets other tasks run. Returns false if the request has waited for too long, or if no other
    /// task exists: a signal handler would then wait for the task that it interrupted.
    pub fn nap(&mut self) -> bool {
        nap(&mut self.naps)
    }
}

/// Lets other tasks run, and counts that in `naps`. Returns false where [`Miss::nap`] does.
#[must_use]
pub fn nap(naps: &mut u32) -> bool {
    if task::is_alone() {
        return false;
    }
    *naps += 1;
    // A fork may come here: the caller holds no lock, only a claim, which ends in the child.
    gate::outside(timer::nap);
    *naps < MOST_NAPS
}
