//! Model of one slab's word with a lock bit: threads free objects into the slab and take it from
//! its node's list, while shuttle decides every interleaving. Each scenario also runs with one rule
//! of the table in `lock_word` broken, which the model has to detect.

use super::explore::{check, expect_failure, join};
use crate::slab::slub::lock_word::LockWord;
use crate::slab::slub::state::{Linked, SlabWord};
use quarry_sys::lock::CountedLock;
use quarry_sys::primitive::{AtomicU32, Ordering::SeqCst};
use shuttle::sync::Arc;
use shuttle::thread;

const OBJECTS: u32 = 3;

/// A rule that a scenario may break.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// The slab's bit is released before the empty slab leaves the list.
    ReleasesBeforeTheListIsLeft,
    /// The slab's bit is released before the slab is put onto the list.
    ReleasesBeforeTheListIsJoined,
    /// A thread takes a slab from the list first, and the slab's bit only afterwards.
    TakesTheBitLate,
}

/// A slab, and the place where it is.
struct Slab {
    word: LockWord,
    /// True if the slab is on its node's list.
    listed: CountedLock<bool>,
    /// Objects on the slab's own free list, counted by an oracle; changed only under the bit.
    free: AtomicU32,
    given_back: AtomicU32,
    broken: Broken,
}

impl Slab {
    /// A slab whose objects are all in use, and which no CPU owns.
    fn full(broken: Broken) -> Self {
        let word = LockWord::default();
        word.start(1, OBJECTS);
        let mut held = word.lock();
        held.set(held.state(OBJECTS).with_frozen(false));
        drop(held);
        let (free, given_back) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { word, listed: CountedLock::new(false), free, given_back, broken }
    }

    /// Frees object `number`, as `free_chain` of `locked.rs` does.
    fn free(&self, number: u32) {
        let mut held = self.word.lock();
        let old = held.state(OBJECTS);
        assert_eq!(self.free.swap(old.free() + 1, SeqCst), old.free(), "one holder of the bit");
        let new = old.with_freed(Linked { first: number, count: 1 });
        held.set(new);
        if new.frozen {
            return;
        }
        let mut held = Some(held);
        if new.inuse == 0 {
            if self.broken == Broken::ReleasesBeforeTheListIsLeft {
                held = None;
            }
            let mut listed = self.listed.lock();
            assert!(*listed, "a slab that becomes empty is on the list");
            *listed = false;
            drop(listed);
            drop(held);
            self.word.end();
            assert_eq!(self.given_back.fetch_add(1, SeqCst), 0, "given back once");
        } else if old.head.is_none() {
            if self.broken == Broken::ReleasesBeforeTheListIsJoined {
                held = None;
            }
            let mut listed = self.listed.lock();
            assert!(!*listed, "a full slab is on no list");
            *listed = true;
            drop(listed);
            drop(held);
        }
    }

    /// Takes the slab from its list if the slab's bit is free. Returns how many objects were free.
    fn take_partial(&self) -> Option<u32> {
        let mut listed = self.listed.lock();
        if !*listed {
            return None;
        }
        let late = self.broken == Broken::TakesTheBitLate;
        let held = if late { None } else { Some(self.word.try_lock()?) };
        *listed = false;
        drop(listed);
        let mut held = held.unwrap_or_else(|| self.word.lock());
        let state = held.state(OBJECTS);
        assert!(state.is_listed(), "a slab of the list is not frozen and has free objects");
        held.set(state.with_all_taken().with_frozen(true));
        assert_eq!(self.free.swap(0, SeqCst), state.free(), "one holder of the bit");
        Some(state.free())
    }

    /// Puts `count` objects back into the slab, which the caller has frozen, and gives the slab up.
    fn let_go(&self, count: u32) {
        (0..count).for_each(|number| self.free(number));
        let mut held = self.word.lock();
        let state = held.state(OBJECTS).with_frozen(false);
        held.set(state);
        if state.inuse == 0 {
            drop(held);
            assert_eq!(self.given_back.fetch_add(1, SeqCst), 0, "given back once");
        } else if state.head.is_some() {
            let mut listed = self.listed.lock();
            assert!(!*listed, "a frozen slab is on no list");
            *listed = true;
        }
    }
}

/// Each of several threads frees one object of a full slab, while another takes the slab if it is
/// on the list.
fn frees_against_a_taker(broken: Broken) {
    let slab = Arc::new(Slab::full(broken));
    let mut threads: Vec<_> = (0..OBJECTS)
        .map(|number| {
            let slab = Arc::clone(&slab);
            thread::spawn(move || slab.free(number))
        })
        .collect();
    let taking = Arc::clone(&slab);
    threads.push(thread::spawn(move || {
        if let Some(objects) = taking.take_partial() {
            taking.let_go(objects);
        }
    }));
    join(threads);
    assert_eq!(slab.given_back.load(SeqCst), 1, "the last free gives the slab back");
    assert!(!*slab.listed.lock());
}

#[test]
fn a_slab_is_emptied_once() {
    check(frees_against_a_taker, Broken::Nothing);
}

#[test]
fn a_bit_released_before_the_list_is_left_is_found() {
    expect_failure(frees_against_a_taker, Broken::ReleasesBeforeTheListIsLeft);
}

#[test]
fn a_bit_released_before_the_list_is_joined_is_found() {
    expect_failure(frees_against_a_taker, Broken::ReleasesBeforeTheListIsJoined);
}

#[test]
fn a_bit_that_is_taken_late_is_found() {
    expect_failure(frees_against_a_taker, Broken::TakesTheBitLate);
}
