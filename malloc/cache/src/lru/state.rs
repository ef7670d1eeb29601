//! The state word of a cached page: its pins, its latch and its flags in one atomic.
//!
//! ```text
//! | version : 16 | flags : 16 | exclusive : 1 | shared : 11 | pins : 20 |
//! ```
//!
//! * A *pin* keeps the page and its memory where they are. Users hold pins. The cache's own work on
//!   a page (the fill, writeback, an add batch, a scan) holds one too.
//! * The *latch* orders tasks that read and write the bytes.
//! * `LIVE`: the page is in a file mapping's index. A task that clears the flag has taken the page
//!   out of the index; the task that then gives up the last pin owns the page and frees it.
//!
//! Equations: `word = 0` iff the descriptor is free; `pins = 0 and not LIVE` only while the one
//! owner frees the page; `exclusive` implies `shared = 0`.

use quarry_mm::frame::fresh_zero;
use quarry_sys::primitive::{AtomicU64, Ordering};

/// Maximum number of pins that one page can count.
pub const MOST_PINS: u64 = (1 << 20) - 1;
/// Maximum number of pins of users. Those of add batches, scans and truncation may exceed it.
pub const MOST_USER_PINS: u64 = 1 << 19;
/// Maximum number of readers that hold the latch of one page.
pub const MOST_SHARED: u64 = (1 << 11) - 1;

const PIN: u64 = 1;
const SHARED_SHIFT: u32 = 20;
const SHARED: u64 = 1 << SHARED_SHIFT;

/// A value of the state word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct State(pub u64);

impl State {
    /// The latch is held for writing, or while the page is filled.
    pub const EXCLUSIVE: u64 = 1 << 31;
    /// The page is in the index of a file mapping.
    pub const LIVE: u64 = 1 << 32;
    /// The bytes are those of the backing, or newer.
    pub const UPTODATE: u64 = 1 << 33;
    /// The page was used since the last scan.
    pub const REFERENCED: u64 = 1 << 34;
    /// The bytes are newer than the backing.
    pub const DIRTY: u64 = 1 << 35;
    /// The bytes are being written to the backing.
    pub const WRITEBACK: u64 = 1 << 36;
    /// On the active list, or to be added there.
    pub const ACTIVE: u64 = 1 << 37;
    /// On a list of the LRU.
    pub const LRU: u64 = 1 << 38;
    /// The page was part of the working set when it was last evicted.
    pub const WORKINGSET: u64 = 1 << 39;
    /// The last write to the backing failed.
    pub const ERROR: u64 = 1 << 40;
    /// Tasks sleep until the latch is free or writeback ends.
    pub const WAITERS: u64 = 1 << 41;
    /// Reclaim may not take the page (in-memory databases).
    pub const UNEVICTABLE: u64 = 1 << 42;
    /// The first use of this page starts the next read-ahead (`PG_readahead`).
    pub const READAHEAD: u64 = 1 << 43;
    /// Read-ahead read this page unasked: the first scan that finds it used keeps it inactive.
    pub const FRESH: u64 = 1 << 44;
    /// The unit of the version: every release of the exclusive latch adds it.
    pub const VERSION: u64 = 1 << 48;

    /// One pin.
    pub const PIN: u64 = PIN;
    /// All bits of readers that hold the latch.
    pub const SHARED: u64 = MOST_SHARED << SHARED_SHIFT;
    /// All bits of pins.
    pub const PINS: u64 = MOST_PINS;

    /// Number of pins.
    #[inline(always)]
    #[must_use]
    pub const fn pins(self) -> u64 {
        self.0 & MOST_PINS
    }

    /// Returns whether the page has more pins than the one of its add batch or of a scan.
    #[inline]
    #[must_use]
    pub const fn is_pinned_by_users(self) -> bool {
        self.pins() > (self.0 & (Self::LRU | Self::UNEVICTABLE) == 0) as u64
    }

    /// Number of readers that hold the latch.
    #[inline(always)]
    #[must_use]
    pub const fn shared(self) -> u64 {
        self.0 >> SHARED_SHIFT & MOST_SHARED
    }

    /// Returns whether every flag in `flags` is set.
    #[inline(always)]
    #[must_use]
    pub const fn has(self, flags: u64) -> bool {
        self.0 & flags == flags
    }
}

fresh_zero! {
    /// The state word itself; zero in a free descriptor.
    #[derive(Default)]
    #[repr(transparent)]
    pub struct StateWord {
        word: AtomicU64,
    }
}

impl StateWord {
    /// The current value.
    #[inline(always)]
    pub fn load(&self) -> State {
        State(self.word.load(Ordering::Acquire))
    }

    /// Replaces `from` by `to`.
    ///
    /// # Errors
    /// The current value, if the word is not `from`.
    #[inline(always)]
    pub fn exchange(&self, from: State, to: State) -> Result<(), State> {
        self.word
            .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
            .map_err(State)
    }

    /// Changes the value to what `next` makes of it. Returns the value before.
    ///
    /// # Errors
    /// The current value, if `next` refuses it.
    #[inline(always)]
    fn change(&self, next: impl Fn(State) -> Option<u64>) -> Result<State, State> {
        let mut now = self.load();
        loop {
            match self.exchange(now, State(next(now).ok_or(now)?)) {
                Ok(()) => return Ok(now),
                Err(changed) => now = changed,
            }
        }
    }

    /// Sets flags; returns the value before.
    #[inline]
    pub fn set(&self, flags: u64) -> State {
        State(self.word.fetch_or(flags, Ordering::AcqRel))
    }

    /// Clears flags; returns the value before.
    #[inline]
    pub fn clear(&self, flags: u64) -> State {
        State(self.word.fetch_and(!flags, Ordering::AcqRel))
    }

    /// Pins the page and marks it as used, if it has all flags in `needed`. Returns the new value.
    #[inline(always)]
    pub fn try_pin(&self, needed: u64) -> Option<State> {
        let mut now = self.load();
        loop {
            if !now.has(needed) || now.pins() >= MOST_USER_PINS {
                return None;
            }
            let pinned = State((now.0 + PIN) | State::REFERENCED);
            match self.exchange(now, pinned) {
                Ok(()) => return Some(pinned),
                Err(changed) => now = changed,
            }
        }
    }

    /// Pins the page without marking it as used, if it is `LIVE`: for scans.
    #[inline]
    pub fn try_pin_unused(&self) -> bool {
        let may_pin = |now: State| now.has(State::LIVE) && now.pins() < MOST_PINS;
        self.change(|now| may_pin(now).then(|| now.0 + PIN)).is_ok()
    }

    /// Adds a pin to a page that the caller has pinned already; returns the value before.
    #[inline]
    pub fn pin_again(&self) -> State {
        let before = State(self.word.fetch_add(PIN, Ordering::Relaxed));
        debug_assert!(before.pins() > 0 && before.pins() < MOST_PINS);
        before
    }

    /// Gives up a pin. If true, this was the last pin of a page in no index: the caller frees it.
    #[inline(always)]
    #[must_use = "the last one frees the page"]
    pub fn unpin(&self) -> bool {
        let before = State(self.word.fetch_sub(PIN, Ordering::AcqRel));
        debug_assert!(before.pins() > 0, "a pin is given up once");
        before.pins() == 1 && !before.has(State::LIVE)
    }

    /// Takes the latch for reading, if no task has it for writing.
    #[inline]
    pub fn try_latch_shared(&self) -> bool {
        let is_free = |now: State| !now.has(State::EXCLUSIVE) && now.shared() < MOST_SHARED;
        self.change(|now| is_free(now).then(|| now.0 + SHARED)).is_ok()
    }

    /// Takes the latch for writing, if no task has it.
    #[inline]
    pub fn try_latch_exclusive(&self) -> bool {
        let is_free = |now: State| !now.has(State::EXCLUSIVE) && now.shared() == 0;
        self.change(|now| is_free(now).then_some(now.0 | State::EXCLUSIVE)).is_ok()
    }

    /// Gives the latch up after reading; returns the value before.
    #[inline]
    pub fn unlatch_shared(&self) -> State {
        let before = State(self.word.fetch_sub(SHARED, Ordering::AcqRel));
        debug_assert!(before.shared() > 0, "a latch is given up once");
        before
    }

    /// Gives up the latch after writing, sets `flags`, adds a version; returns the value before.
    #[inline]
    pub fn unlatch_exclusive(&self, flags: u64) -> State {
        let freed = self.change(|now| {
            debug_assert!(now.has(State::EXCLUSIVE), "a latch is given up once");
            let freed = now.0 & !State::EXCLUSIVE & !State::WAITERS | flags;
            Some(freed.wrapping_add(State::VERSION))
        });
        freed.unwrap_or_else(|now| now)
    }

    /// Takes the page out of its index: clears `LIVE` and `DIRTY`, and latches it, unless a flag of
    /// `refused` is set. If `is_held`, gives up the pin that the page's owner holds. Adds `pins`
    /// pins for the caller (0 if it has one). Returns the value before.
    ///
    /// # Errors
    /// The current value, if a flag of `refused` is set or the page is not live.
    #[inline]
    pub fn take_out(&self, refused: u64, pins: u64, is_held: bool) -> Result<State, State> {
        self.change(|now| {
            let held = if is_held { PIN } else { 0 };
            let gone = State::LIVE | State::DIRTY;
            let may_leave = now.has(State::LIVE) && now.0 & refused == 0;
            may_leave.then(|| (now.0 & !gone | State::EXCLUSIVE) + pins - held)
        })
    }

    /// Gives up the exclusive latch and the caller's pin of a page in no index. If this is the last
    /// pin, changes nothing: the caller owns the page. Returns the value before.
    #[inline]
    pub fn leave(&self) -> State {
        let left = self.change(|now| {
            debug_assert!(!now.has(State::LIVE) && now.pins() > 0, "taken out, and pinned");
            let left = now.0 & !(State::EXCLUSIVE | State::WAITERS);
            (now.pins() > 1).then(|| left.wrapping_add(State::VERSION) - PIN)
        });
        left.unwrap_or_else(|last| last)
    }

    /// Evicts a clean unused page that only the caller pins: clears `LIVE`. Returns whether it did.
    #[inline]
    pub fn try_evict(&self) -> bool {
        let busy = (MOST_PINS & !PIN) | MOST_SHARED << SHARED_SHIFT;
        let kept = State::EXCLUSIVE
            | State::DIRTY
            | State::WRITEBACK
            | State::REFERENCED
            | State::UNEVICTABLE;
        let now = self.load();
        now.pins() == 1
            && now.has(State::LIVE | State::UPTODATE)
            && now.0 & (busy | kept) == 0
            && self.exchange(now, State(now.0 & !State::LIVE)).is_ok()
    }

    /// Writes the word of a descriptor that the caller owns.
    #[inline]
    pub fn begin(&self, state: State) {
        self.word.store(state.0, Ordering::Release);
    }

    /// The word itself, for futexes and models.
    #[inline]
    pub fn word(&self) -> &AtomicU64 {
        &self.word
    }
}
