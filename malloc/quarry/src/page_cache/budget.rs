//! The budget of the process, as programs use it: one limit for the heap and all caches.
//! `docs/budget.md` describes what is counted, and what happens at the limit.

use super::balancing;
use super::registration::{Kind, Registration};
use crate::error::{Error, accept};
use crate::instance::{STACK, zones};
use crate::limits;
use crate::process::{self, Mode, ensure_ready};
use quarry_cache::{MOST_CALLBACKS, MOST_SHRINKERS, Shrinker, ShrinkerOptions};
use quarry_mm::stack::StackHost;
use quarry_mm::stack::{BudgetStats, Pressure};
use quarry_mm::zone::MarkOptions;

/// A size in bytes above that of any heap.
const MOST_BYTES: usize = 16 << 40;

/// The budget of the process.
///
/// ```
/// use quarry::{Budget, Pressure, Registration};
///
/// let budget = Budget::get().expect("Quarry serves");
/// let told: Registration = budget.on_pressure(|now: Pressure| eprintln!("{now:?} pressure"))?;
/// let stats = budget.stats();
/// println!("{} of {} bytes, and {} beside them", stats.used, stats.limit, stats.beside);
/// drop(told);
/// # Ok::<(), quarry::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Budget(());

impl Budget {
    /// The budget; `None` with `QUARRY_DISABLE=1`, or if the system refuses the first memory.
    #[must_use]
    pub fn get() -> Option<Self> {
        (ensure_ready() == Mode::Ready).then_some(Self(()))
    }

    /// Bytes that may be in use; `None` if there is no limit. O(1).
    #[must_use]
    pub fn limit(self) -> Option<usize> {
        limits::effective()
    }

    /// Sets the marks below the limit. `min` bytes are kept for reclaim itself (`None`: a number
    /// that grows with the square root of the limit). `scale` is the gap between the marks in
    /// 10,000ths of the limit: 1 to 3,000, by default 10 (the kernel's `watermark_scale_factor`).
    /// Where the high mark would exceed a quarter of the limit, all marks are lowered in
    /// proportion. Without a limit the marks are 0; both values apply once a limit is set.
    ///
    /// # Errors
    /// [`Error::NotAccepted`] for a scale outside this range, or a `min` above the limit.
    pub fn set_marks(self, min: Option<usize>, scale: u32) -> Result<(), Error> {
        accept("the scale of the marks", scale as usize, 1..=3000)?;
        accept("the min mark", min.unwrap_or(0), 0..=self.limit().unwrap_or(MOST_BYTES))?;
        let options = MarkOptions { min: min.map(|bytes| limits::frames(bytes as u64)), scale };
        zones().budget().set_marks(options);
        Ok(())
    }

    /// The figures of the budget, and of the memory beside it: a snapshot. O(caches * CPUs + cached
    /// pages), and reads a file of `/proc`.
    #[must_use]
    pub fn stats(self) -> BudgetStats {
        process::stats().unwrap_or_default().budget
    }

    /// Reclaims until `bytes` fewer are in use, or nothing more can be freed; returns the bytes
    /// freed. Calls shrinkers on this thread: the caller must not hold anything that they need.
    pub fn reclaim(self, bytes: usize) -> usize {
        balancing::reclaim(bytes)
    }

    /// Registers a cache of the program, which frees objects when memory is short. A drop of the
    /// registration removes it. An `Arc` of a shrinker is a shrinker.
    ///
    /// # Errors
    /// If 64 shrinkers are registered, or there is no memory.
    pub fn register_shrinker<S: Shrinker + 'static>(
        self,
        shrinker: S,
        options: ShrinkerOptions,
    ) -> Result<Registration, Error> {
        Registration::of(shrinker, ("shrinkers", MOST_SHRINKERS), |object| {
            // SAFETY: the registration keeps the shrinker alive until it has removed it.
            unsafe { STACK.cached().shrinkers().add(object, options) }.map(Kind::Shrinker)
        })
    }

    /// Calls `tell` when the pressure changes, on the background thread or on a thread that calls
    /// for a reclaim. A drop of the registration ends this.
    ///
    /// # Errors
    /// If 16 functions are registered, or there is no memory.
    pub fn on_pressure<F: Fn(Pressure) + Send + Sync + 'static>(
        self,
        tell: F,
    ) -> Result<Registration, Error> {
        unsafe fn call<F: Fn(Pressure)>(context: *const (), level: Pressure) {
            // SAFETY: `context` is an `F`, which its registration keeps alive.
            unsafe { (*context.cast::<F>())(level) }
        }
        Registration::of(tell, ("callbacks", MOST_CALLBACKS), |object| {
            // SAFETY: the registration keeps `tell`, which any thread may call, until its removal.
            unsafe { STACK.cached().pressure().add(object.cast(), call::<F>) }.map(Kind::Pressure)
        })
    }

    /// The current shortage of memory. O(1).
    #[must_use]
    pub fn pressure(self) -> Pressure {
        quarry_cache::pressure(&STACK)
    }
}
