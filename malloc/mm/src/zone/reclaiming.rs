//! Marks zones for which memory is being reclaimed (`ZONE_RECLAIM_ACTIVE`, Linux 5.14). The pcp
//! lists of such a zone keep less, because requests will soon need what the lists hold.

use super::zone::Zone;
use super::zones::Zones;
use quarry_sys::primitive::Ordering::Relaxed;

/// Zones for which memory is being reclaimed, until this is dropped.
pub struct Reclaiming<'a> {
    zones: &'a Zones,
    nodes: u32,
}

impl Zones {
    /// Notes that the budget has fallen below its low mark, or has reached its high mark again.
    /// Between these notes, each zone counts as below its high mark, and pcp lists keep less.
    pub fn note_short(&self, short: bool) {
        self.all().for_each(|zone| zone.is_short.store(short, Relaxed));
    }

    /// Marks the zones for which `concerns` is true as `ZONE_RECLAIM_ACTIVE`. A zone keeps the mark
    /// until every result of this function that concerns it is dropped.
    pub fn reclaiming(&self, concerns: impl Fn(&Zone) -> bool) -> Reclaiming<'_> {
        let mut nodes = 0;
        for zone in self.all().filter(|zone| concerns(zone)) {
            zone.reclaims.fetch_add(1, Relaxed);
            nodes |= 1 << zone.node().0;
        }
        Reclaiming { zones: self, nodes }
    }
}

impl Drop for Reclaiming<'_> {
    fn drop(&mut self) {
        for zone in self.zones.all().filter(|zone| self.nodes >> zone.node().0 & 1 == 1) {
            zone.reclaims.fetch_sub(1, Relaxed);
        }
    }
}
