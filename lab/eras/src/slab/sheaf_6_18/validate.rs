//! Checks of the invariants of one cache.

use super::cache::View;
use super::sheaf::Sheaf;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::percpu::Arrays;
use quarry_sys::primitive::Ordering;

impl<P: Arrays> View<'_, P> {
    pub(super) fn validate(&self) -> Result<(), Broken> {
        let check = Check::of("sheaves of a cache").at(self.cache.id().index() as u64);
        let mut sheaves = 0;
        for (_, cpu) in self.own.used_cpus() {
            let spare = cpu.spare.lock();
            let len = spare.as_ref().map_or(0, Sheaf::len);
            check.that(len <= self.capacity(), "len(spare) <= capacity")?;
            sheaves += u64::from(spare.is_some());
        }
        for barn in self.own.barns() {
            barn.validate(self.capacity())?;
            sheaves += u64::from(barn.full()) + u64::from(barn.empty());
        }
        let counted = self.own.sheaves.load(Ordering::Relaxed);
        check.equal(counted, sheaves, "sheaves = spares + full + empty")?;
        self.own.slabs.of(self.context, self.cache).validate()
    }
}
