//! The parameters of a new cache.

use crate::frame::Order;
use core::ffi::c_void;

/// The least alignment of objects: what `malloc` guarantees on 64-bit machines.
pub const MIN_ALIGN: usize = 16;

/// Bytes of a cache line of the processors that Quarry runs on.
const CACHE_LINE: usize = 64;

/// The objects of a new cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheParams {
    /// Bytes asked for per object.
    pub size: usize,
    /// Alignment of objects, a power of two; at least 16 is used.
    pub align: usize,
}

impl CacheParams {
    /// The same, but aligned so that an object shares its cache lines with as few others as
    /// possible (`SLAB_HWCACHE_ALIGN`): to 64 bytes, or where several objects fit into a line, to
    /// the smallest power of two that holds one. An impossible alignment stays.
    #[must_use]
    pub fn hardware_aligned(self) -> Self {
        let line = self.size.clamp(1, CACHE_LINE).next_power_of_two();
        match self.align.is_power_of_two() {
            true => Self { align: self.align.max(line), ..self },
            false => self,
        }
    }

    /// Bytes from one object to the next: the size, rounded to the alignment.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.size.max(1).next_multiple_of(self.align.max(MIN_ALIGN))
    }

    /// Returns whether a slab can hold an object at all; the arithmetic of policies relies on it.
    pub(super) fn is_possible(&self) -> bool {
        let possible = 1..=Order::MAX.bytes();
        possible.contains(&self.size)
            && possible.contains(&self.align)
            && self.align.is_power_of_two()
    }
}

/// Initialises the memory of one object, as the users of its cache expect it.
pub type Constructor = unsafe extern "C" fn(*mut c_void);

/// The other options of a cache (`struct kmem_cache_args`, Linux 6.12).
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheOptions {
    /// Runs once for each object when its slab is made, on the thread that needs the slab. Users
    /// free objects in the state in which they got them. The cache is never merged.
    pub constructor: Option<Constructor>,
    /// The cache shares its slabs with no other one (`SLAB_NO_MERGE`, Linux 6.5).
    pub unmerged: bool,
    /// Objects that a CPU should keep at hand, for policies that let a cache choose
    /// (`sheaf_capacity`, Linux 6.18). The cache is never merged.
    pub capacity: Option<u16>,
}

impl CacheOptions {
    /// Returns whether caches with these options may share their slabs with others.
    pub(super) fn are_mergeable(&self) -> bool {
        !self.unmerged && self.constructor.is_none() && self.capacity.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::CacheParams;

    #[test]
    fn objects_share_no_more_cache_lines_than_they_must() {
        let align = |size, align| CacheParams { size, align }.hardware_aligned().align;
        assert_eq!(
            [1, 16, 17, 32, 33, 64, 65, 4096].map(|size| align(size, 1)),
            [1, 16, 32, 32, 64, 64, 64, 64]
        );
        assert_eq!(align(24, 128), 128, "a stricter alignment stays");
        assert_eq!([0, 3, 48].map(|wrong| align(200, wrong)), [0, 3, 48], "for create to refuse");
    }
}
