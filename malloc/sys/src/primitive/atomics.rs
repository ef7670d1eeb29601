//! The atomics of products: those of `core`.

pub use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize, Ordering, fence,
};
