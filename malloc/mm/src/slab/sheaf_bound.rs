//! Bounds what the barns of all caches hold together, under the policy `sheaf`.

use super::cache::Cache;
use super::cache_limits::CacheLimits;
use super::context::{CacheIn, MAX_BATCH, PIECE, SlabContext};
use super::sheaf_cache::{Sheaf, SheafView};
use crate::zone::Zones;
use quarry_sys::own_stack;
use quarry_sys::percpu::Arrays;

/// A barn is large if it holds more than the bound of all barns divided by this.
const LARGE_BARN: usize = 64;
/// Bounds of the bytes and objects that barns give to slabs at a time under pressure (60 us).
const PRESSED_STEP_BYTES: usize = 2 << 20;
const PRESSED_STEP_OBJECTS: usize = 2048;

impl<'a, P: Arrays> SheafView<'a, P> {
    /// Makes barns give objects to the slabs, if the barns of the cache or all barns together hold
    /// too much. Called at the end of a free, where much of the thread's stack is left.
    #[inline]
    pub fn bound_barns(&self) {
        let context = self.context;
        self.split_if_contended();
        self.bound_own_barn();
        if context.limits.barns() > CacheLimits::barns_most(context.zones) {
            context.give_back_emptied();
            self.shrink_barns(CacheLimits::barns_most, MAX_BATCH);
        }
    }

    #[inline]
    fn bound_own_barn(&self) {
        let (number, barn) = self.barn();
        if barn.bytes() > self.barn_most() * self.cache.stride() {
            self.context.give_back_emptied();
            self.empty_barn(barn, PIECE, self.own.keep_empty());
            self.note_filled(number, barn);
        }
    }

    /// Makes barns give objects, until all together hold at most `bound` or have given `most`
    /// objects or 2 MiB. Large barns give in turn; if no barn is large, those of this cache give.
    #[cold]
    #[inline(never)]
    fn shrink_barns(&self, bound: fn(&Zones) -> usize, most: usize) {
        let limits = self.context.limits;
        let (bound, mut given, mut given_bytes) = (bound(self.context.zones), 0, 0);
        while limits.barns() > bound && given < most && given_bytes < PRESSED_STEP_BYTES {
            let giver = self.next_large(bound / LARGE_BARN).unwrap_or(self.cache);
            match self.policy.at(self.context.with(giver)).empty_barns(0) {
                0 => return,
                objects => {
                    given += objects;
                    given_bytes += objects * giver.stride();
                }
            }
        }
    }

    /// The next cache in turn whose barns hold more than `bytes` bytes.
    #[inline(never)]
    fn next_large(&self, bytes: usize) -> Option<&'a Cache> {
        let is_large = |cache: CacheIn<'_, P>| self.policy.at(cache).own.barns.bytes() > bytes;
        self.context.caches_in_turn().find(|cache| is_large(*cache)).map(|large| large.cache)
    }
}

impl Sheaf {
    pub(super) fn relieve_barns<P: Arrays>(&self, context: &SlabContext<'_, P>) {
        if context.limits.barns() > CacheLimits::barns_pressed(context.zones)
            && let Some(first) = context.each_cache().next()
        {
            own_stack::run(|| {
                context.give_back_emptied();
                let bound = CacheLimits::barns_pressed;
                self.at(first).shrink_barns(bound, PRESSED_STEP_OBJECTS);
            });
        }
    }
}
