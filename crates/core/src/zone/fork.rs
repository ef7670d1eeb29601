//! The zone layer's locks across `fork`: per zone purging, growth and lists, then the reservation.
#![expect(unsafe_code, reason = "releasing a lock without its guard is a promise of the caller")]

use super::Zones;
use super::zone::Zone;

impl Zone {
    fn lock_for_fork(&self) {
        self.purging.lock_for_fork();
        self.growth.lock_for_fork();
        self.fork_lock().lock_for_fork();
    }

    /// # Safety
    /// The calling thread took the locks by `lock_for_fork`.
    unsafe fn unlock_after_fork(&self) {
        // SAFETY: the caller's promise, for each of the three locks.
        unsafe {
            self.fork_lock().unlock_after_fork();
            self.growth.unlock_after_fork();
            self.purging.unlock_after_fork();
        }
    }
}

impl Zones {
    /// Takes every lock of the layer before `fork`, so that no child starts with one held.
    pub fn lock_for_fork(&self) {
        self.all().for_each(Zone::lock_for_fork);
        self.memory().arena().lock_for_fork();
    }

    /// Releases them on either side of `fork`.
    ///
    /// # Safety
    /// The calling thread took them by [`lock_for_fork`](Self::lock_for_fork).
    pub unsafe fn unlock_after_fork(&self) {
        // SAFETY: the caller's promise is passed on.
        unsafe {
            self.memory().arena().unlock_after_fork();
            self.all().for_each(|zone| zone.unlock_after_fork());
        }
    }
}
