//! The one seam through which all shared state reaches its atomics.
//!
//! Under `--cfg quarry_model` the same names come from shuttle, so that a model checker decides
//! every interleaving; elsewhere they are core's own and cost nothing.

#[cfg(not(quarry_model))]
pub use core::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering, fence,
};

#[cfg(quarry_model)]
pub use shuttle::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering, fence,
};

/// Tells the CPU (or the model checker) that this thread waits for another.
#[inline]
pub fn relax() {
    #[cfg(not(quarry_model))]
    core::hint::spin_loop();
    #[cfg(quarry_model)]
    shuttle::thread::yield_now();
}
