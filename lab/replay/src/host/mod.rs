//! The hosts that run the tasks of a replay: threads of the system, or tasks of a simulated
//! machine. Both backends export the same names, so the same walkers run on either.
//!
//! | built with | a task is | file |
//! |---|---|---|
//! | nothing | a thread | `threads` |
//! | `--cfg quarry_sim` | a task of the machine that `run_on` was given | `tasks`, `word` |
//!
//! Time comes from `quarry_sys`; on a simulated machine it is simulated time.

#[cfg_attr(not(quarry_sim), path = "threads.rs")]
#[cfg_attr(quarry_sim, path = "tasks.rs")]
mod backend;
#[cfg(quarry_sim)]
mod word;

#[cfg(quarry_sim)]
pub use backend::{Host, run_on};
#[cfg(quarry_sim)]
pub(crate) use backend::{cpu, cpus};

pub(crate) use backend::{
    Barrier, Condvar, Mutex, MutexGuard, RwLock, clear, cpu_ns, scope, sleep, spawn, spawn_handler,
    wait, work, yield_now,
};

use std::time::Duration;

/// On a simulated machine, clearing this many bytes or more takes the time of a write to memory.
pub(crate) const CLEARED_PAGE: usize = 4096;

/// A moment of the tasks' time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    ns: u64,
}

impl Moment {
    #[inline]
    pub(crate) fn now() -> Self {
        Self { ns: quarry_sys::primitive::clock::now_ns() }
    }

    /// The time that has passed since this moment.
    #[inline]
    pub(crate) fn elapsed(self) -> Duration {
        Duration::from_nanos(Self::now().ns.saturating_sub(self.ns))
    }

    /// The time from `earlier` until this moment; 0 if `earlier` is later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
    }

    /// The moment this many nanoseconds later.
    pub(crate) fn after(self, ns: u64) -> Self {
        Self { ns: self.ns + ns }
    }
}
