//! Giving back when memory is short, or has not been used for a while.

use super::cache::{View, count};
use quarry_sys::percpu::{Arrays, Object, SlotIndex};

impl<P: Arrays> View<'_, P> {
    /// Gives objects that were taken out of arrays back to the slabs.
    pub(super) fn take_back(&self, objects: &[Object]) {
        count(&self.own.batched_out, objects.len());
        self.to_slabs(objects);
        self.context.give_back_emptied();
    }

    /// Flushes the spare sheaves of the CPUs that `which` chooses, and gives their memory back;
    /// returns whether there was any.
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

    /// Flushes the barns, gives the memory of their sheaves back, and then the empty slabs.
    pub(super) fn empty_cache(&self) {
        for barn in self.own.barns() {
            for mut list in barn.take_all() {
                while let Some(mut sheaf) = list.pop() {
                    self.flush(&mut sheaf);
                    self.drop_sheaf(sheaf);
                }
            }
        }
        self.own.slabs.trim(self.context, self.cache, 0);
    }
}
