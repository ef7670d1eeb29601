//! Shrinkers: caches of the program that free objects on demand (`struct shrinker`, Linux 6.x).
//!
//! A shrinker reports how many objects it could free, and frees as many as a reclaim asks for. The
//! reclaim derives the number from this count and its priority alone (`do_shrink_slab`, Linux 3.12
//! to 6.18), so that all caches shrink in proportion:
//!
//! ```text
//! delta = count >> priority * 4 / seeks          (count / 2 where seeks = 0)
//! scan  = min(max(deferred >> priority, min(deferred, batch)) + delta, 2 * count)
//! ```
//! The shrinker scans in batches. If fewer objects than a batch are left to scan, they are
//! deferred: the next reclaim adds the part of them that its priority selects (Linux 5.13), but at
//! least a batch. (Otherwise a small cache keeps its objects while many passes take pages.)
//!
//! A reclaim does not trust a shrinker's results: it counts only frames that left the budget. It
//! bounds each call by the number of objects that fit into memory, and by a number of batches.

use super::cost::Share;
use quarry_sys::hooks::{HookId, Hooks};

/// Maximum number of shrinkers of a stack.
pub const MOST_SHRINKERS: usize = 64;
/// Number of objects in a batch if a shrinker gives none (`SHRINK_BATCH`, Linux 3.12).
const BATCH: u64 = 128;
/// Maximum number of batches of a call: a shrinker that claims more must not hang a reclaim.
const MOST_BATCHES: u32 = 1 << 16;
/// A call ends after this many batches in a row that free nothing.
const MOST_IDLE_BATCHES: u32 = 32;
/// Bytes of the smallest object.
const LEAST_OBJECT: u64 = 16;

/// The reclaim that asks a shrinker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimCaller {
    /// The background thread, which reclaims up to the high mark.
    Background,
    /// A thread of the program that asked for a reclaim.
    Explicit,
}

/// The request to a shrinker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShrinkControl {
    /// Objects to look at (`nr_to_scan`); 0 in a call of `count`.
    pub objects: u64,
    /// The reclaim that asks.
    pub caller: ReclaimCaller,
}

/// Number of objects that a shrinker could free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The shrinker could free this many objects.
    Objects(u64),
    /// The shrinker has no objects (`SHRINK_EMPTY`).
    Empty,
    /// The number is unknown, because the shrinker would have to wait (0 in the kernel).
    Unknown,
}

/// The result of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// The shrinker has looked at objects.
    Objects {
        /// Objects that were freed.
        freed: u64,
        /// Objects that were looked at, including freed ones.
        scanned: u64,
    },
    /// The shrinker cannot free now, and is not asked again in this reclaim (`SHRINK_STOP`).
    Stop,
}

/// A cache of the program that can free objects. Its functions run on the background thread, or on
/// a thread that asks for a reclaim, never inside `malloc` or `free`, one call at a time. They may
/// allocate and free: such a request may use the reserve below the min mark, and never reclaims.
pub trait Shrinker: Send + Sync {
    /// Number of objects that could be freed.
    fn count(&self, control: &ShrinkControl) -> Count;

    /// Looks at `control.objects` objects, the oldest first, and frees those that can be freed.
    fn scan(&self, control: &ShrinkControl) -> Scanned;

    /// The total of objects that were made again after a scan freed them; 0 if not known. A cache
    /// with many of these is scanned less, and the page cache more.
    fn refaults(&self) -> u64 {
        0
    }
}

impl<P: core::ops::Deref<Target: Shrinker> + Send + Sync> Shrinker for P {
    fn count(&self, control: &ShrinkControl) -> Count {
        (**self).count(control)
    }

    fn scan(&self, control: &ShrinkControl) -> Scanned {
        (**self).scan(control)
    }

    fn refaults(&self) -> u64 {
        (**self).refaults()
    }
}

/// The description of a shrinker, given when it is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShrinkerOptions {
    /// The cost of making an object again: 2 for a page (`DEFAULT_SEEKS`), 0 for next to nothing.
    pub seeks: u32,
    /// Objects of one scan; 0 stands for 128.
    pub batch: u32,
    /// Bytes of an object, to estimate available memory; 0 if not known.
    pub object_bytes: usize,
}

impl Default for ShrinkerOptions {
    fn default() -> Self {
        Self { seeks: 2, batch: 0, object_bytes: 0 }
    }
}

#[derive(Clone, Copy)]
struct Registered {
    shrinker: *const (),
    count: unsafe fn(*const (), &ShrinkControl) -> Count,
    scan: unsafe fn(*const (), &ShrinkControl) -> Scanned,
    refaults: unsafe fn(*const ()) -> u64,
    options: ShrinkerOptions,
    /// Objects that should have been scanned and were not (`nr_deferred`).
    deferred: u64,
    /// The last result of `count`.
    objects: u64,
}

// SAFETY: any thread may use a `Shrinker`, and the caller of `add` keeps it alive.
unsafe impl Send for Registered {}

/// The part of its objects that a reclaim asks of each shrinker.
#[derive(Clone, Copy)]
pub(super) enum Ask {
    /// The share of a priority.
    Share(u32, Share),
    /// `.0` of `.1` objects, in whatever batches.
    Owed(u64, u64),
}

impl Ask {
    /// Of `count` objects, those to look at, and those to look at because they were deferred.
    fn of(self, count: u64, batch: u64, shrinker: &Registered) -> (u64, u64) {
        let seeks = shrinker.options.seeks;
        match self {
            Self::Share(priority, share) => {
                // Less than a batch is not lost: many small passes are as good as a large one.
                let deferred = (shrinker.deferred >> priority).max(shrinker.deferred.min(batch));
                (share.of(delta_of(count, priority, seeks)), deferred)
            }
            Self::Owed(part, of) => {
                // An object that costs as much as a page (2 seeks) is freed like a page.
                let part = u128::from(delta_of(count, 1, seeks)) * u128::from(part);
                ((part / u128::from(of.max(1))) as u64, 0)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shrunk {
    pub(super) scanned: u64,
    pub(super) freed: u64,
}

impl core::ops::AddAssign for Shrunk {
    fn add_assign(&mut self, other: Self) {
        self.scanned = self.scanned.saturating_add(other.scanned);
        self.freed = self.freed.saturating_add(other.freed);
    }
}

/// The shrinkers of a stack; all zero bytes at first.
pub struct Shrinkers {
    all: Hooks<Registered, MOST_SHRINKERS>,
}

impl Shrinkers {
    pub(super) const fn new() -> Self {
        Self { all: Hooks::new() }
    }

    /// Registers a shrinker; `None` if there are too many.
    ///
    /// # Safety
    /// The shrinker lives until [`remove`](Self::remove) has removed it.
    pub unsafe fn add<S: Shrinker>(
        &self,
        shrinker: *const S,
        options: ShrinkerOptions,
    ) -> Option<HookId> {
        unsafe fn at<'a, S>(shrinker: *const ()) -> &'a S {
            // SAFETY: registered as an `S`, which lives (the caller's promise).
            unsafe { &*shrinker.cast::<S>() }
        }
        self.all.add(Registered {
            shrinker: shrinker.cast(),
            // SAFETY: these functions are called only with `shrinker`, while it is registered.
            count: |shrinker, control| unsafe { at::<S>(shrinker) }.count(control),
            // SAFETY: as above.
            scan: |shrinker, control| unsafe { at::<S>(shrinker) }.scan(control),
            // SAFETY: as above.
            refaults: |shrinker| unsafe { at::<S>(shrinker) }.refaults(),
            options,
            deferred: 0,
            objects: 0,
        })
    }

    /// Removes a shrinker, which is not called any more then. Waits if another thread is in its
    /// scan; returns false if the calling thread itself is in its scan.
    pub fn remove(&self, id: HookId) -> bool {
        self.all.remove(id).is_ok()
    }

    /// Returns whether a shrinker is registered.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.all.is_any()
    }

    /// Asks every shrinker for its part; memory can hold `most` objects.
    pub(super) fn shrink(&self, caller: ReclaimCaller, ask: Ask, most: u64) -> Shrunk {
        let mut shrunk = Shrunk::default();
        self.all.for_each(|one| shrunk += one.shrink(caller, ask, most));
        shrunk
    }

    pub(super) fn refaults(&self) -> u64 {
        let mut sum = 0_u64;
        // SAFETY: the shrinker is registered, so it lives.
        self.all.for_each(|one| sum = sum.saturating_add(unsafe { (one.refaults)(one.shrinker) }));
        sum
    }

    pub(super) fn reclaimable_bytes(&self) -> usize {
        let mut sum = 0_usize;
        self.all.for_each(|one| {
            let objects = usize::try_from(one.objects).unwrap_or(usize::MAX);
            sum = sum.saturating_add(objects.saturating_mul(one.options.object_bytes));
        });
        sum
    }

    pub(super) fn adopt_in_child(&self) {
        self.all.adopt_in_child();
    }
}

impl Registered {
    /// Runs one shrinker (`do_shrink_slab`).
    fn shrink(&mut self, caller: ReclaimCaller, ask: Ask, most: u64) -> Shrunk {
        let control = |objects| ShrinkControl { objects, caller };
        // SAFETY: the shrinker is registered, so it lives.
        let count = match unsafe { (self.count)(self.shrinker, &control(0)) } {
            Count::Objects(count) => count.min(most),
            Count::Empty => 0,
            Count::Unknown => return Shrunk::default(),
        };
        self.objects = count;
        if count == 0 {
            self.deferred = 0;
            return Shrunk::default();
        }
        let batch = if self.options.batch == 0 { BATCH } else { self.options.batch.into() };
        let (delta, deferred) = ask.of(count, batch, self);
        let mut left = deferred.saturating_add(delta).min(2 * count);
        let least = if let Ask::Owed(..) = ask { 1 } else { batch };
        let (mut shrunk, mut batches, mut idle) = (Shrunk::default(), 0, 0);
        // If memory is very short (`left >= count`), a cache smaller than a batch is scanned whole.
        while left > 0 && (left >= least || left >= count) && batches < MOST_BATCHES {
            let asked = left.min(batch);
            // SAFETY: as above.
            let scanned = unsafe { (self.scan)(self.shrinker, &control(asked)) };
            let Scanned::Objects { freed, scanned } = scanned else { break };
            // A batch that scanned nothing counts as one object.
            let scanned = scanned.clamp(1, asked);
            let freed = freed.min(scanned);
            shrunk += Shrunk { scanned, freed };
            left -= scanned;
            batches += 1;
            idle = if freed == 0 { idle + 1 } else { 0 };
            if idle >= MOST_IDLE_BATCHES {
                break;
            }
        }
        let owed = self.deferred.saturating_add(delta);
        self.deferred = owed.saturating_sub(shrunk.scanned).min(2 * count);
        shrunk
    }
}

/// Number of objects of `count` to scan, by priority and cost alone.
fn delta_of(count: u64, priority: u32, seeks: u32) -> u64 {
    match seeks {
        0 => count / 2,
        _ => (count >> priority).saturating_mul(4) / u64::from(seeks),
    }
}

pub(super) fn objects_in(bytes: usize) -> u64 {
    (bytes as u64 / LEAST_OBJECT).max(1)
}

#[cfg(test)]
mod tests;
