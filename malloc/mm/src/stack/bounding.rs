//! Keeps the process within its recent footprint (see `footprint.rs`).

use super::footprint::{excess, margin};
use super::instance::{Stack, StackConfig};
use super::stash::Stash;
use crate::frame::{FRAME_BYTES, PAGEBLOCK_FRAMES};
use crate::zone::Whole;
use quarry_sys::clock::coarse_ns;
use quarry_sys::own_stack;
use quarry_sys::primitive::Ordering::Relaxed;

/// A request for fewer frames than this gives back at most this many: 2 MiB, in about 100 us. Later
/// requests give back the rest. (Without this bound, a small request in a process of 1 GiB at times
/// gave back 32 MiB, in 2 ms.) Larger requests have no bound: touching their memory takes longer.
const STEP: u32 = PAGEBLOCK_FRAMES;

/// Once the allowance is used up, no request asks for it for this time, in which it grows by ten
/// pages. (Without it the lock of `given` took 19 ns of each call of `mixed` on 64 simulated CPUs.)
const ASK_AGAIN_NS: u64 = 1_000_000;

impl<C: StackConfig> Stack<C> {
    /// Frames that may be in memory. O(nodes).
    pub(super) fn footprint_frames(&self) -> u32 {
        let zones = self.pages().zones();
        let dirty: u32 = zones.all().map(|zone| zone.dirty()).sum();
        zones.budget().used().saturating_add(dirty)
    }

    fn footprint_and_peak(&self) -> (u32, u32) {
        let used = self.pages().zones().budget().used();
        let barns = (self.limits.barns() / FRAME_BYTES) as u32;
        let in_use = used.saturating_sub(self.mappings.cached_charged()).saturating_sub(barns);
        (self.footprint_frames(), self.footprint.recent.note(in_use, coarse_ns()))
    }

    /// Called after a request that took up to `taken` untouched frames: if the process is above its
    /// bound, gives freed memory back. Otherwise O(nodes), without a lock.
    #[inline]
    pub(super) fn bound_footprint(&self, taken: u32) {
        if self.arena().keeps() {
            return;
        }
        let (footprint, peak) = self.footprint_and_peak();
        self.reap_while_growing(footprint, margin(peak / 4));
        if self.footprint.has_sparse.load(Relaxed) {
            return self.shrink_footprint(taken);
        }
        if excess(footprint, peak, 0) == 0 {
            return;
        }
        let stuck = self.footprint.stuck.load(Relaxed);
        if footprint < stuck {
            self.footprint.stuck.store(footprint, Relaxed);
        } else if excess(footprint, peak, stuck) > 0 {
            self.shrink_footprint(taken);
        }
    }

    #[cold]
    fn shrink_footprint(&self, taken: u32) {
        if coarse_ns() < self.footprint.spent_until_ns.load(Relaxed) {
            return;
        }
        let Some(mut past) = self.footprint.given.try_lock() else { return };
        let (footprint, peak) = self.footprint_and_peak();
        let stuck = self.footprint.stuck.load(Relaxed).min(footprint);
        let excess = excess(footprint, peak, stuck);
        let most = if taken < STEP { STEP } else { u32::MAX };
        let is_step = excess > most;
        let price = self.pages().memory().prices().small_us();
        let allowance = past.allowance(peak, coarse_ns(), price);
        if allowance == 0 {
            self.footprint.spent_until_ns.store(coarse_ns() + ASK_AGAIN_NS, Relaxed);
            return;
        }
        if self.footprint.has_sparse.load(Relaxed) {
            own_stack::run(|| self.walk_reaped(&mut past));
        }
        let excess = excess.min(allowance).min(most);
        if excess == 0 {
            return;
        }
        past.spent += excess;
        let left = own_stack::run(|| self.give_way(excess));
        // A request gives back one step; later requests may give back the other frames.
        let stuck = if is_step && left == 0 { 0 } else { self.footprint_and_peak().0 };
        self.footprint.stuck.store(stuck, Relaxed);
    }

    /// Gives freed memory to the operating system; returns the frames that it could not give.
    #[inline(never)]
    fn give_way(&self, frames: u32) -> u32 {
        let zones = self.pages().zones();
        let mut left = self.mappings.shrink_cache(zones, frames);
        if left > 0 {
            self.give(Stash::Barns, left);
        }
        for node in zones.all().map(|zone| zone.node()) {
            let bytes = left as usize * FRAME_BYTES;
            if bytes == 0 {
                break;
            }
            let given = zones.give_back_of(node, Whole::Dirty, bytes);
            left = left.saturating_sub((given / FRAME_BYTES) as u32);
        }
        left
    }
}
