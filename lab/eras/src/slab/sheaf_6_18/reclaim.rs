//! Giving memory back when it is short, or has been idle.

use super::cache::{View, count};
use quarry_sys::percpu::{Arrays, Object, SlotIndex};

impl<P: Arrays> View<'_, P> {
    pub(super) fn take_back(&self, objects: &[Object]) {
        count(&self.own.batched_out, objects.len());
        self.to_slabs(objects);
        self.context.give_back_emptied();
    }

    /// Flushes the spare sheaves of the CPUs that `which` selects, and gives the sheaves to the
    /// pool. Returns whether there were any objects.
    pub(super) fn empty_spares(&self, which: &dyn Fn(SlotIndex) -> bool) -> bool {
        let mut any = false;
        for (_, cpu) in self.own.used_cpus().filter(|(slot, _)| which(*slot)) {
            let taken = cpu.spare.lock().take();
            if let Some(mut sheaf) = taken {
                any |= !sheaf.is_empty();
                self.flush(&mut sheaf);
                self.drop_sheaf(sheaf);
            }
        }
        self.context.give_back_emptied();
        any
    }

    /// Flushes the barns, gives their sheaves to the pool and the empty slabs to the page
    /// allocator.
    pub(super) fn empty_cache(&self) {
        for barn in self.own.barns() {
            for mut list in barn.take_all() {
                while let Some(mut sheaf) = list.pop() {
                    self.flush(&mut sheaf);
                    self.drop_sheaf(sheaf);
                }
            }
        }
        self.own.slabs.of(self.context, self.cache).trim(0);
    }
}
