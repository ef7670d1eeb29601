//! Growth: a zone takes more pageblocks from the window.

use super::budget::Budget;
use super::steps::Steps;
use super::zone::ZoneRef;
use crate::frame::PAGEBLOCK_FRAMES;

/// How much an attempt to grow may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// There is the reserve to fall back to: what was refused before is not asked for again.
    Low,
    /// The request fails otherwise.
    Last,
}

impl ZoneRef<'_> {
    /// Takes one step, or a smaller one where the window or the system refuses. Returns whether the
    /// zone has grown.
    pub(super) fn grow_once(self, budget: &Budget, steps: &mut Steps) -> bool {
        // Beyond the limit there is nothing to grow for.
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
