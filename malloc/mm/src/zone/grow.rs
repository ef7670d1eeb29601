//! Growth: a zone takes more pageblocks from the window.

use super::ask::Ask;
use super::budget::Budget;
use super::huge;
use super::steps::{STEP_MIN, Steps};
use super::watermark::Mark;
use super::zone::ZoneRef;
use super::zones::Zones;
use crate::frame::{Faults, NodeId, PAGEBLOCK_FRAMES};
use quarry_sys::own_stack;
use quarry_sys::primitive::Ordering::Relaxed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// The request can still use the reserve, so a step that the window refused is not repeated.
    Low,
    /// The request fails if the zone does not grow.
    Last,
}

impl Zones {
    /// Adds pageblocks of the window to the zone of `node` until `ask` can be served above the low
    /// mark; returns whether it can. Holds no zone's lock while it calls the operating system.
    pub(crate) fn grow(&self, node: NodeId, ask: &Ask, urgency: Urgency) -> bool {
        let zone = self.of(node);
        if !zone.grows {
            return false;
        }
        let mut steps = zone.zone.steps.lock();
        let arena = self.arena();
        // Another thread may have grown the zone, and a block of order 10 may need two steps.
        while !zone.watermark_ok(ask.order, Mark::Low, ask.flags) {
            if urgency == Urgency::Low && steps.is_refused(arena.pageblocks_taken()) {
                return false;
            }
            // A caller's stack may be small. Another one takes 16 us, most of it page faults.
            if !own_stack::run(|| zone.grow_once(self.budget(), &mut steps)) {
                steps.refused(arena.pageblocks_taken());
                zone.stuck.store(true, Relaxed);
                return false;
            }
            zone.stuck.store(false, Relaxed);
            zone.set_below_high(false);
            self.refresh_marks();
        }
        true
    }

    /// Gives an empty zone its first pageblocks, on the caller's stack, before any request does.
    pub(crate) fn begin(&self, node: NodeId) {
        let zone = self.of(node);
        let is_due = zone.grows && zone.managed() == 0;
        if is_due && zone.grow_once(self.budget(), &mut zone.zone.steps.lock()) {
            self.refresh_marks();
        }
    }
}

impl ZoneRef<'_> {
    /// Grows by one step, or by a smaller one if the window refuses that. Returns whether it grew.
    #[inline(never)]
    fn grow_once(self, budget: &Budget, steps: &mut Steps) -> bool {
        let room = budget.limit().saturating_sub(budget.used()).div_ceil(PAGEBLOCK_FRAMES);
        // Kept memory comes first, in small steps: it costs little, and serves mappings, too.
        let has_kept = self.memory.arena().has_kept(STEP_MIN, STEP_MIN);
        for step in has_kept.then_some(STEP_MIN).into_iter().chain(steps.sizes(room)) {
            if let Ok(taken) = self.memory.take_for_zone(step) {
                if self.zone.managed() == 0 {
                    // Without this, one object takes 2 MiB where the OS makes huge pages unasked.
                    huge::make(self.memory, taken.first, STEP_MIN, Faults::Small);
                }
                self.add_frames(taken, step * PAGEBLOCK_FRAMES);
                steps.granted();
                return true;
            }
        }
        false
    }
}
