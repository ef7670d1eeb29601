//! Answers about parked objects that a policy can give without taking them out.

use super::cache::{Cache, CacheId};
use super::context::SlabContext;
use quarry_sys::percpu::{Object, PerCpu};

/// The optional part of a policy: answers that it can give at a glance. Every default is "I cannot
/// tell", so a policy that parks nothing implements this with an empty block.
pub trait ParkedObjects<P: PerCpu>: Sized {
    /// Returns whether `object` seems to lie among the running CPU's free objects. False positives
    /// are rare, and [`is_parked`](Self::is_parked) has none.
    #[inline(always)]
    fn seems_parked(_percpu: &P, _id: CacheId, _object: Object) -> bool {
        false
    }

    /// Returns whether `object` is free already and lies where the running CPU would hand it out
    /// next.
    fn is_parked(&self, _context: &SlabContext<'_, P>, _cache: &Cache, _object: Object) -> bool {
        false
    }

    /// An activity counter: changes on every alloc and free (two equal batches may cancel out).
    /// `None` where the policy has no counter that costs less than its statistics. O(slots).
    fn activity(&self, _context: &SlabContext<'_, P>, _cache: &Cache) -> Option<u64> {
        None
    }
}
