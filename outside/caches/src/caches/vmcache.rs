//! The mechanism of vmcache (Leis, Alhomssi, Ziegler, Loeck, Dietrich: "Virtual-Memory Assisted
//! Buffer Management", SIGMOD 2023), a small implementation from its description. Every page of
//! storage has its own address and state word; eviction returns the memory at the address to the
//! system. A hit computes the address and loads the state word twice; there is no index.

use super::PageCache;
use super::pool::Pool;
use crate::page::{Key, Page, Reading};
use anyhow::Result;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Pages that are evicted together.
const BATCH: usize = 64;

/// The states of a page: a count of readers up to 252, or one of the constants below. The lower 56
/// bits are the version, which counts changes and evictions of the page.
const UNLOCKED: u8 = 0;
const MOST_SHARED: u8 = 252;
const LOCKED: u8 = 253;
const MARKED: u8 = 254;
const EVICTED: u8 = 255;
const STATE_SHIFT: u32 = 56;

fn state(word: u64) -> u8 {
    (word >> STATE_SHIFT) as u8
}

fn version(word: u64) -> u64 {
    word << 8 >> 8
}

/// `word` with another state.
fn same(word: u64, state: u8) -> u64 {
    version(word) | u64::from(state) << STATE_SHIFT
}

/// `word` with another state and the next version.
fn next(word: u64, state: u8) -> u64 {
    version(word + 1) | u64::from(state) << STATE_SHIFT
}

struct PageState(AtomicU64);

impl PageState {
    fn exchange(&self, from: u64, to: u64) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Calls `look` without counting a reader; `None` if the page is evicted.
    #[inline(always)]
    fn optimistic<T>(&self, look: impl Fn() -> T) -> Option<T> {
        loop {
            let before = self.0.load(Ordering::Acquire);
            match state(before) {
                UNLOCKED..=MOST_SHARED => {
                    let seen = look();
                    std::sync::atomic::fence(Ordering::Acquire);
                    let after = self.0.load(Ordering::Relaxed);
                    if version(after) == version(before) && state(after) <= MOST_SHARED {
                        return Some(seen);
                    }
                }
                // The page is in use, so it loses its mark.
                MARKED => drop(self.exchange(before, same(before, UNLOCKED))),
                EVICTED => return None,
                _ => std::hint::spin_loop(),
            }
        }
    }

    /// Calls `look` while the state word counts a reader, which keeps writers and eviction off.
    fn shared<T>(&self, look: impl Fn() -> T) -> Option<T> {
        loop {
            let before = self.0.load(Ordering::Acquire);
            let readers = match state(before) {
                readers @ UNLOCKED..MOST_SHARED => readers,
                MARKED => UNLOCKED,
                EVICTED => return None,
                _ => {
                    std::hint::spin_loop();
                    continue;
                }
            };
            if self.exchange(before, same(before, readers + 1)) {
                let seen = look();
                self.0.fetch_sub(1 << STATE_SHIFT, Ordering::Release);
                return Some(seen);
            }
        }
    }

    /// Locks an evicted page to fill it; false if the page is not evicted.
    fn lock_evicted(&self) -> bool {
        let before = self.0.load(Ordering::Acquire);
        state(before) == EVICTED && self.exchange(before, same(before, LOCKED))
    }

    fn unlock(&self, to: u8) {
        let before = self.0.load(Ordering::Relaxed);
        debug_assert_eq!(state(before), LOCKED);
        self.0.store(next(before, to), Ordering::Release);
    }
}

/// The way in which a hit reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The hit writes only to remove a mark, and reads again if the page changed meanwhile.
    Optimistic,
    /// The hit counts itself in the state word, so the page stays while it is read.
    Shared,
}

/// The cache.
pub struct VmCache {
    guard: Guard,
    pages: Pool,
    states: Vec<PageState>,
    resident: Resident,
    capacity: u32,
    used: AtomicU32,
}

impl VmCache {
    /// Makes a cache for `capacity` of `pages` pages.
    ///
    /// # Errors
    /// If there is not enough address space.
    pub fn new(capacity: u32, pages: u32) -> Result<Self> {
        let evicted = || PageState(AtomicU64::new(u64::from(EVICTED) << STATE_SHIFT));
        let memory = Pool::reserve(pages)?;
        memory.set_huge(false);
        Ok(Self {
            guard: Guard::Optimistic,
            pages: memory,
            states: (0..pages).map(|_| evicted()).collect(),
            resident: Resident::new(capacity),
            capacity,
            used: AtomicU32::new(0),
        })
    }

    /// The same cache with this guard.
    #[must_use]
    pub fn with(self, guard: Guard) -> Self {
        Self { guard, ..self }
    }

    fn reserve_room(&self) {
        while self.used.fetch_add(1, Ordering::AcqRel) >= self.capacity {
            self.used.fetch_sub(1, Ordering::AcqRel);
            self.evict();
        }
    }

    /// Evicts a batch of pages that the clock hand finds marked; marks pages that no task uses.
    fn evict(&self) {
        let mut batch: Vec<u32> = Vec::with_capacity(BATCH);
        let mut looked = 0;
        while batch.len() < BATCH && looked < 4 * self.resident.slots.len() {
            looked += BATCH;
            self.resident.next(BATCH, |page| {
                let word = &self.states[page as usize];
                let before = word.0.load(Ordering::Acquire);
                match state(before) {
                    MARKED if word.exchange(before, same(before, LOCKED)) => batch.push(page),
                    UNLOCKED => drop(word.exchange(before, same(before, MARKED))),
                    _ => {}
                }
            });
        }
        for page in &batch {
            self.pages.discard(*page);
            self.resident.remove(*page);
            self.states[*page as usize].unlock(EVICTED);
        }
        self.used.fetch_sub(batch.len() as u32, Ordering::AcqRel);
    }
}

impl PageCache for VmCache {
    #[inline(always)]
    fn get(&self, key: Key, reading: Reading) -> Option<u64> {
        let number = key.number();
        let look = || self.pages.page(number).read(key, reading);
        match self.guard {
            Guard::Optimistic => self.states[number as usize].optimistic(look),
            Guard::Shared => self.states[number as usize].shared(look),
        }
    }

    fn insert(&self, key: Key, fill: impl FnOnce(&Page)) -> bool {
        let number = key.number();
        if self.states[number as usize].lock_evicted() {
            self.reserve_room();
            fill(self.pages.page(number));
            self.resident.insert(number);
            self.states[number as usize].unlock(UNLOCKED);
        }
        true
    }
}

/// The resident pages: a hash table with open addressing, around which a clock hand goes.
struct Resident {
    slots: Vec<AtomicU32>,
    hand: AtomicU64,
}

const EMPTY: u32 = u32::MAX;
const TOMBSTONE: u32 = u32::MAX - 1;

impl Resident {
    fn new(capacity: u32) -> Self {
        let slots = (capacity + BATCH as u32).next_power_of_two() * 2;
        let slots = (0..slots).map(|_| AtomicU32::new(EMPTY)).collect();
        Self { slots, hand: AtomicU64::new(0) }
    }

    /// The places of the hash table where a page may be, in the order in which they are searched.
    fn places(&self, page: u32) -> impl Iterator<Item = &AtomicU32> {
        let first = page.wrapping_mul(2_654_435_761) as usize;
        (0..).map(move |step| &self.slots[(first >> 7).wrapping_add(step) % self.slots.len()])
    }

    fn insert(&self, page: u32) {
        for slot in self.places(page) {
            let now = slot.load(Ordering::Relaxed);
            let is_free = now == EMPTY || now == TOMBSTONE;
            let exchange = || slot.compare_exchange(now, page, Ordering::AcqRel, Ordering::Relaxed);
            if is_free && exchange().is_ok() {
                return;
            }
        }
    }

    fn remove(&self, page: u32) {
        let at = self.places(page).find(|slot| slot.load(Ordering::Acquire) == page);
        if let Some(slot) = at {
            slot.store(TOMBSTONE, Ordering::Release);
        }
    }

    fn next(&self, count: usize, mut show: impl FnMut(u32)) {
        let first = self.hand.fetch_add(count as u64, Ordering::Relaxed) as usize;
        for step in 0..count {
            let page = self.slots[(first + step) % self.slots.len()].load(Ordering::Acquire);
            if page < TOMBSTONE {
                show(page);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_takes_the_mark_away_and_eviction_needs_it() {
        let cache = VmCache::new(128, 256).unwrap();
        for number in 0..128 {
            cache.insert(Key::of(number), |page| page.write(Key::of(number)));
        }
        cache.resident.next(cache.resident.slots.len(), |page| {
            let word = &cache.states[page as usize];
            let before = word.0.load(Ordering::Relaxed);
            assert!(word.exchange(before, same(before, MARKED)));
        });
        assert!(cache.get(Key::of(9), Reading::Word).is_some());
        cache.evict();
        let state_of = |page: u32| state(cache.states[page as usize].0.load(Ordering::Relaxed));
        let left = (0..128).filter(|page| state_of(*page) != EVICTED).count() as u32;
        assert!(left <= 64 && left == cache.used.load(Ordering::Relaxed));
        assert_eq!(cache.get(Key::of(9), Reading::Word), Some(Key::of(9).expected(Reading::Word)));
        let evicted = (0..128).find(|page| state_of(*page) == EVICTED).map(Key::of).unwrap();
        assert_eq!(cache.get(evicted, Reading::Word), None);
    }

    #[test]
    fn a_shared_guard_leaves_the_state_as_it_was() {
        let cache = VmCache::new(64, 256).unwrap().with(Guard::Shared);
        let key = Key::of(3);
        cache.insert(key, |page| page.write(key));
        let before = cache.states[3].0.load(Ordering::Relaxed);
        assert_eq!(cache.get(key, Reading::Whole), Some(key.expected(Reading::Whole)));
        assert_eq!(cache.states[3].0.load(Ordering::Relaxed), before);
    }
}
