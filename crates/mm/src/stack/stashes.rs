//! Gives back freed memory that a stack holds for later, stash by stash.
//!
//! Direct reclaim, the bound of the footprint, balances and `malloc_trim` all use this.

use super::cached_pages::CachedPages;
use super::instance::{Stack, StackConfig};
use super::stash::Stash;
use crate::frame::FRAME_BYTES;
use crate::slab::{Reclaim, SlabPolicy};
use quarry_sys::percpu::PerCpu;

impl<C: StackConfig> Stack<C> {
    /// Returns whether a stash holds memory; false if only a lock could tell. O(nodes + slots).
    pub(super) fn holds(&self, stash: Stash) -> bool {
        let inner = self.inner();
        match stash {
            Stash::Mappings => inner.mappings.cached_bytes() >= FRAME_BYTES,
            Stash::Barns => inner.limits.barns() > 0,
            Stash::Withheld => self.withheld.is_there_for_others(),
            Stash::Lists => inner.pages.lists_any_extent(),
            Stash::Cache | Stash::Slabs | Stash::Extents => false,
        }
    }

    /// See [`CacheHost::give`](super::cached_pages::CacheHost::give).
    pub(super) fn give(&self, stash: Stash, frames: u32) {
        let inner = self.inner();
        match stash {
            Stash::Mappings => {
                inner.mappings.shrink_cache(inner.pages.zones(), frames);
            }
            Stash::Barns => inner.slab.relieve(&self.context()),
            Stash::Withheld => {
                self.free_withheld();
            }
            Stash::Cache => C::Cache::trim(self),
            Stash::Slabs => {
                inner.slab.reclaim(&self.context(), Reclaim::All);
            }
            Stash::Lists => inner.pages.drain_all(),
            Stash::Extents => inner.pages.flush_extents(),
        }
    }

    /// See [`CacheHost::take_in_parts`](super::cached_pages::CacheHost::take_in_parts).
    pub(super) fn take_in_parts(&self, frames: u32, missing: &dyn Fn() -> u32) -> bool {
        let before = missing();
        for stash in Stash::IN_PARTS {
            if missing() > 0 && self.holds(stash) {
                self.give(stash, frames);
                if stash == Stash::Barns {
                    self.pages().drain_slot(self.fast.percpu.current());
                }
            }
        }
        missing() < before
    }

    /// Gives all stashes but [`Stash::IN_PARTS`] to the zones.
    pub(super) fn shrink_all(&self) {
        let _active = self.pages().zones().reclaiming(|_| true);
        for stash in Stash::BY_PRICE.into_iter().skip(Stash::IN_PARTS.len()) {
            self.give(stash, u32::MAX);
        }
    }
}
