//! The objects that are in use in a cache that the program wants to destroy.

use super::context::CacheIn;
use super::policy::SlabPolicy;
use crate::frame::Pfn;
use core::fmt;
use quarry_sys::percpu::{Object, PerCpu};

/// Maximum number of objects that a report names.
const NAMED: usize = 8;
const WINDOW: u32 = 1024;

/// The number of objects in use, and the addresses of the first eight of them.
///
/// `objects` includes objects that are parked on CPUs that the shrink could not reach.
///
/// Equation: objects that callers have `= objects - parked`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Remaining {
    objects: u64,
    parked: u64,
    named: [Option<Object>; NAMED],
}

// SAFETY: the addresses are only ever printed and compared.
unsafe impl Send for Remaining {}
// SAFETY: as for Send.
unsafe impl Sync for Remaining {}

impl Remaining {
    /// The objects in use of `cache`; it was shrunk, and no thread uses it. O(frames + objects).
    pub(crate) fn of<P: PerCpu, S: SlabPolicy<P>>(policy: &S, cache: CacheIn<'_, P>) -> Self {
        let mut all = Self { objects: 0, parked: 0, named: [None; NAMED] };
        for slab in cache.context.slabs_of(&cache) {
            let mut start = 0;
            while start < cache.objects() {
                all.add_window(policy, cache, slab, start);
                start += WINDOW;
            }
        }
        let stats = policy.stats(cache);
        let in_use = stats.active_objects.saturating_sub(stats.parked_objects);
        all.parked = all.objects.saturating_sub(in_use);
        all
    }

    fn add_window<P: PerCpu, S: SlabPolicy<P>>(
        &mut self,
        policy: &S,
        cache: CacheIn<'_, P>,
        slab: Pfn,
        start: u32,
    ) {
        let mut is_free = [false; WINDOW as usize];
        policy.visit_free(cache, slab, &mut |number| {
            let within = number.checked_sub(start).map(|within| within as usize);
            if let Some(free) = within.and_then(|within| is_free.get_mut(within)) {
                *free = true;
            }
        });
        let address = cache.context.zones.arena().address(slab);
        for number in start..cache.objects().min(start + WINDOW) {
            if is_free[(number - start) as usize] {
                continue;
            }
            if let Some(place) = self.named.iter_mut().find(|place| place.is_none()) {
                // SAFETY: the slab is the cache's, it has more than `number` objects, and each
                // object is larger than its link.
                let object = unsafe { cache.object_at(address, number).add(cache.link_bytes()) };
                *place = Some(object);
            }
            self.objects += 1;
        }
    }

    /// Number of objects in use, with those that are parked on unreachable CPUs.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// Number of objects that are parked on CPUs whose slots the shrink could not drain: 0 unless
    /// the kernel refuses `membarrier`.
    #[must_use]
    pub fn parked(&self) -> u64 {
        self.parked
    }

    /// The addresses of the first objects, at most eight, in ascending order.
    pub fn named(&self) -> impl Iterator<Item = Object> {
        self.named.into_iter().flatten()
    }
}

impl core::error::Error for Remaining {}

impl fmt::Display for Remaining {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.objects {
            1 => out.write_str("1 object is still in use:")?,
            objects => write!(out, "{objects} objects are still in use:")?,
        }
        let mut named = 0;
        for object in self.named() {
            write!(out, " {object:p}")?;
            named += 1;
        }
        match self.objects.saturating_sub(named) {
            0 => {}
            more => write!(out, " and {more} more")?,
        }
        match self.parked {
            0 => Ok(()),
            parked => {
                write!(out, "; {parked} of them are parked on CPUs that could not be reached")
            }
        }
    }
}

impl fmt::Debug for Remaining {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}
