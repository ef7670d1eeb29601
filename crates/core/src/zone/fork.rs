//! The zone layer's locks, for `fork`: per zone purging, growth and lists, then the reservation.

use super::Zones;
use quarry_sys::lock::ForkLock;

impl Zones {
    /// Calls `act` for every lock of the layer, in the order in which they are taken.
    pub fn for_fork_locks(&self, act: &mut dyn FnMut(&dyn ForkLock)) {
        for zone in self.all() {
            act(&zone.purging);
            act(&zone.growth);
            act(zone.fork_lock());
        }
        act(self.memory().arena().fork_lock());
    }
}
