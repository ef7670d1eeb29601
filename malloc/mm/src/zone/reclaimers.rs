//! The tasks that are reclaiming memory now (`PF_MEMALLOC`, Linux 6.x).
//!
//! A task may need memory in order to reclaim: a shrinker allocates, or an index splits a node.
//! Such a task may take the reserve below the budget's min mark, and never starts another reclaim
//! within its own.
//!
//! A request that has found no memory reclaims with a *claim* for its frames, without a right to
//! the reserve. Frames that its task frees stay charged and belong to the claim until the request
//! is served: no other request takes them first (like `capture_control` for compaction, Linux 5.1).
//!
//! Invariants: a task has one place in `tasks` at most; `inside` = number of taken places; each
//! claim has `held <= wanted`, and only its task changes it.

use quarry_sys::primitive::{
    AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Relaxed, Release},
    task,
};

/// Maximum number of tasks that can reclaim at once.
const PLACES: usize = 64;

/// See the head of this file.
pub struct Reclaimers {
    inside: AtomicU32,
    tasks: [AtomicUsize; PLACES],
    claims: [Frames; PLACES],
    /// Frames of the largest request that waits for a balance; 0 if none does.
    awaited: AtomicU32,
}

struct Frames {
    /// Frames that the claim is for; 0 if the task has no claim and may use the reserve.
    wanted: AtomicU32,
    held: AtomicU32,
}

/// The result for a task that wants to reclaim.
pub enum Entry<T> {
    /// The task counts as reclaiming until the guard is dropped.
    Entered(T),
    /// The task is reclaiming already.
    Already,
    /// Too many tasks are reclaiming.
    Crowded,
}

/// Marks the task as reclaiming until this is dropped.
pub struct InReclaim<'a> {
    reclaimers: &'a Reclaimers,
    place: usize,
}

impl Frames {
    fn missing(&self) -> u32 {
        self.wanted.load(Relaxed).saturating_sub(self.held.load(Relaxed))
    }
}

impl Reclaimers {
    /// A state in which no task reclaims: all bytes are zero.
    pub(super) const fn new() -> Self {
        Self {
            inside: AtomicU32::new(0),
            tasks: [const { AtomicUsize::new(0) }; PLACES],
            claims: [const { Frames { wanted: AtomicU32::new(0), held: AtomicU32::new(0) } };
                PLACES],
            awaited: AtomicU32::new(0),
        }
    }

    /// Returns whether the running task is reclaiming. O(1); one load if no task is.
    #[inline]
    #[must_use]
    pub fn is_in(&self) -> bool {
        self.claim().is_some()
    }

    #[inline]
    fn claim(&self) -> Option<&Frames> {
        if self.inside.load(Relaxed) == 0 { None } else { self.claim_of(task::current()) }
    }

    #[cold]
    fn claim_of(&self, task: usize) -> Option<&Frames> {
        let place = self.tasks.iter().position(|place| place.load(Relaxed) == task)?;
        Some(&self.claims[place])
    }

    /// Marks the running task as one that reclaims.
    pub fn enter(&self) -> Entry<InReclaim<'_>> {
        self.enter_for(0)
    }

    /// Same as [`enter`](Self::enter), with a claim for `wanted` frames; 0 stands for no claim and
    /// a right to the reserve.
    pub(super) fn enter_for(&self, wanted: u32) -> Entry<InReclaim<'_>> {
        if self.is_in() {
            return Entry::Already;
        }
        let me = task::current();
        for (place, task) in self.tasks.iter().enumerate() {
            if task.load(Relaxed) == 0 && task.compare_exchange(0, me, AcqRel, Relaxed).is_ok() {
                self.claims[place].wanted.store(wanted, Relaxed);
                self.inside.fetch_add(1, AcqRel);
                return Entry::Entered(InReclaim { reclaimers: self, place });
            }
        }
        Entry::Crowded
    }

    /// Adds freed frames to the running task's claim, as many of `frames` as the claim lacks.
    /// Returns how many.
    #[inline]
    pub(super) fn keep(&self, frames: u32) -> u32 {
        self.claim().map_or(0, |claim| {
            let kept = frames.min(claim.missing());
            claim.held.fetch_add(kept, Relaxed);
            kept
        })
    }

    /// Takes up to `frames` frames out of the running task's claim; returns how many. `None` if the
    /// task has a right to the reserve instead.
    pub(super) fn take(&self, frames: u32) -> Option<u32> {
        let Some(claim) = self.claim() else { return Some(0) };
        if claim.wanted.load(Relaxed) == 0 {
            return None;
        }
        let held = claim.held.load(Relaxed).min(frames);
        claim.held.fetch_sub(held, Relaxed);
        Some(held)
    }

    pub(super) fn held(&self) -> u32 {
        self.claims.iter().map(|claim| claim.held.load(Relaxed)).sum()
    }

    /// A request for `frames` frames waits for a balance, until [`end_wait`](Self::end_wait).
    pub fn begin_wait(&self, frames: u32) {
        self.awaited.fetch_max(frames, Relaxed);
    }

    /// The request tries again, and takes free frames. Others that wait begin again.
    pub fn end_wait(&self) {
        self.awaited.store(0, Relaxed);
    }

    /// Frames that a balance has to free for the request that waits, beyond those that its claim
    /// holds by now. O(1) if none waits, else O(places).
    #[must_use]
    pub fn awaited(&self) -> u32 {
        match self.awaited.load(Relaxed) {
            0 => 0,
            awaited => awaited.saturating_sub(self.held()),
        }
    }

    /// Frames that requests will take as they come free: those that claims lack, or that a request
    /// waits for (which may have a claim, too). O(places).
    #[must_use]
    pub fn lacking(&self) -> u32 {
        let taken = self.tasks.iter().zip(&self.claims).filter(|(task, _)| task.load(Relaxed) != 0);
        taken.map(|(_, claim)| claim.missing()).sum::<u32>().max(self.awaited())
    }

    /// In the child of a fork: removes the parent's tasks; returns the frames of their claims.
    pub(super) fn keep_only_current(&self) -> u32 {
        let me = task::current();
        let (mut kept, mut held) = (0, 0);
        for (place, claim) in self.tasks.iter().zip(&self.claims) {
            match place.load(Relaxed) {
                0 => {}
                task if task == me => kept += 1,
                _ => {
                    held += claim.held.swap(0, Relaxed);
                    place.store(0, Relaxed);
                }
            }
        }
        self.inside.store(kept, Relaxed);
        self.awaited.store(0, Relaxed);
        held
    }
}

impl InReclaim<'_> {
    fn claim(&self) -> &Frames {
        &self.reclaimers.claims[self.place]
    }

    pub(super) fn missing(&self) -> u32 {
        self.claim().missing()
    }

    /// Adds frames to the task's claim, at most as many as it lacks.
    pub(super) fn give(&self, frames: u32) {
        self.claim().held.fetch_add(frames, Relaxed);
    }

    pub(super) fn take_all(&self) -> u32 {
        self.claim().held.swap(0, Relaxed)
    }
}

impl Drop for InReclaim<'_> {
    fn drop(&mut self) {
        self.reclaimers.inside.fetch_sub(1, AcqRel);
        self.reclaimers.tasks[self.place].store(0, Release);
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
        assert_eq!(reclaimers.lacking(), 0, "it claims nothing");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(!reclaimers.is_in());
                assert!(matches!(reclaimers.enter(), Entry::Entered(_)));
                assert!(!reclaimers.is_in());
            });
        });
        drop(inside);
        assert!(!reclaimers.is_in());
        let Entry::Entered(inside) = reclaimers.enter_for(7) else { panic!("no task reclaims") };
        assert_eq!((reclaimers.keep(3), reclaimers.lacking(), reclaimers.awaited()), (3, 4, 0));
        reclaimers.begin_wait(7);
        assert_eq!((reclaimers.lacking(), reclaimers.awaited()), (4, 4), "the same request");
        drop((inside.take_all(), inside));
        assert_eq!((reclaimers.lacking(), reclaimers.awaited()), (7, 7), "without its claim");
        reclaimers.end_wait();
        assert_eq!((reclaimers.lacking(), reclaimers.awaited()), (0, 0));
    }

    #[test]
    fn a_crowd_is_sent_away_and_a_child_forgets_it() {
        let reclaimers = Reclaimers::new();
        for place in &reclaimers.tasks {
            place.store(1, Relaxed);
        }
        reclaimers.inside.store(PLACES as u32, Relaxed);
        assert!(matches!(reclaimers.enter(), Entry::Crowded));
        reclaimers.claims[3].held.store(5, Relaxed);
        reclaimers.begin_wait(9);
        assert_eq!(reclaimers.keep_only_current(), 5);
        assert_eq!((reclaimers.inside.load(Relaxed), reclaimers.awaited()), (0, 0));
        assert!(matches!(reclaimers.enter(), Entry::Entered(_)));
    }
}
