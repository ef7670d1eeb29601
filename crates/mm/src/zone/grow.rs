//! Growth: a zone takes more pageblocks from the window.

use super::budget::Budget;
use super::steps::Steps;
use super::zone::ZoneRef;
use crate::frame::PAGEBLOCK_FRAMES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// The request can still use the reserve, so a step that the window refused is not repeated.
    Low,
    /// The request fails if the zone does not grow.
    Last,
}

impl ZoneRef<'_> {
    /// Grows by one step, or by a smaller one if the window refuses that. Returns whether it grew.
    #[inline(never)]
    pub(super) fn grow_once(self, budget: &Budget, steps: &mut Steps) -> bool {
        let room = budget.limit().saturating_sub(budget.used()).div_ceil(PAGEBLOCK_FRAMES);
        for step in steps.sizes(room) {
            if let Ok(first) = self.memory.take_for_zone(step) {
                self.add_frames(first, step * PAGEBLOCK_FRAMES);
                steps.granted();
                return true;
            }
        }
        false
    }
}
