//! The stashes of a stack: whether they hold memory, and how they give it to the zones. See
//! [`StackHost`](super::StackHost) for the functions that it has too.

use super::cached_pages::CachedPages;
use super::instance::{Stack, StackConfig};
use super::stash::Stash;
use crate::frame::FRAME_BYTES;
use crate::slab::{Reclaim, SlabPolicy};
use quarry_sys::percpu::PerCpu;

impl<C: StackConfig> Stack<C> {
    /// Returns whether a stash holds memory; false if only a lock could tell. O(nodes + slots).
    pub(super) fn holds(&self, stash: Stash) -> bool {
        match stash {
            Stash::Mappings => self.mappings.cached_bytes() >= FRAME_BYTES,
            Stash::Barns => self.limits.barns() > 0,
            Stash::Withheld => self.withheld.is_there_for_others(),
            Stash::Lists => self.pages().lists_any_extent(),
            Stash::Cache | Stash::Slabs | Stash::Extents => false,
        }
    }

    /// Returns whether slabs of destroyed heaps wait for late uses.
    pub(super) fn has_gone_slabs(&self) -> bool {
        #[cfg(feature = "heaps")]
        return self.own.gone_frames() > 0;
        #[cfg(not(feature = "heaps"))]
        false
    }

    pub(super) fn give(&self, stash: Stash, frames: u32) {
        match stash {
            Stash::Mappings => {
                self.mappings.shrink_cache(self.pages().zones(), frames);
            }
            Stash::Barns => self.slab.relieve(&self.context()),
            Stash::Withheld => {
                self.free_withheld();
            }
            Stash::Cache => C::Cache::trim(self),
            Stash::Slabs => {
                self.slab.reclaim(&self.context(), Reclaim::All);
            }
            Stash::Lists => self.pages().drain_all(),
            Stash::Extents => self.pages().zones().flush_extents(),
        }
    }

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

    pub(super) fn shrink_all(&self) {
        let _active = self.pages().zones().reclaiming(|_| true);
        #[cfg(feature = "heaps")]
        self.own_release_gone(0);
        for stash in Stash::BY_PRICE.into_iter().skip(Stash::IN_PARTS.len()) {
            self.give(stash, u32::MAX);
        }
    }
}
