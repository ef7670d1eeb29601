//! Optional answers of a policy about its parked objects.

use super::cache::{Cache, CacheId};
use super::context::SlabContext;
use quarry_sys::percpu::{Object, PerCpu};

/// Answers about parked objects. The defaults say that no object is parked: an empty `impl` is
/// enough for a policy that parks nothing or cannot tell.
pub trait ParkedObjects<P: PerCpu>: Sized {
    /// Returns whether `object` seems to be among the running CPU's free objects. The answer true
    /// is rarely wrong; that of [`is_parked`](Self::is_parked) never is.
    #[inline(always)]
    fn seems_parked(_percpu: &P, _id: CacheId, _object: Object) -> bool {
        false
    }

    /// Returns whether `object` is free, and one of the next few that the running CPU hands out.
    fn is_parked(&self, _context: &SlabContext<'_, P>, _cache: &Cache, _object: Object) -> bool {
        false
    }

    /// A number that changes with every allocation and free (two equal batches may cancel out).
    /// `None` if the policy has no counter that is cheaper to read than its statistics. O(slots).
    fn activity(&self, _context: &SlabContext<'_, P>, _cache: &Cache) -> Option<u64> {
        None
    }
}
