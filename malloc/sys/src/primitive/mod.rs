//! The seam for all that threads share: atomics, tasks, clock, futexes, timers, plain memory.
//!
//! The configuration of a build chooses the backend of the seam:
//!
//! | built with | backend | file |
//! |---|---|---|
//! | nothing (products) | the CPU and the kernel; the seam itself costs nothing | `product` |
//! | `--cfg quarry_model` | shuttle, which decides every interleaving | `model` |
//! | `--cfg quarry_sim` | a simulated machine, which the binary contains | `simulated` |
//!
//! In the last two builds, the atomics are wrappers that report each operation before it happens
//! (`watched`). They have the size, the alignment and the zero value of core's, so fresh memory may
//! hold arrays of them.
//!
//! The model is sequentially consistent, as is a simulated machine on one OS thread. So both find
//! wrong interleavings, but not wrong memory orders.
//!
//! Order of the files, each using only those before it: `machine`; `product`, `model` or
//! `simulated` (one of them is the module `backend`); `atomics` or `watched` (one of them is the
//! module `atomics`); `task`, `clock`, `futex`, `timer`, `touch`, `effort`, `announce`.

pub mod announce;
#[cfg_attr(any(quarry_model, quarry_sim), path = "watched.rs")]
mod atomics;
#[cfg_attr(quarry_model, path = "model.rs")]
#[cfg_attr(quarry_sim, path = "simulated.rs")]
#[cfg_attr(not(any(quarry_model, quarry_sim)), path = "product.rs")]
mod backend;
pub mod clock;
pub mod effort;
pub mod futex;
mod machine;
pub mod task;
pub mod timer;
pub mod touch;

pub use atomics::{
    AtomicBool, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize, Ordering, fence,
};
#[cfg(quarry_model)]
pub use backend::point;
#[cfg(quarry_sim)]
pub use backend::run_on;
pub use machine::{Access, Effort, Machine};

/// Reports that this task busily waits for another task: it reads the awaited word again at once.
#[inline]
pub fn relax() {
    backend::relax();
}
