//! The word of a slab with a lock bit (Linux 2.6.22 to 3.0: `slab_lock`, the bit `PG_locked` of
//! `struct page`). The state changes only while a thread holds the bit.
//!
//! ```text
//! {unused : 3 | slept for : 1 | locked : 1 | frozen : 1 | inuse : 13 | head + 1 : 13}
//! ```
//!
//! The word is half as wide as that of `page_word`, because it needs neither the number of objects,
//! which the cache gives, nor the cache, which the frame table gives. While a thread holds a slab's
//! bit, no other thread changes the slab's entries there. The holder may do this:
//!
//! | state | put objects | take all free objects | change the state |
//! |---|---|---|---|
//! | frozen | any thread | any thread | owner: unfreeze |
//! | some free, on its node's list | any thread | its remover | list lock: freeze |
//! | none in use, not frozen | - | - | the last to free: gives it back |
//! | none free, on no list | any thread, which lists it | - | - |
//!
//! A thread that holds the bit may wait for the list lock; a thread that holds the list lock only
//! tries the bit (`get_partial_node`). A waiter spins, then sleeps on a futex, like a waiter for
//! any lock of Quarry: a program cannot turn preemption off.

use super::state::{SlabState, SlabWord};
use quarry_sys::clock::monotonic_ns;
use quarry_sys::primitive::{AtomicU32, AtomicUsize, Ordering, futex, relax, task};

const FIELD_BITS: u32 = 13;
const FIELD: u32 = (1 << FIELD_BITS) - 1;
const INUSE_SHIFT: u32 = FIELD_BITS;
const FROZEN: u32 = 1 << (2 * FIELD_BITS);
const LOCKED: u32 = FROZEN << 1;
const SLEPT_FOR: u32 = LOCKED << 1;
const STATE: u32 = LOCKED - 1;

/// Rounds of spinning before a waiter sleeps, as in `quarry_sys::lock`.
const SPIN_ROUNDS: u32 = if cfg!(quarry_model) { 1 } else { 100 };

/// The word; all zero if there is no slab.
#[derive(Default)]
#[repr(transparent)]
pub struct LockWord(AtomicU32);

// SAFETY: an atomic whose default is 0.
unsafe impl quarry_mm::frame::FreshZero for LockWord {}

/// The held bit. Dropping this value publishes the state and releases the bit.
pub(super) struct HeldSlab<'a> {
    word: &'a LockWord,
    bits: u32,
    holder: Option<&'a Holder>,
}

/// The task that holds a slab's lock bit, noted per CPU because the word has no room for its owner.
/// If two tasks take bits on one CPU at the same time, only the later one is noted.
#[derive(Default)]
#[repr(transparent)]
pub(super) struct Holder(AtomicUsize);

// SAFETY: an atomic whose default is 0.
unsafe impl quarry_mm::frame::FreshZero for Holder {}

impl Holder {
    /// Returns whether the running task is noted: then the task has interrupted itself.
    pub(super) fn is_us(&self) -> bool {
        self.0.load(Ordering::Relaxed) == task::current()
    }
}

fn pack(state: SlabState) -> u32 {
    let head = state.head.map_or(0, |head| head + 1);
    let frozen = if state.frozen { FROZEN } else { 0 };
    frozen | state.inuse << INUSE_SHIFT | head
}

fn unpack(bits: u32, objects: u32) -> SlabState {
    SlabState {
        head: (bits & FIELD).checked_sub(1),
        inuse: bits >> INUSE_SHIFT & FIELD,
        objects,
        frozen: bits & FROZEN != 0,
    }
}

impl LockWord {
    /// Takes the bit; waits for it if another thread holds it.
    pub(super) fn lock(&self) -> HeldSlab<'_> {
        self.try_lock().unwrap_or_else(|| self.wait().0)
    }

    pub(super) fn try_lock(&self) -> Option<HeldSlab<'_>> {
        self.take(0)
    }

    fn take(&self, mark: u32) -> Option<HeldSlab<'_>> {
        let old = self.0.load(Ordering::Relaxed);
        let new = old | LOCKED | mark;
        let is_free = old & LOCKED == 0;
        let taken = is_free
            && self.0.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // `then`, not `then_some`: dropping a `HeldSlab` releases the bit.
        taken.then(|| HeldSlab { word: self, bits: old & STATE, holder: None })
    }

    /// Waits for the bit and takes it. Also returns the wait in nanoseconds.
    #[cold]
    #[inline(never)]
    pub(super) fn wait(&self) -> (HeldSlab<'_>, u64) {
        let since_ns = monotonic_ns();
        let held = self.spin().unwrap_or_else(|| self.sleep());
        (held, monotonic_ns().saturating_sub(since_ns))
    }

    fn spin(&self) -> Option<HeldSlab<'_>> {
        (0..SPIN_ROUNDS).find_map(|_| {
            let held = self.take(0);
            if held.is_none() {
                relax();
            }
            held
        })
    }

    fn sleep(&self) -> HeldSlab<'_> {
        loop {
            // Other threads may sleep too, so the mark stays: this thread's release wakes the next
            // one.
            if let Some(held) = self.take(SLEPT_FOR) {
                return held;
            }
            let old = self.0.load(Ordering::Relaxed);
            let marked = old | SLEPT_FOR;
            let is_marked = old == marked
                || self
                    .0
                    .compare_exchange(old, marked, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if old & LOCKED != 0 && is_marked {
                futex::wait(&self.0, marked);
            }
        }
    }
}

impl<'a> HeldSlab<'a> {
    pub(super) fn noted_in(mut self, holder: &'a Holder) -> Self {
        holder.0.store(task::current(), Ordering::Relaxed);
        self.holder = Some(holder);
        self
    }

    pub(super) fn state(&self, objects: u32) -> SlabState {
        unpack(self.bits, objects)
    }

    /// Sets the state that is published by the release.
    pub(super) fn set(&mut self, state: SlabState) {
        self.bits = pack(state);
    }
}

impl Drop for HeldSlab<'_> {
    fn drop(&mut self) {
        if let Some(holder) = self.holder.filter(|holder| holder.is_us()) {
            holder.0.store(0, Ordering::Relaxed);
        }
        if task::is_alone() {
            // The process has one thread, so no thread sleeps on this word.
            self.word.0.store(self.bits, Ordering::Relaxed);
        } else if self.word.0.swap(self.bits, Ordering::Release) & SLEPT_FOR != 0 {
            futex::wake_one(&self.word.0);
        }
    }
}

impl SlabWord for LockWord {
    const HAS_LOCK: bool = true;
    const MAX_OBJECTS: u32 = FIELD - 1;

    fn state(&self, objects: u32) -> SlabState {
        unpack(self.0.load(Ordering::Acquire), objects)
    }

    fn agrees(&self, _cache: u8) -> bool {
        true
    }

    /// Takes the bit, because a thread that looks for an earlier slab at this place may hold it.
    fn start(&self, _cache: u8, objects: u32) {
        self.lock().set(SlabState::taken(objects));
    }

    fn end(&self) {
        self.lock().bits = 0;
    }
}

#[cfg(all(test, not(quarry_model)))]
mod tests {
    use super::*;

    #[test]
    fn a_bit_has_one_holder() {
        let word = LockWord::default();
        word.start(1, 5);
        let mut held = word.try_lock().expect("the bit is free");
        assert!(word.try_lock().is_none());
        assert!(word.try_lock().is_none(), "trying in vain releases nothing");
        let state = held.state(5);
        assert_eq!(state, SlabState::taken(5));
        held.set(state.with_frozen(false));
        assert_eq!(word.state(5), state, "nobody sees a change before the release");
        drop(held);
        assert_eq!(word.state(5), state.with_frozen(false));
        assert!(word.try_lock().is_some());
        word.end();
        assert_eq!(word.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_holder_is_known_until_the_release() {
        let (word, other, holder) = (LockWord::default(), LockWord::default(), Holder::default());
        assert!(!holder.is_us());
        let held = word.lock().noted_in(&holder);
        assert!(holder.is_us());
        std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| {
                assert!(!holder.is_us());
                drop(other.lock().noted_in(&holder));
            });
            elsewhere.join().expect("another task");
        });
        assert!(!holder.is_us(), "another task took a bit on this CPU meanwhile");
        drop(held);
        drop(word.lock().noted_in(&holder));
        assert!(!holder.is_us());
    }

    #[test]
    fn a_wait_counts_until_the_release() {
        let word = LockWord::default();
        std::thread::scope(|scope| {
            let held = word.lock();
            let waiter = scope.spawn(|| word.wait().1);
            while word.0.load(Ordering::Relaxed) & SLEPT_FOR == 0 {
                std::thread::yield_now();
            }
            let from = monotonic_ns();
            while monotonic_ns() < from + 1_000 {}
            drop(held);
            let waited_ns = waiter.join().expect("the waiter gets the bit");
            assert!(waited_ns >= 1_000, "it slept at least so long: {waited_ns}");
        });
    }

    #[test]
    fn a_full_slab_of_the_most_objects_fits() {
        let most = LockWord::MAX_OBJECTS;
        let freed = super::super::state::Linked { first: most - 1, count: 1 };
        for state in [SlabState::taken(most), SlabState::taken(most).with_freed(freed)] {
            assert_eq!(unpack(pack(state), most), state);
            assert_eq!(pack(state) & !STATE, 0);
        }
    }
}
