//! Every lock of the page allocator across `fork`, in the order of the layers.
#![expect(unsafe_code, reason = "releasing a lock without its guard is a promise of the caller")]

use super::allocator::PageAllocator;
use super::set::PcpSet;

impl PcpSet {
    fn lock_for_fork(&self) {
        self.all().for_each(|pcp| pcp.lists.lock_for_fork());
    }

    /// # Safety
    /// The calling thread took the locks by `lock_for_fork`.
    unsafe fn unlock_after_fork(&self) {
        // SAFETY: the caller's promise, for each lock.
        self.all().for_each(|pcp| unsafe { pcp.lists.unlock_after_fork() });
    }
}

impl PageAllocator {
    /// Takes the locks of all per-CPU lists, of the zones and of the reservation before `fork`.
    pub fn lock_for_fork(&self) {
        self.pcps.lock_for_fork();
        self.zones.lock_for_fork();
    }

    /// Releases them on either side of `fork`.
    ///
    /// # Safety
    /// The calling thread took them by [`lock_for_fork`](Self::lock_for_fork).
    pub unsafe fn unlock_after_fork(&self) {
        // SAFETY: the caller's promise is passed on.
        unsafe {
            self.zones.unlock_after_fork();
            self.pcps.unlock_after_fork();
        }
    }
}
