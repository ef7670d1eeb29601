//! The packed word of a slab, changed by compare-and-swap only (Linux 3.1 to 6.17).
//!
//! The kernel changes a slab's free list and its counters together by a compare-and-swap of two
//! words (`cmpxchg_double`). For that, `struct page` grew to a multiple of 16 bytes: 8 bytes per
//! page, or 0.2 % of memory, which document 002 weighs. Here one 64-bit word suffices, because the
//! head of the free list is an object's number, not an address. `lock_word` has 32 bits, so here
//! the compare-and-swap costs 4 bytes per frame, or 0.1 % of memory.
//!
//! ```text
//! {unused : 8 | cache : 8 | frozen : 1 | objects : 15 | inuse : 16 | head + 1 : 16}
//! ```
//!
//! A *frozen* slab belongs to one CPU (its guard names the slab, or the slab is on its partial
//! list) or to the thread that moves it between these places. A thread may do this to a slab:
//!
//! | state | put objects | take all free objects | change the state |
//! |---|---|---|---|
//! | frozen | any thread | any thread | owner: unfreeze |
//! | some free, on its node's list | any thread; last object: list lock | - | list lock: freeze |
//! | none free, on no list | any thread, which freezes or lists it | - | - |
//!
//! Threads push chains onto a free list but take it only as a whole. A head that has gone and come
//! back (ABA) therefore does no harm: no thread relies on the objects after the head. The word has
//! the cache's number because a slab may be given back and reused after a thread has read a guard:
//! the thread's compare-and-swap then fails.

use super::state::{Linked, SlabState, SlabWord};
use quarry_sys::local;
use quarry_sys::primitive::{AtomicU64, Ordering};

const HEAD_BITS: u32 = 16;
const INUSE_SHIFT: u32 = HEAD_BITS;
const OBJECTS_SHIFT: u32 = INUSE_SHIFT + 16;
const FROZEN_SHIFT: u32 = OBJECTS_SHIFT + 15;
const CACHE_SHIFT: u32 = FROZEN_SHIFT + 1;
const OBJECTS_MASK: u32 = (1 << 15) - 1;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Packed(u64);

impl Packed {
    fn new(cache: u8, state: SlabState) -> Self {
        let head = state.head.map_or(0, |head| u64::from(head) + 1);
        let counts =
            u64::from(state.objects) << OBJECTS_SHIFT | u64::from(state.inuse) << INUSE_SHIFT;
        let owner = u64::from(cache) << CACHE_SHIFT | u64::from(state.frozen) << FROZEN_SHIFT;
        Self(owner | counts | head)
    }

    /// The number of the cache, 0 for no slab.
    pub(super) fn cache(self) -> u8 {
        (self.0 >> CACHE_SHIFT) as u8
    }

    pub(super) fn state(self) -> SlabState {
        SlabState {
            head: (self.0 as u32 & 0xffff).checked_sub(1),
            inuse: (self.0 >> INUSE_SHIFT) as u32 & 0xffff,
            objects: (self.0 >> OBJECTS_SHIFT) as u32 & OBJECTS_MASK,
            frozen: self.0 >> FROZEN_SHIFT & 1 != 0,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Put {
    /// The slab is frozen; its CPU will find the objects.
    ToFrozen,
    /// The slab stays on its node's list.
    ToPartial,
    /// The slab had no free object; it is now frozen and the caller's.
    Froze,
    /// The slab had no free object; the caller holds the list lock and puts the slab onto the list.
    Listed,
    /// No object is in use now; the caller holds the list lock. True if the slab is on the list.
    Emptied(bool),
    /// Nothing changed: the slab would enter or leave the list, so the caller must hold the list
    /// lock.
    NeedsListLock,
    /// Nothing changed: fewer objects are in use than are put back, the first of them is the head
    /// of the free list already, or this is not a slab of the cache.
    NotInUse,
}

/// The word; all zero if there is no slab.
#[derive(Default)]
#[repr(transparent)]
pub struct PageWord(AtomicU64);

// SAFETY: an atomic whose default is 0.
unsafe impl quarry_mm::frame::FreshZero for PageWord {}

impl SlabWord for PageWord {
    const HAS_LOCK: bool = false;
    /// `MAX_OBJS_PER_PAGE`, Linux 3.x: `objects` has 15 bits.
    const MAX_OBJECTS: u32 = OBJECTS_MASK;

    fn state(&self, _objects: u32) -> SlabState {
        self.load().state()
    }

    fn agrees(&self, cache: u8) -> bool {
        self.load().cache() == cache
    }

    fn start(&self, cache: u8, objects: u32) {
        self.0.store(Packed::new(cache, SlabState::taken(objects)).0, Ordering::Release);
    }

    fn end(&self) {
        self.0.store(0, Ordering::Release);
    }
}

impl PageWord {
    pub(super) fn load(&self) -> Packed {
        Packed(self.0.load(Ordering::Acquire))
    }

    /// Changes the state in one step to the result of `change`; `None` leaves it unchanged. Returns
    /// the old and the new state. Each failed compare-and-swap adds 1 to `misses`.
    fn update(
        &self,
        misses: &mut u64,
        mut change: impl FnMut(Packed) -> Option<SlabState>,
    ) -> Option<(SlabState, SlabState)> {
        loop {
            let old = self.load();
            let new = change(old)?;
            if local::compare_exchange(&self.0, old.0, Packed::new(old.cache(), new).0) {
                return Some((old.state(), new));
            }
            *misses += 1;
        }
    }

    /// Puts a chain of objects back. `link` must link the last object of the chain to the head it
    /// is given, and may be called several times. The caller owns the objects, so the slab stays a
    /// slab of `cache` during the call. If the cache `parks`, a slab that had no free object is
    /// frozen for the caller.
    pub(super) fn put(
        &self,
        cache: u8,
        chain: Linked,
        (parks, list_locked): (bool, bool),
        misses: &mut u64,
        mut link: impl FnMut(Option<u32>),
    ) -> Put {
        let mut put = Put::ToFrozen;
        let _ = self.update(misses, |word| {
            let old = word.state();
            let mut new = None;
            put = if word.cache() != cache || old.contradicts(chain) {
                Put::NotInUse
            } else {
                let freed = old.with_freed(chain);
                let put = outcome(old, freed, parks, list_locked);
                new = (put != Put::NeedsListLock)
                    .then_some(freed.with_frozen(old.frozen || put == Put::Froze));
                put
            };
            if new.is_some() {
                link(old.head);
            }
            new
        });
        put
    }

    /// Takes all free objects of a frozen slab of any owner. `None` if the slab has no free
    /// object, or is no longer a frozen slab of `cache`.
    pub(super) fn take_frozen(&self, cache: u8, misses: &mut u64) -> Option<Linked> {
        let (old, _) = self.update(misses, |word| {
            let old = word.state();
            let takes = word.cache() == cache && old.frozen && old.head.is_some();
            takes.then(|| old.with_all_taken())
        })?;
        old.chain()
    }

    /// Takes all free objects of the caller's frozen slab. If it has none, unfreezes it: the slab
    /// is then full, on no list, and without an owner.
    pub(super) fn take_or_unfreeze(&self, misses: &mut u64) -> Option<Linked> {
        let (old, _) = self.update(misses, |word| {
            let old = word.state();
            debug_assert!(old.frozen, "only its owner lets go of a slab");
            Some(old.with_all_taken().with_frozen(old.head.is_some()))
        })?;
        old.chain()
    }

    /// Unfreezes the caller's frozen slab if it has no free object. Returns whether it did.
    pub(super) fn unfreeze_if_full(&self, misses: &mut u64) -> bool {
        let done = self.update(misses, |word| {
            let old = word.state();
            old.head.is_none().then(|| old.with_frozen(false))
        });
        done.is_some()
    }

    /// Freezes a listed slab for the caller, or unfreezes the caller's frozen slab, under the list
    /// lock; returns its new state.
    pub(super) fn set_frozen(&self, frozen: bool, misses: &mut u64) -> SlabState {
        let change = self.update(misses, |word| {
            debug_assert!(word.state().frozen != frozen);
            Some(word.state().with_frozen(frozen))
        });
        change.expect("every state is changed").1
    }

    /// Takes all free objects of the caller's frozen slab, and unfreezes it: the slab is then full,
    /// on no list, and without an owner.
    pub(super) fn take_and_unfreeze(&self, misses: &mut u64) -> Option<Linked> {
        let (old, _) = self.update(misses, |word| {
            let old = word.state();
            debug_assert!(old.frozen, "only its owner lets go of a slab");
            Some(old.with_all_taken().with_frozen(false))
        })?;
        old.chain()
    }

    /// Takes the first free object of a listed slab, under the list lock: as long as it is held, no
    /// other thread takes one. `next` tells which object follows. Returns the object, and whether
    /// it was the last free one.
    pub(super) fn pop_listed(
        &self,
        misses: &mut u64,
        mut next: impl FnMut(u32) -> Option<u32>,
    ) -> (u32, bool) {
        let change = self.update(misses, |word| {
            let old = word.state();
            debug_assert!(old.is_listed());
            let (inuse, first) = (old.inuse + 1, old.head?);
            let head = if inuse < old.objects { next(first) } else { None };
            Some(SlabState { head, inuse, ..old })
        });
        let (old, new) = change.expect("slabs on a node's list have free objects");
        (old.head.expect("it had a free object"), new.head.is_none())
    }

    /// Freezes a listed slab, and takes all free objects in the same step.
    pub(super) fn freeze_and_take(&self, misses: &mut u64) -> Linked {
        let change = self.update(misses, |word| {
            debug_assert!(word.state().is_listed());
            Some(word.state().with_all_taken().with_frozen(true))
        });
        let chain = change.and_then(|(old, _)| old.chain());
        chain.expect("slabs on a node's list have free objects")
    }
}

/// The outcome of a put that would change a slab's state from `old` to `freed`.
fn outcome(old: SlabState, freed: SlabState, parks: bool, list_locked: bool) -> Put {
    let was_full = old.head.is_none();
    if old.frozen {
        Put::ToFrozen
    } else if was_full && parks {
        Put::Froze
    } else if !was_full && freed.inuse > 0 {
        Put::ToPartial
    } else if !list_locked {
        Put::NeedsListLock
    } else if freed.inuse == 0 {
        Put::Emptied(!was_full)
    } else {
        Put::Listed
    }
}
