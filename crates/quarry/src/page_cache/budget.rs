//! The interface of programs to the budget of the process: one limit for its heap and its caches.
//! `docs/budget.md` describes what is counted, and what happens at the limit.

use super::balancing;
use super::registration::{BudgetError, Kind, Registration};
use crate::instance::STACK;
use crate::process::{self, Mode, ensure_ready};
use crate::{background, limits};
use core::time::Duration;
use quarry_cache::{CachingStack, Shrinker, ShrinkerOptions};
use quarry_mm::frame::{FRAME_BYTES, MetadataKind};
use quarry_mm::stack::{BudgetStats, Pressure};
use quarry_mm::zone::{GroupId, GroupLimits, MarkOptions, Zone};
use quarry_sys::clock::coarse_ns;
use quarry_sys::statm::anonymous_bytes;

/// Longest sleep of a wait between two looks at the budget: 10 ms.
const STEP_NS: u64 = 10_000_000;

/// The budget of the process.
///
/// ```
/// # use quarry::{Budget, Count, Scanned, ShrinkControl, Shrinker, ShrinkerOptions};
/// # use std::sync::Mutex;
/// #[global_allocator]
/// static A: quarry::Quarry = quarry::Quarry;
///
/// struct Results(Mutex<Vec<String>>);
///
/// impl Shrinker for Results {
///     fn count(&self, _: &ShrinkControl) -> Count {
///         Count::Objects(self.0.lock().unwrap().len() as u64)
///     }
///
///     fn scan(&self, control: &ShrinkControl) -> Scanned {
///         let mut results = self.0.lock().unwrap();
///         let left = results.len().saturating_sub(control.objects as usize);
///         let freed = results.split_off(left).len() as u64;
///         Scanned::Objects { freed, scanned: freed }
///     }
/// }
///
/// fn main() {
///     let Some(budget) = Budget::get() else { return };
///     let results = std::sync::Arc::new(Results(Mutex::new(vec!["x".repeat(1000); 10_000])));
///     let registered = budget.register_shrinker(results.clone(), ShrinkerOptions::default());
///     assert!(budget.reclaim(1 << 20) > 0);
///     assert!(results.0.lock().unwrap().len() < 10_000);
///     drop(registered);
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Budget(());

/// A limit that was set, and how far the process is from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "memory goes back in the background; this says how far that is"]
pub struct Resize {
    target: usize,
}

/// The state of a [`Resize`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the limit that was set.
    pub target: usize,
    /// Bytes in use.
    pub used: usize,
}

impl Progress {
    /// Returns whether use is within the limit.
    #[must_use]
    pub const fn is_done(self) -> bool {
        self.used <= self.target
    }
}

/// The limits of a [`Group`], in bytes, rounded down to 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupOptions {
    /// Up to this size, the group keeps its pages when other parts of the program need memory.
    pub min: usize,
    /// Above this size, the background thread reclaims from the group.
    pub high: usize,
    /// At this size, requests of the group fail after one reclaim of the group.
    pub max: usize,
    /// Most bytes of pages that may be pinned at the same time.
    pub pinned_max: usize,
}

impl Default for GroupOptions {
    /// No protection and no limit.
    fn default() -> Self {
        Self { min: 0, high: usize::MAX, max: usize::MAX, pinned_max: usize::MAX }
    }
}

impl GroupOptions {
    fn limits(&self) -> GroupLimits {
        let [min, high, max, pinned_max] =
            [self.min, self.high, self.max, self.pinned_max].map(frames);
        GroupLimits { min, high, max, pinned_max }
    }
}

/// Limits for one part of the program: for the file mappings that name this group.
///
/// Dropping the handle does not remove the group while mappings belong to it.
#[derive(Debug)]
pub struct Group(GroupId);

/// The use of a group, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUse {
    /// Bytes that are charged to the group.
    pub used: usize,
    /// Bytes that are pinned, if the group limits them.
    pub pinned: usize,
    /// Requests that failed at the limit.
    pub refusals: u64,
    /// Reclaims of the group alone.
    pub reclaims: u64,
}

fn frames(bytes: usize) -> u32 {
    u32::try_from(bytes / FRAME_BYTES).unwrap_or(u32::MAX)
}

fn used() -> usize {
    STACK.pages().zones().budget().used() as usize * FRAME_BYTES
}

impl Budget {
    /// The budget; `None` with `QUARRY_DISABLE=1`, or if the system refuses the first memory.
    #[must_use]
    pub fn get() -> Option<Self> {
        (ensure_ready() == Mode::Ready).then_some(Self(()))
    }

    /// Sets the limit, like [`Quarry::set_limit`](crate::Quarry::set_limit). It applies to requests
    /// at once. The background thread then gives back memory until use is within the limit, as far
    /// as memory can be freed. Never fails: memory that is in use stays in use.
    pub fn set_limit(self, bytes: usize) -> Resize {
        limits::set_own(bytes);
        background::start_for_callbacks();
        balancing::want_now();
        Resize { target: bytes / FRAME_BYTES * FRAME_BYTES }
    }

    /// The distance of the process from the current limit.
    pub fn resize(self) -> Resize {
        Resize { target: self.limit().unwrap_or(usize::MAX) }
    }

    /// Bytes that may be in use; `None` if there is no limit. O(1).
    #[must_use]
    pub fn limit(self) -> Option<usize> {
        limits::effective()
    }

    /// Sets the marks below the limit. `min` bytes are kept for reclaim itself (`None`: a number
    /// that grows with the square root of the limit). `scale` is the gap between the marks in
    /// 10,000ths of the limit: 1 to 3,000, by default 10 (the kernel's `watermark_scale_factor`).
    pub fn set_marks(self, min: Option<usize>, scale: u32) {
        let options = MarkOptions { min: min.map(frames), scale };
        STACK.pages().zones().budget().set_marks(options);
    }

    /// The figures of the budget: a snapshot. O(caches * CPUs + cached pages).
    #[must_use]
    pub fn stats(self) -> BudgetStats {
        let _inside = crate::gate::enter();
        STACK.budget_stats()
    }

    /// Bytes that the process has in memory outside of the budget: stacks, code that was written
    /// to, memory that it has mapped itself. `None` without `/proc`. The result is too low by the
    /// memory that was requested from Quarry but not yet touched.
    #[must_use]
    pub fn unaccounted(self) -> Option<usize> {
        let zones = STACK.pages().zones();
        let dirty: usize = zones.all().map(|zone: &Zone| zone.dirty() as usize).sum();
        let stats = process::stats()?;
        let metadata: usize =
            MetadataKind::ALL.iter().map(|kind| stats.metadata_bytes(*kind)).sum();
        let ours = used() + dirty * FRAME_BYTES + metadata;
        Some(usize::try_from(anonymous_bytes()?).ok()?.saturating_sub(ours))
    }

    /// Reclaims until `bytes` fewer are in use, or nothing more can be freed; returns the bytes
    /// freed. Calls shrinkers on this thread: the caller must not hold anything that they need.
    pub fn reclaim(self, bytes: usize) -> usize {
        balancing::reclaim(bytes)
    }

    /// Registers a cache of the program that frees objects when memory is short, until the
    /// registration is dropped. An `Arc` of a shrinker is a shrinker.
    ///
    /// # Errors
    /// If 64 shrinkers are registered, or there is no memory.
    pub fn register_shrinker<S: Shrinker + 'static>(
        self,
        shrinker: S,
        options: ShrinkerOptions,
    ) -> Result<Registration, BudgetError> {
        let registered = Registration::of(shrinker, |object| {
            // SAFETY: the registration keeps the shrinker alive until it has removed it.
            unsafe { STACK.shrinkers().add(object, options) }.map(Kind::Shrinker)
        })?;
        STACK.pages().zones().budget().keep_reserve();
        background::start_for_callbacks();
        Ok(registered)
    }

    /// Calls `tell` when the pressure changes, on the background thread or on a thread that asks
    /// for a reclaim, until the registration is dropped.
    ///
    /// # Errors
    /// If 16 functions are registered, or there is no memory.
    pub fn on_pressure<F: Fn(Pressure) + Send + Sync + 'static>(
        self,
        tell: F,
    ) -> Result<Registration, BudgetError> {
        unsafe fn call<F: Fn(Pressure)>(context: *const (), level: Pressure) {
            // SAFETY: `context` is an `F`, which its registration keeps alive.
            unsafe { (*context.cast::<F>())(level) }
        }
        let registered = Registration::of(tell, |object| {
            // SAFETY: the registration keeps `tell`, which any thread may call, until it is
            // removed.
            unsafe { STACK.pressure().add(object.cast(), call::<F>) }.map(Kind::Pressure)
        })?;
        STACK.pages().zones().budget().keep_reserve();
        background::start_for_callbacks();
        Ok(registered)
    }

    /// The current shortage of memory. O(1).
    #[must_use]
    pub fn pressure(self) -> Pressure {
        STACK.pressure().level()
    }

    /// Makes a group.
    ///
    /// # Errors
    /// If there are 255 groups.
    pub fn group(self, options: &GroupOptions) -> Result<Group, BudgetError> {
        STACK.groups().create(options.limits()).map(Group).ok_or(BudgetError::TooMany)
    }
}

impl Resize {
    /// The current state. O(1).
    #[must_use]
    pub fn progress(self) -> Progress {
        Progress { target: self.target, used: used() }
    }

    /// Waits until use is within the limit, for at most `most`. Without a background thread, the
    /// caller itself reclaims, like [`Budget::reclaim`].
    pub fn wait(self, most: Duration) -> Progress {
        let end = coarse_ns().saturating_add(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX));
        loop {
            let progress = self.progress();
            let left = end.saturating_sub(coarse_ns());
            if progress.is_done() || left == 0 {
                return progress;
            }
            if !background::has_thread() {
                balancing::reclaim(progress.used - progress.target);
            }
            balancing::wait_for_progress(left.min(STEP_NS));
        }
    }
}

impl Group {
    /// The group with this number; `None` if no group has it.
    #[must_use]
    pub fn of(id: GroupId) -> Option<Self> {
        STACK.groups().is_there(id).then_some(Self(id))
    }

    /// The number by which file mappings name the group.
    #[must_use]
    pub fn id(&self) -> GroupId {
        self.0
    }

    /// Changes the limits. Use beyond them stays, and falls as the group asks for more memory.
    pub fn set_limits(&self, options: &GroupOptions) {
        STACK.groups().at(self.0).set_limits(options.limits());
    }

    /// The current use of the group. O(1).
    #[must_use]
    pub fn usage(&self) -> GroupUse {
        let group = STACK.groups().at(self.0);
        let (refusals, reclaims) = group.counts();
        let [used, pinned] = [group.used(), group.pinned()].map(|frames| frames as usize);
        GroupUse { used: used * FRAME_BYTES, pinned: pinned * FRAME_BYTES, refusals, reclaims }
    }

    /// Removes the group.
    ///
    /// # Errors
    /// The group itself, if file mappings still belong to it.
    pub fn remove(self) -> Result<(), Self> {
        if STACK.groups().remove(self.0) { Ok(()) } else { Err(self) }
    }
}
