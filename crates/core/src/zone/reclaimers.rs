//! The tasks that reclaim memory at the moment (`PF_MEMALLOC`, Linux 6.x).
//!
//! A task that reclaims may need memory for it: a shrinker that allocates, an index that splits a
//! node. It gets the reserve below the min mark of the budget, and never reclaims inside of its own
//! reclaim.
//!
//! Invariant: a task has one place at most; `inside` = places that are taken.

use quarry_sys::primitive::{
    AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Relaxed, Release},
    task,
};

/// Tasks that can reclaim at once: the background thread, and programs that ask for it.
const PLACES: usize = 16;

/// See the module.
pub struct Reclaimers {
    inside: AtomicU32,
    tasks: [AtomicUsize; PLACES],
}

/// The answer to a task that is about to reclaim.
pub enum Entry<'a> {
    /// The task reclaims until the guard is dropped.
    Entered(InReclaim<'a>),
    /// The task reclaims already.
    Already,
    /// Too many tasks reclaim at the moment.
    Crowded,
}

/// Marks the task as one that reclaims, until this is dropped.
pub struct InReclaim<'a> {
    reclaimers: &'a Reclaimers,
    place: &'a AtomicUsize,
}

impl Reclaimers {
    /// Nobody reclaims. All zero bytes.
    #[must_use]
    pub const fn new() -> Self {
        Self { inside: AtomicU32::new(0), tasks: [const { AtomicUsize::new(0) }; PLACES] }
    }

    /// Returns whether the running task reclaims. O(1); one load where nobody does.
    #[must_use]
    pub fn is_in(&self) -> bool {
        self.inside.load(Relaxed) != 0 && {
            let me = task::current();
            self.tasks.iter().any(|place| place.load(Relaxed) == me)
        }
    }

    /// Marks the running task as one that reclaims.
    pub fn enter(&self) -> Entry<'_> {
        if self.is_in() {
            return Entry::Already;
        }
        let me = task::current();
        for place in &self.tasks {
            if place.load(Relaxed) == 0 && place.compare_exchange(0, me, AcqRel, Relaxed).is_ok() {
                self.inside.fetch_add(1, AcqRel);
                return Entry::Entered(InReclaim { reclaimers: self, place });
            }
        }
        Entry::Crowded
    }

    /// In the child of a fork: the other tasks are the parent's.
    pub fn keep_only_current(&self) {
        let me = task::current();
        let mut kept = 0;
        for place in &self.tasks {
            match place.load(Relaxed) {
                0 => {}
                task if task == me => kept += 1,
                _ => place.store(0, Relaxed),
            }
        }
        self.inside.store(kept, Relaxed);
    }
}

impl Default for Reclaimers {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for InReclaim<'_> {
    fn drop(&mut self) {
        self.reclaimers.inside.fetch_sub(1, AcqRel);
        self.place.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_enters_once_and_others_are_not_concerned() {
        let reclaimers = Reclaimers::new();
        let Entry::Entered(inside) = reclaimers.enter() else { panic!("nobody reclaims") };
        assert!(reclaimers.is_in());
        assert!(matches!(reclaimers.enter(), Entry::Already));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(!reclaimers.is_in());
                assert!(matches!(reclaimers.enter(), Entry::Entered(_)));
                assert!(!reclaimers.is_in());
            });
        });
        drop(inside);
        assert!(!reclaimers.is_in());
    }

    #[test]
    fn a_crowd_is_sent_away_and_a_child_forgets_it() {
        let reclaimers = Reclaimers::new();
        for place in &reclaimers.tasks {
            place.store(1, Relaxed);
        }
        reclaimers.inside.store(PLACES as u32, Relaxed);
        assert!(matches!(reclaimers.enter(), Entry::Crowded));
        reclaimers.keep_only_current();
        assert_eq!(reclaimers.inside.load(Relaxed), 0);
        assert!(matches!(reclaimers.enter(), Entry::Entered(_)));
    }
}
