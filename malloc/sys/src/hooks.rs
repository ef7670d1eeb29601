//! A table of registered values. Removing a value waits until no task uses it.
//!
//! A lock for each entry would not do: a task that uses a value calls functions of the program
//! outside of the [`gate`](crate::gate) that `fork` closes. So a fork may happen during a use, and
//! its child lacks the thread that would end the use ([`Hooks::adopt_in_child`]).
//!
//! States of an entry: `EMPTY -> FILLING -> LIVE <-> LIVE | BUSY`, and `LIVE -> FILLING -> EMPTY`.
//! The task that has set `BUSY` uses the value. A remover that finds `BUSY` sets `AWAITED`, and
//! sleeps. Only the task that has set `BUSY` or `FILLING` reads and writes the value.

use crate::primitive::{
    AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    futex, task,
};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

const EMPTY: u32 = 0;
const FILLING: u32 = 1;
const LIVE: u32 = 2;
const BUSY: u32 = 4;
const AWAITED: u32 = 8;

struct Place<T> {
    word: AtomicU32,
    user: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// Up to `N` values. A table of zero bytes is empty.
pub struct Hooks<T, const N: usize> {
    places: [Place<T>; N],
}

// SAFETY: only the task that has set `FILLING` or `BUSY` reaches a value, so no two tasks do at
// once. This task may be another one than the task that added the value, so `T` is `Send`.
unsafe impl<T: Send, const N: usize> Sync for Hooks<T, N> {}
// SAFETY: owning the table is owning its values.
unsafe impl<T: Send, const N: usize> Send for Hooks<T, N> {}

/// The error of a removal: the calling task itself uses the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse;

/// The number of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookId(usize);

impl<T: Copy, const N: usize> Hooks<T, N> {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            places: [const {
                Place {
                    word: AtomicU32::new(EMPTY),
                    user: AtomicUsize::new(0),
                    value: UnsafeCell::new(MaybeUninit::zeroed()),
                }
            }; N],
        }
    }

    /// Adds a value; `None` if no entry is free. O(entries).
    pub fn add(&self, value: T) -> Option<HookId> {
        let number = self.places.iter().position(|place| place.moves(EMPTY, FILLING))?;
        let place = &self.places[number];
        // SAFETY: this task alone has the place while it is `FILLING`.
        unsafe { (*place.value.get()).write(value) };
        place.word.store(LIVE, Release);
        Some(HookId(number))
    }

    /// Removes a value, and waits while another task uses it. Afterwards no task uses the value.
    ///
    /// # Errors
    /// If the calling task itself uses the value now; then the value stays.
    pub fn remove(&self, id: HookId) -> Result<(), InUse> {
        let place = &self.places[id.0];
        loop {
            let word = place.word.load(Acquire);
            debug_assert!(word & LIVE != 0, "removed what is not there");
            if word & BUSY == 0 {
                if place.moves(word, FILLING) {
                    place.word.store(EMPTY, Release);
                    return Ok(());
                }
            } else if place.user.load(Relaxed) == task::current() {
                return Err(InUse);
            } else if word & AWAITED != 0 || place.moves(word, word | AWAITED) {
                futex::wait(&place.word, word | AWAITED);
            }
        }
    }

    /// Calls `visit` with each value in turn, except values that a task uses now. Returns the
    /// number of calls. O(entries).
    pub fn for_each(&self, mut visit: impl FnMut(&mut T)) -> usize {
        let mut visited = 0;
        for place in &self.places {
            if place.word.load(Relaxed) != LIVE || !place.moves(LIVE, LIVE | BUSY) {
                continue;
            }
            place.user.store(task::current(), Relaxed);
            let using = Using(place);
            // SAFETY: this task alone has the place while it is `BUSY`; a `LIVE` value was written.
            visit(unsafe { (*place.value.get()).assume_init_mut() });
            drop(using);
            visited += 1;
        }
        visited
    }

    /// Returns whether there is any value. O(entries).
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.places.iter().any(|place| place.word.load(Relaxed) & LIVE != 0)
    }

    /// In a fork's child, ends the additions, uses and removals of the parent's other threads.
    pub fn adopt_in_child(&self) {
        for place in &self.places {
            let word = place.word.load(Relaxed);
            if word == FILLING {
                place.word.store(EMPTY, Relaxed);
            } else if word & BUSY != 0 && place.user.load(Relaxed) != task::current() {
                place.word.store(LIVE, Relaxed);
            }
        }
    }
}

impl<T> Place<T> {
    fn moves(&self, from: u32, to: u32) -> bool {
        self.word.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }
}

/// A use of a value. Dropping this, also in a panic, ends the use.
struct Using<'a, T>(&'a Place<T>);

impl<T> Drop for Using<'_, T> {
    fn drop(&mut self) {
        self.0.user.store(0, Relaxed);
        if self.0.word.swap(LIVE, AcqRel) & AWAITED != 0 {
            futex::wake_all(&self.0.word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_and_go() {
        let hooks = Hooks::<u32, 2>::new();
        assert!(!hooks.is_any());
        let first = hooks.add(1).expect("two places");
        let second = hooks.add(2).expect("two places");
        assert_eq!(hooks.add(3), None);
        let sum = || {
            let mut sum = 0;
            hooks.for_each(|value| sum += *value);
            sum
        };
        assert_eq!(sum(), 3);
        hooks.for_each(|value| *value += 10);
        assert_eq!(sum(), 23, "a value keeps what its users write");
        assert_eq!(hooks.remove(first), Ok(()));
        assert_eq!(sum(), 12);
        assert!(hooks.add(5).is_some());
        assert_eq!(sum(), 17);
        assert_eq!(hooks.remove(second), Ok(()));
        assert_eq!(sum(), 5);
    }

    #[test]
    fn a_value_in_use_is_neither_removed_nor_used_again_by_its_user() {
        let hooks = Hooks::<u32, 1>::new();
        let id = hooks.add(1).expect("one place");
        let mut inner = None;
        hooks.for_each(|_| {
            assert_eq!(hooks.remove(id), Err(InUse));
            inner = Some(hooks.for_each(|_| panic!("in use")));
        });
        assert_eq!(inner, Some(0));
        assert_eq!(hooks.remove(id), Ok(()));
    }

    #[test]
    fn a_child_ends_the_uses_of_its_parent() {
        let hooks = Hooks::<u32, 2>::new();
        let id = hooks.add(1).expect("two places");
        hooks.places[0].word.store(LIVE | BUSY | AWAITED, Relaxed);
        hooks.places[0].user.store(1, Relaxed);
        hooks.places[1].word.store(FILLING, Relaxed);
        hooks.adopt_in_child();
        assert_eq!(hooks.for_each(|_| {}), 1);
        assert_eq!(hooks.remove(id), Ok(()));
        assert!(hooks.add(1).is_some() && hooks.add(2).is_some());
    }
}
