//! Checks of the equations in `slab`, `shared`, `alien` and `node`, and of equations between them.
//! Slow; for tests.

use super::cache::SlabCache;
use quarry_mm::frame::{NodeId, Pfn};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::percpu::Arrays;

impl<P: Arrays> SlabCache<'_, P> {
    pub(super) fn visit_free(&self, slab: Pfn, visit: &mut dyn FnMut(u32)) {
        self.slabs().at(slab).visit_free(visit);
    }

    /// Checks every slab, list and array of the cache. O(frames). No other thread uses the cache.
    pub(super) fn validate(&self) -> Result<(), Broken> {
        let check = Check::of("cache of slab");
        self.context.percpu.area().validate_room(usize::MAX)?;
        let (mut slabs, mut parked, mut of_nodes) = (0, 0, true);
        for (number, node) in self.nodes().enumerate() {
            let lists = node.lists.lock();
            lists.validate(self.slabs())?;
            slabs += lists.slabs();
            parked += lists.shared.level() as u64;
            of_nodes &= self.are_of(NodeId(number as u8), lists.shared.objects());
        }
        for (home, aliens) in self.tables.aliens(self.cache.id()) {
            for &object in aliens.look().objects() {
                let is_parked = !self.slabs().of(object).is_free(object);
                check.that(is_parked, "objects in alien arrays count as in use in their slabs")?;
                of_nodes &= self.home(object) == home;
                parked += 1;
            }
        }
        check.that(of_nodes, "shared and alien arrays hold objects of their home node's memory")?;
        let (mut found, mut inuse) = (0u64, 0);
        for slab in self.context.slabs_of(self.cache) {
            found += 1;
            inuse += u64::from(self.slabs().at(slab).inuse());
        }
        check.equal(slabs, found, "slabs of the nodes = slabs that frames belong to")?;
        let area = self.context.percpu.area();
        for slot in area.awake() {
            let level = area.slot_level(slot, self.array());
            let is_within = level <= area.capacity(self.array()) as u64;
            check.at(slot.0).that(is_within, "objects in a CPU's array <= its limit")?;
            parked += level;
        }
        check.that(parked <= inuse, "parked objects <= objects in use in slabs")
    }
}
