//! The barn of a cache and a node (`struct node_barn`, Linux 6.18): full and empty sheaves.
//!
//! Equations: `full <= MAX_FULL`; a full sheaf holds `capacity` objects, an empty one 0.

use super::sheaf::{Sheaf, Sheaves};
use quarry_mm::frame::FreshZero;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::{CountedLock, LockStats};
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicU32, Ordering::Relaxed};

/// Maximum number of full sheaves of a barn (`MAX_FULL_SHEAVES`, Linux 6.18).
pub(super) const MAX_FULL: u32 = 10;
/// A barn with this many empty sheaves takes no more (`MAX_EMPTY_SHEAVES`, Linux 6.18). An exchange
/// of a full sheaf for an empty one keeps their number, so it ignores this limit.
pub(super) const MAX_EMPTY: u32 = 10;

struct Lists {
    full: Sheaves,
    empty: Sheaves,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotReplaced {
    /// The barn has [`MAX_FULL`] full sheaves (`-E2BIG`).
    TooManyFull,
    /// The barn has no empty sheaf (`-ENOMEM`).
    NoEmpty,
}

#[repr(align(64))]
pub(super) struct Barn {
    lists: CountedLock<Lists>,
    /// The lengths of the lists, written under the lock and read without it.
    full: AtomicU32,
    empty: AtomicU32,
}

// SAFETY: a free lock around empty lists, and numbers that are 0, are all zero bytes.
unsafe impl FreshZero for Barn {}

impl Barn {
    fn note(&self, lists: &Lists) {
        self.full.store(lists.full.count(), Relaxed);
        self.empty.store(lists.empty.count(), Relaxed);
    }

    pub(super) fn full(&self) -> u32 {
        self.full.load(Relaxed)
    }

    pub(super) fn empty(&self) -> u32 {
        self.empty.load(Relaxed)
    }

    /// Lets `exchange` take all objects out of a full sheaf. If `exchange` returns `Some`, the barn
    /// keeps the sheaf as an empty one (`barn_replace_empty_sheaf`).
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

    /// Lets `exchange` fill an empty sheaf. If the sheaf then has objects, the barn keeps it as a
    /// full one (`barn_replace_full_sheaf`). Returns the result of `exchange`.
    pub(super) fn replace_full<T>(
        &self,
        exchange: impl FnOnce(&mut Sheaf) -> T,
    ) -> Result<T, NotReplaced> {
        // Both limits are tested first without the lock, as in the kernel.
        if self.full() >= MAX_FULL {
            return Err(NotReplaced::TooManyFull);
        }
        if self.empty() == 0 {
            return Err(NotReplaced::NoEmpty);
        }
        let mut lists = self.lists.lock();
        // Another CPU may have changed the lists before the lock was taken.
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

    /// Takes an empty sheaf into the barn; returns it if the barn has enough.
    pub(super) fn put_empty(&self, sheaf: Sheaf) -> Option<Sheaf> {
        debug_assert!(sheaf.is_empty());
        self.put(sheaf, MAX_EMPTY, |lists| &mut lists.empty)
    }

    /// Takes a full sheaf into the barn; returns it if the barn has enough.
    pub(super) fn put_full(&self, sheaf: Sheaf) -> Option<Sheaf> {
        self.put(sheaf, MAX_FULL, |lists| &mut lists.full)
    }

    fn put(&self, sheaf: Sheaf, most: u32, to: fn(&mut Lists) -> &mut Sheaves) -> Option<Sheaf> {
        let mut lists = self.lists.lock();
        if to(&mut lists).count() >= most {
            return Some(sheaf);
        }
        to(&mut lists).push(sheaf);
        self.note(&lists);
        None
    }

    /// Takes all sheaves out, the full and the empty ones (`barn_shrink`).
    pub(super) fn take_all(&self) -> [Sheaves; 2] {
        let mut lists = self.lists.lock();
        let all = [lists.full.take(), lists.empty.take()];
        self.note(&lists);
        all
    }

    pub(super) fn lock_stats(&self) -> LockStats {
        self.lists.stats()
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("barn->lock", &self.lists);
    }

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
