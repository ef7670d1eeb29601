//! The packed word of a slab, changed by compare-and-swap only.
//!
//! The kernel changes a slab's free list and its counters together by a compare-and-swap of two
//! words (`cmpxchg_double`), for which `struct page` had to grow to a multiple of 16 bytes: the 8
//! bytes per page, 0.2 % of memory, that document 002 weighs. Here one packed 64-bit word stands
//! for that double word: the head of the free list is an object's number and not its address, so
//! both fit. It costs the same 8 bytes per frame (see `tables`).
//!
//! ```text
//! {unused : 8 | cache : 8 | frozen : 1 | objects : 15 | inuse : 16 | head + 1 : 16}
//! ```
//!
//! Equations: `inuse + length of the free list = objects`, `head = none <=> inuse = objects`. An
//! object that is not on the slab's own free list is in use, also while it waits on a CPU's list.
//!
//! A *frozen* slab belongs to one CPU (its guard names it, or it is on that CPU's partial list) or
//! to the thread that is just moving it between such places. What any thread may do to a slab:
//!
//! | state | put objects | take all free objects | change the state |
//! |---|---|---|---|
//! | frozen | anybody | anybody | owner: unfreeze |
//! | some free, on its node's list | anybody; the last one: list lock | - | list lock: freeze |
//! | none free, on no list | anybody, who thereby freezes and owns it | - | - |
//!
//! A free list is pushed to in chains but only ever taken whole, so a head that has gone and come
//! back in between (ABA) does no harm: no thread relies on what hung behind it. The cache's number
//! is in the word because a slab may be given back and reused between the look at a guard and the
//! compare-and-swap: the swap then fails.

use quarry_sys::local;
use quarry_sys::primitive::{AtomicU64, Ordering};

const HEAD_BITS: u32 = 16;
const INUSE_SHIFT: u32 = HEAD_BITS;
const OBJECTS_SHIFT: u32 = INUSE_SHIFT + 16;
const FROZEN_SHIFT: u32 = OBJECTS_SHIFT + 15;
const CACHE_SHIFT: u32 = FROZEN_SHIFT + 1;
const FROZEN: u64 = 1 << FROZEN_SHIFT;

/// Most objects of a slab: `objects` has 15 bits (`MAX_OBJS_PER_PAGE`, Linux 3.x).
pub(super) const MAX_OBJECTS: u32 = (1 << 15) - 1;

/// The state of a slab at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlabState(u64);

impl SlabState {
    /// A slab of `cache`, frozen, with all of its objects taken: how it starts.
    pub(super) fn taken(cache: u8, objects: u32) -> Self {
        debug_assert!(objects <= MAX_OBJECTS);
        let objects = u64::from(objects);
        let cache = u64::from(cache) << CACHE_SHIFT;
        Self(cache | FROZEN | objects << OBJECTS_SHIFT | objects << INUSE_SHIFT)
    }

    /// The number of the first free object.
    pub(super) fn head(self) -> Option<u32> {
        (self.0 as u32 & 0xffff).checked_sub(1)
    }

    /// Objects that are not on the slab's own free list.
    pub(super) fn inuse(self) -> u32 {
        (self.0 >> INUSE_SHIFT) as u32 & 0xffff
    }

    /// All objects.
    pub(super) fn objects(self) -> u32 {
        (self.0 >> OBJECTS_SHIFT) as u32 & MAX_OBJECTS
    }

    /// Objects on the slab's own free list.
    pub(super) fn free(self) -> u32 {
        self.objects() - self.inuse()
    }

    /// Returns whether the slab belongs to a CPU.
    pub(super) fn is_frozen(self) -> bool {
        self.0 & FROZEN != 0
    }

    /// The number of the cache, 0 for no slab.
    pub(super) fn cache(self) -> u8 {
        (self.0 >> CACHE_SHIFT) as u8
    }

    fn with_freed(self, head: u32, count: u32) -> Self {
        let rest = self.0 & !0xffff;
        Self((rest - (u64::from(count) << INUSE_SHIFT)) | u64::from(head + 1))
    }

    fn with_all_taken(self) -> Self {
        let rest = self.0 & !(0xffff_ffff);
        Self(rest | u64::from(self.objects()) << INUSE_SHIFT)
    }

    fn with_frozen(self, frozen: bool) -> Self {
        Self(if frozen { self.0 | FROZEN } else { self.0 & !FROZEN })
    }
}

/// Objects of one slab that come back together, linked to each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreedChain {
    /// Number of the first one.
    pub(super) first: u32,
    /// How many.
    pub(super) count: u32,
}

/// A free list that was taken whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TakenChain {
    /// Number of the first one.
    pub(super) first: u32,
    /// How many.
    pub(super) count: u32,
}

/// The outcome of putting objects back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Put {
    /// The slab is frozen: its CPU finds them there.
    ToFrozen,
    /// The slab stays on its node's list.
    ToPartial,
    /// The slab had none free; it is now frozen and the caller's.
    Froze,
    /// No object is in use any more; the caller holds the list lock.
    Emptied,
    /// Nothing done: they are the last objects in use, so the list lock must be held.
    NeedsListLock,
    /// Nothing done: fewer objects are in use than are put, or the first one is the first of the
    /// free list already.
    NotInUse,
    /// Nothing done: this is no slab of the cache.
    WrongCache,
}

/// The word; all zero where there is no slab.
#[derive(Default)]
#[repr(transparent)]
pub(super) struct PageWord(AtomicU64);

// SAFETY: an atomic whose default is 0.
unsafe impl crate::frame::FreshZero for PageWord {}

impl PageWord {
    /// The state now.
    pub(super) fn state(&self) -> SlabState {
        SlabState(self.0.load(Ordering::Acquire))
    }

    /// A new slab: frozen, owned by the caller, all objects taken. Only the caller knows it yet.
    pub(super) fn start(&self, cache: u8, objects: u32) {
        self.0.store(SlabState::taken(cache, objects).0, Ordering::Release);
    }

    /// No slab any more. The caller owns it: not frozen, on no list, no object in use.
    pub(super) fn end(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Exchanges `old` for `new`; a failure is counted in `misses`.
    fn exchange(&self, old: SlabState, new: SlabState, misses: &mut u64) -> bool {
        let done = local::compare_exchange(&self.0, old.0, new.0);
        *misses += u64::from(!done);
        done
    }

    /// Puts a chain of objects back. `link` is given the head that the last object of the chain
    /// must point to, and may be called several times. The caller owns the objects, so the slab
    /// stays a slab of `cache` meanwhile.
    pub(super) fn put(
        &self,
        cache: u8,
        chain: FreedChain,
        list_locked: bool,
        misses: &mut u64,
        mut link: impl FnMut(Option<u32>),
    ) -> Put {
        loop {
            let old = self.state();
            if old.cache() != cache {
                return Put::WrongCache;
            }
            if old.inuse() < chain.count || old.head() == Some(chain.first) {
                return Put::NotInUse;
            }
            let mut new = old.with_freed(chain.first, chain.count);
            let put = if old.is_frozen() {
                Put::ToFrozen
            } else if old.head().is_none() {
                new = new.with_frozen(true);
                Put::Froze
            } else if new.inuse() > 0 {
                Put::ToPartial
            } else if list_locked {
                Put::Emptied
            } else {
                return Put::NeedsListLock;
            };
            link(old.head());
            if self.exchange(old, new, misses) {
                return put;
            }
        }
    }

    /// Takes all free objects of a frozen slab of `cache`, whoever owns it. `None` where it has
    /// none, or is another kind of slab by now.
    pub(super) fn take_frozen(&self, cache: u8, misses: &mut u64) -> Option<TakenChain> {
        loop {
            let old = self.state();
            let first = old.head()?;
            if old.cache() != cache || !old.is_frozen() {
                return None;
            }
            if self.exchange(old, old.with_all_taken(), misses) {
                return Some(TakenChain { first, count: old.free() });
            }
        }
    }

    /// Takes all free objects of the caller's own frozen slab; where it has none, unfreezes it: it
    /// then belongs to no CPU, until the first of its objects comes back.
    pub(super) fn take_or_unfreeze(&self, misses: &mut u64) -> Option<TakenChain> {
        loop {
            let old = self.state();
            debug_assert!(old.is_frozen());
            let new = if old.head().is_some() { old.with_all_taken() } else { old };
            if self.exchange(old, new.with_frozen(old.head().is_some()), misses) {
                return old.head().map(|first| TakenChain { first, count: old.free() });
            }
        }
    }

    /// Unfreezes the caller's own frozen slab if it has no free object. Returns whether it did.
    pub(super) fn unfreeze_if_full(&self, misses: &mut u64) -> bool {
        loop {
            let old = self.state();
            debug_assert!(old.is_frozen());
            if old.head().is_some() {
                return false;
            }
            if self.exchange(old, old.with_frozen(false), misses) {
                return true;
            }
        }
    }

    /// Unfreezes the caller's own frozen slab, under the list lock; returns what it then is.
    pub(super) fn unfreeze(&self, misses: &mut u64) -> SlabState {
        loop {
            let old = self.state();
            debug_assert!(old.is_frozen());
            let new = old.with_frozen(false);
            if self.exchange(old, new, misses) {
                return new;
            }
        }
    }

    /// Freezes a slab of the node's list for the caller, under the list lock; returns what it was.
    pub(super) fn freeze(&self, misses: &mut u64) -> SlabState {
        loop {
            let old = self.state();
            debug_assert!(!old.is_frozen() && old.head().is_some());
            if self.exchange(old, old.with_frozen(true), misses) {
                return old;
            }
        }
    }

    /// [`freeze`](Self::freeze), taking all free objects in the same step.
    pub(super) fn freeze_and_take(&self, misses: &mut u64) -> TakenChain {
        loop {
            let old = self.state();
            debug_assert!(!old.is_frozen());
            let first = old.head().expect("slabs on a node's list have free objects");
            if self.exchange(old, old.with_all_taken().with_frozen(true), misses) {
                return TakenChain { first, count: old.free() };
            }
        }
    }
}
