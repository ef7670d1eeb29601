//! Growth: a zone takes more pageblocks from the window when it falls to its low mark.

use super::zone::Zone;
use super::{Ask, Budget, Mark, Zones};
use crate::frame::{Memory, NodeId, PAGEBLOCK_FRAMES};
use quarry_sys::primitive::Ordering::Relaxed;

/// Zones grow by pairs of pageblocks, so that a block of order 10 never has a foreign half.
const STEP_MIN: u32 = 2;
/// The largest step: 32 MiB. Steps double, so that a small program takes little and a large one
/// does not come here often.
const STEP_MAX: u32 = 16;

/// What growth remembers.
pub(super) struct Growth {
    /// Pageblocks of the next step.
    step: u32,
    /// Pageblocks that were taken from the window when it last refused; trying again makes
    /// sense when the number has changed.
    refused_at: Option<usize>,
}

/// How much an attempt to grow may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// There is the reserve to fall back to: what was refused before is not asked for again.
    Low,
    /// The request fails otherwise.
    Last,
}

impl Growth {
    pub(super) const fn new() -> Self {
        Self { step: STEP_MIN, refused_at: None }
    }
}

impl Zones {
    /// Lets the zone of `node` take pageblocks from the window until `ask` can be served above
    /// the low mark. Returns whether it can now. Calls of the operating system happen without the
    /// zone's lock.
    pub(crate) fn grow(&self, node: NodeId, ask: &Ask, urgency: Urgency) -> bool {
        let zone = self.zone(node);
        if !zone.grows {
            return false;
        }
        let mut growth = zone.growth.lock();
        // Somebody else may have grown the zone meanwhile. A block of order 10 may need two steps.
        while !zone.watermark_ok(ask.order, Mark::Low, ask.flags) {
            let taken = self.memory().arena().pageblocks_taken();
            if urgency == Urgency::Low && growth.refused_at == Some(taken) {
                return false;
            }
            if !zone.grow_once(self.memory(), self.budget(), &mut growth) {
                growth.refused_at = Some(self.memory().arena().pageblocks_taken());
                zone.stuck.store(true, Relaxed);
                return false;
            }
            zone.stuck.store(false, Relaxed);
            zone.set_below_high(false);
            self.refresh_marks();
        }
        true
    }
}

impl Zone {
    /// Takes one step, or a smaller one where the window or the system refuses.
    fn grow_once(&self, memory: &Memory, budget: &Budget, growth: &mut Growth) -> bool {
        // Beyond the limit there is nothing to grow for.
        let room = budget.limit().saturating_sub(budget.used()).div_ceil(PAGEBLOCK_FRAMES);
        let mut step = growth.step.min(room.next_multiple_of(STEP_MIN)).max(STEP_MIN);
        while step >= STEP_MIN {
            if let Ok(first) = memory.take_for_zone(step) {
                self.add_frames(memory, first, step * PAGEBLOCK_FRAMES);
                growth.step = (growth.step * 2).min(STEP_MAX);
                growth.refused_at = None;
                return true;
            }
            step = (step / 2).next_multiple_of(STEP_MIN).min(step - STEP_MIN);
        }
        false
    }
}
