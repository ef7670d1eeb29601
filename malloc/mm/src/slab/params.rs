//! The parameters of a new cache.

use crate::frame::Order;
use core::ffi::c_void;

/// The least alignment of objects, which `malloc` guarantees on 64-bit machines.
pub const MIN_ALIGN: usize = 16;

const CACHE_LINE: usize = 64;

/// The objects of a new cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheParams {
    /// Requested bytes per object.
    pub size: usize,
    /// Alignment of objects, a power of two. Below 16 counts as 16.
    pub align: usize,
}

impl CacheParams {
    /// The same objects, aligned so that they share as few cache lines as possible
    /// (`SLAB_HWCACHE_ALIGN`): to 64 bytes, or if several objects fit into a line, to the smallest
    /// power of two that holds one. An invalid alignment is kept.
    #[must_use]
    pub fn hardware_aligned(self) -> Self {
        let line = self.size.clamp(1, CACHE_LINE).next_power_of_two();
        match self.align.is_power_of_two() {
            true => Self { align: self.align.max(line), ..self },
            false => self,
        }
    }

    /// Bytes from one object to the next: the size, rounded up to the alignment.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.size.max(1).next_multiple_of(self.align.max(MIN_ALIGN))
    }

    /// Returns whether a slab can hold an object. The arithmetic of policies relies on this.
    pub(super) fn is_possible(&self) -> bool {
        let possible = 1..=Order::MAX.bytes();
        possible.contains(&self.size)
            && possible.contains(&self.align)
            && self.align.is_power_of_two()
    }
}

/// Initialises the memory of one object.
#[derive(Clone, Copy, Debug)]
pub struct Constructor(pub(super) unsafe extern "C" fn(*mut c_void));

impl Constructor {
    /// A constructor of the objects of a cache.
    ///
    /// # Safety
    /// The function may be called for the memory of any object of each cache that has this
    /// constructor, on any thread, as long as the cache lives. It does not unwind, use the cache,
    /// create or destroy a cache, or wait for a thread that does.
    #[must_use]
    pub const unsafe fn new(function: unsafe extern "C" fn(*mut c_void)) -> Self {
        Self(function)
    }
}

/// The other options of a cache (`struct kmem_cache_args`, Linux 6.12).
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheOptions {
    /// Runs once for each object when its slab is made, on the thread that needs the slab. Users
    /// free objects in the state that the constructor made. The cache is never merged.
    pub constructor: Option<Constructor>,
    /// The cache is never merged (`SLAB_NO_MERGE`, Linux 6.5).
    pub unmerged: bool,
    /// Objects that a CPU should keep, for policies that let a cache choose (`sheaf_capacity`,
    /// Linux 6.18). The cache is never merged.
    pub capacity: Option<u16>,
    /// No CPU keeps objects of the cache: each object goes back to its slab, which finds every one
    /// that is freed twice. The cache is never merged.
    pub loose: bool,
}

impl CacheOptions {
    pub(super) fn are_mergeable(&self) -> bool {
        !self.unmerged && !self.loose && self.constructor.is_none() && self.capacity.is_none()
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
