//! The barn of a cache and a node (`struct node_barn`, Linux 6.18): full and empty sheaves.
//!
//! Equations: `full <= MAX_FULL`; every full sheaf holds `capacity` objects, and every empty one
//! none.

use super::sheaf::{Sheaf, Sheaves};
use quarry_mm::frame::FreshZero;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::{CountedLock, LockStats};
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicU32, Ordering::Relaxed};

/// Most full sheaves of a barn (`MAX_FULL_SHEAVES`, Linux 6.18).
pub(super) const MAX_FULL: u32 = 10;
/// Empty sheaves from which on a barn takes no more (`MAX_EMPTY_SHEAVES`, Linux 6.18). An exchange
/// of a full sheaf for an empty one keeps their number, and does not test this.
pub(super) const MAX_EMPTY: u32 = 10;

struct Counts {
    full: AtomicU32,
    empty: AtomicU32,
}

struct Lists {
    full: Sheaves,
    empty: Sheaves,
}

/// The reason why a barn gives no empty sheaf for a full one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotReplaced {
    /// The barn has [`MAX_FULL`] full ones (`-E2BIG`).
    TooManyFull,
    /// The barn has no empty one (`-ENOMEM`).
    NoEmpty,
}

/// A barn. On cache lines of its own.
#[repr(align(64))]
pub(super) struct Barn {
    lists: CountedLock<Lists>,
    /// The numbers of sheaves, for reads without the lock. Written under it.
    counts: Counts,
}

// SAFETY: a free lock around empty lists, and numbers that are 0, are all zero bytes.
unsafe impl FreshZero for Barn {}

impl Barn {
    fn note(&self, lists: &Lists) {
        self.counts.full.store(lists.full.count(), Relaxed);
        self.counts.empty.store(lists.empty.count(), Relaxed);
    }

    /// Full sheaves, at a glance.
    pub(super) fn full(&self) -> u32 {
        self.counts.full.load(Relaxed)
    }

    /// Empty sheaves, at a glance.
    pub(super) fn empty(&self) -> u32 {
        self.counts.empty.load(Relaxed)
    }

    /// Lets `exchange` take all objects out of a full sheaf; where it returns something, the sheaf
    /// becomes an empty one of the barn (`barn_replace_empty_sheaf`).
    pub(super) fn replace_empty<T>(
        &self,
        exchange: impl FnOnce(&mut Sheaf) -> Option<T>,
    ) -> Option<T> {
        if self.full() == 0 {
            return None;
        }
        let mut lists = self.lists.lock();
        let mut sheaf = lists.full.pop()?;
        let result = exchange(&mut sheaf);
        match result {
            Some(_) => lists.empty.push(sheaf),
            None => lists.full.push(sheaf),
        }
        self.note(&lists);
        result
    }

    /// Lets `exchange` fill an empty sheaf; where it is full afterwards, it becomes a full one of
    /// the barn (`barn_replace_full_sheaf`). Returns the answer of `exchange`.
    pub(super) fn replace_full<T>(
        &self,
        exchange: impl FnOnce(&mut Sheaf) -> T,
    ) -> Result<T, NotReplaced> {
        // Tests both limits without a lock, like the kernel.
        if self.full() >= MAX_FULL {
            return Err(NotReplaced::TooManyFull);
        }
        if self.empty() == 0 {
            return Err(NotReplaced::NoEmpty);
        }
        let mut lists = self.lists.lock();
        // Another CPU may have been faster.
        if lists.full.count() >= MAX_FULL {
            return Err(NotReplaced::TooManyFull);
        }
        let Some(mut sheaf) = lists.empty.pop() else { return Err(NotReplaced::NoEmpty) };
        let result = exchange(&mut sheaf);
        match sheaf.is_empty() {
            true => lists.empty.push(sheaf),
            false => lists.full.push(sheaf),
        }
        self.note(&lists);
        Ok(result)
    }

    /// Takes an empty sheaf (`barn_get_empty_sheaf`).
    pub(super) fn get_empty(&self) -> Option<Sheaf> {
        if self.empty() == 0 {
            return None;
        }
        let mut lists = self.lists.lock();
        let sheaf = lists.empty.pop();
        self.note(&lists);
        sheaf
    }

    /// Takes in an empty sheaf, or returns it where there are enough.
    pub(super) fn put_empty(&self, sheaf: Sheaf) -> Option<Sheaf> {
        debug_assert!(sheaf.is_empty());
        let mut lists = self.lists.lock();
        if lists.empty.count() >= MAX_EMPTY {
            return Some(sheaf);
        }
        lists.empty.push(sheaf);
        self.note(&lists);
        None
    }

    /// Takes in a full sheaf, or returns it where there are enough.
    pub(super) fn put_full(&self, sheaf: Sheaf) -> Option<Sheaf> {
        let mut lists = self.lists.lock();
        if lists.full.count() >= MAX_FULL {
            return Some(sheaf);
        }
        lists.full.push(sheaf);
        self.note(&lists);
        None
    }

    /// Takes all sheaves, the full ones and the empty ones (`barn_shrink`).
    pub(super) fn take_all(&self) -> [Sheaves; 2] {
        let mut lists = self.lists.lock();
        let all = [lists.full.take(), lists.empty.take()];
        self.note(&lists);
        all
    }

    /// Counters of the barn's lock.
    pub(super) fn lock_stats(&self) -> LockStats {
        self.lists.stats()
    }

    /// Visits the barn's lock.
    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("barn->lock", &self.lists);
    }

    /// Checks the equations at the top of this file.
    pub(super) fn validate(&self, capacity: usize) -> Result<(), Broken> {
        let (lists, check) = (self.lists.lock(), Check::of("barn of 6.18"));
        check.that(lists.full.count() <= MAX_FULL, "full <= MAX_FULL")?;
        check.equal(self.full(), lists.full.count(), "full = sheaves on the list of full ones")?;
        check.equal(
            self.empty(),
            lists.empty.count(),
            "empty = sheaves on the list of empty ones",
        )?;
        let is_full = lists.full.is_sound(|sheaf| sheaf.len() == capacity);
        check.that(is_full, "len(full sheaf) = capacity")?;
        check.that(lists.empty.is_sound(Sheaf::is_empty), "len(empty sheaf) = 0")
    }
}
