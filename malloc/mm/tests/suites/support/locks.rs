//! The locks of a stack, by their names.

use super::{Backing, Bed, VirtualConfig, small};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::SlabPolicy;
use quarry_sys::percpu::VirtualSlots;
use std::collections::BTreeMap;

const CPUS: u32 = 3;
/// Number of nodes of the beds.
pub(crate) const NODES: usize = 1;

/// A bed, one CPU of which has worked.
pub(crate) fn bed<S: SlabPolicy<VirtualSlots> + 'static>() -> Bed<VirtualConfig<S>> {
    let bed = Bed::new(Backing::Linux, 4096, CPUS, &StackOptions { heap: true, ..small() });
    for size in [100, 40 << 10, 2 << 20] {
        let object = bed.stack.alloc(size).expect("there is memory");
        // SAFETY: the object was just allocated, and no other code uses it.
        unsafe { bed.stack.free(object) };
    }
    bed
}

/// The number of locks of each name. Checks that all are free, and no counting lock comes twice.
pub(crate) fn visited<S: SlabPolicy<VirtualSlots> + 'static>(
    bed: &Bed<VirtualConfig<S>>,
) -> BTreeMap<&'static str, usize> {
    let (mut names, mut addresses) = (BTreeMap::new(), Vec::new());
    bed.stack.visit_locks(&mut |name, lock| {
        assert!(lock.is_free(), "{name} is held while nobody works");
        *names.entry(name).or_insert(0) += 1;
        if lock.stats().is_some() {
            addresses.push(std::ptr::from_ref(lock).cast::<u8>());
        }
    });
    let all = addresses.len();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), all, "no lock is visited twice");
    names
}

/// The locks that a stack has under every policy, and the number of each.
pub(crate) const OF_ALL: [(&str, usize); 17] = [
    ("zone->lock", NODES),
    ("zone->steps", NODES),
    ("zone->purging", NODES),
    ("arena->lock", 1),
    ("pcp->lock", CPUS as usize * NODES),
    ("caches->adding", 1),
    ("mappings->lock", 1),
    ("metadata->chunk", 1),
    ("footprint->given", 1),
    ("withheld->block", 1),
    ("checks->quarantine", 4),
    ("checks->hidden", 1),
    ("checks->guards", 1),
    ("balance->costs", 1),
    ("page_cache->build", 1),
    ("percpu->once", 1),
    ("percpu->bounds", 1),
];
