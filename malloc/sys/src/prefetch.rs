//! Prefetches cache lines.

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Prefetches the cache line at `address`, which need not be readable; only on x86-64. Unlike a
/// load, a prefetch does not wait for an earlier atomic operation.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which never faults; every x86-64 has it.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
