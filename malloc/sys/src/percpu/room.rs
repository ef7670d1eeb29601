//! Room: the number of objects that an array may hold, and its limits per slot and in all slots.
//!
//! An array has room for some objects (its place, see `layout`), and all of its room counts against
//! the limits, as if it were full. So arrays never hold more than is counted, and sequences need
//! not count. An array gets room on a miss, within the caller's [`Limits`]: all of its narrow place
//! while far from the limits, less near them, and more on later misses. At the limits it takes room
//! from arrays of the same slot that were not used since the hand of a clock last passed them. A
//! drain takes all room along with the objects, so drained arrays use up no part of the limits.
//!
//! A slot without room is *asleep*. A bit outside the slot shows this, and the counts of its arrays
//! are kept outside too, so that readers do not touch the memory of a slot that was never used.
//!
//! Equations, under `bounds_lock`, with `room(s, a)` objects of `each(a)` bytes:
//! * `bytes(s) = sum over a of room(s, a) * each(a)`
//! * `all = sum over s of bytes(s)`
//! * `s` is awake iff `bytes(s) > 0`; objects lie only in slots that are awake
//! * when room is given, `bytes(s) <= limits.slot`, and `all <= limits.all` or
//!   `bytes(s) <= limits.least`; so while the limits stay,
//!   `all <= limits.all + slots * limits.least`.

use super::area::SlotArea;
use super::layout::{ArrayId, MAX_ARRAYS, MISSES, Place, SlotIndex};
use super::object::ArrayUse;
use crate::broken::{Broken, Check};
use crate::os::{OsError, OsResult};
use crate::primitive::Ordering::Relaxed;

/// Limits of the room of arrays, in bytes of the objects that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of bytes in one slot.
    pub slot: usize,
    /// Maximum number of bytes in all slots together.
    pub all: usize,
    /// Bytes allowed to each slot even if `all` is reached.
    pub least: usize,
    /// Maximum number of objects in a wide place.
    pub wide: usize,
}

impl Limits {
    /// No limits.
    pub const NONE: Self =
        Self { slot: usize::MAX, all: usize::MAX, least: usize::MAX, wide: usize::MAX };

    /// Returns the bytes that a slot may still get, if it has `bytes` and all slots have `all`.
    pub(super) fn left(&self, bytes: usize, all: usize) -> usize {
        let beside = self.all.saturating_sub(all).max(self.least.saturating_sub(bytes));
        self.slot.saturating_sub(bytes).min(beside)
    }
}

/// Fewest objects of an array's first room, unless its place or `FEWEST_BYTES` holds fewer.
const FEWEST: usize = 8;
const FEWEST_BYTES: usize = 256 << 10;
/// A first room of more than `FEWEST` objects is at most this part (1/8) of what the limits leave.
const PART_OF_LEFT: usize = 8;

/// Word 3 of a slot's control cell: `{bytes : 40 | hand : 8 | words : 16}`.
#[derive(Clone, Copy)]
struct Count(u64);

impl Count {
    fn bytes(self) -> usize {
        (self.0 >> 24) as usize
    }

    fn hand(self) -> usize {
        (self.0 >> 16 & 0xff) as usize
    }

    fn words(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    fn new(bytes: usize, hand: usize, words: usize) -> Self {
        Self((bytes as u64) << 24 | (hand as u64) << 16 | words as u64)
    }
}

fn arrays() -> impl Iterator<Item = ArrayId> {
    (1..MAX_ARRAYS).map(ArrayId::new)
}

impl SlotArea {
    /// Sets the bytes of an object of `array`, by which its room is counted. Before the first use.
    pub fn weigh(&self, array: ArrayId, bytes: usize) {
        self.rooms.each[array.index()].store(bytes as u32, Relaxed);
    }

    /// Defines `array` again after its cache was destroyed: for up to `capacity` objects of another
    /// cache, at most as many as in its first definition. O(slots awake).
    ///
    /// # Errors
    /// `ENOENT` where the array was never defined, `EBUSY` where it still has room in a slot that a
    /// drain could not reach.
    pub fn define_again(&self, array: ArrayId, capacity: usize) -> OsResult<()> {
        let _held = self.bounds_lock.lock();
        if self.capacity(array) == 0 {
            return Err(OsError(libc::ENOENT));
        }
        if self.awake().any(|slot| self.room(slot, array) > 0) {
            return Err(OsError(libc::EBUSY));
        }
        let capacity = capacity.min(self.place_words(array));
        self.narrow[array.index()].store(capacity as u32, Relaxed);
        Ok(())
    }

    fn each(&self, array: ArrayId) -> usize {
        (self.rooms.each[array.index()].load(Relaxed) as usize).max(1)
    }

    fn count(&self, slot: SlotIndex) -> Count {
        Count(self.at(slot, 3).load(Relaxed))
    }

    fn set_count(&self, slot: SlotIndex, count: Count) {
        self.at(slot, 3).store(count.0, Relaxed);
    }

    /// Takes the next words of a slot for a narrow place, and returns how many were taken before.
    /// The caller holds `bounds_lock`.
    pub(super) fn take_words(&self, slot: SlotIndex, words: usize) -> usize {
        let count = self.count(slot);
        self.set_count(slot, Count::new(count.bytes(), count.hand(), count.words() + words));
        count.words()
    }

    /// Number of objects for which `array` of `slot` has room, 0 where it is not open. A stopped
    /// array keeps its room until the drain that has stopped it has emptied it.
    #[must_use]
    pub fn room(&self, slot: SlotIndex, array: ArrayId) -> usize {
        self.place(slot, array).len()
    }

    /// Bytes for which the arrays of a slot have room.
    #[must_use]
    pub fn slot_room(&self, slot: SlotIndex) -> usize {
        if self.is_awake(slot) { self.count(slot).bytes() } else { 0 }
    }

    /// Bytes for which all arrays together have room; they never hold more.
    #[must_use]
    pub fn all_room(&self) -> usize {
        self.rooms.all.load(Relaxed)
    }

    /// Bytes of the objects that all arrays hold now; a snapshot. O(arrays * slots awake).
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let of_slot = |slot| {
            arrays()
                .filter(|array| self.capacity(*array) > 0)
                .map(|array| self.slot_level(slot, array) as usize * self.each(array))
                .sum::<usize>()
        };
        self.awake().map(of_slot).sum()
    }

    /// Objects and operations of an array, summed over all slots; a snapshot. O(slots awake).
    #[must_use]
    pub fn usage(&self, array: ArrayId) -> ArrayUse {
        let operations = self.rooms.operations_asleep(array);
        let mut sum = ArrayUse { level: 0, operations };
        if self.capacity(array) == 0 {
            return sum;
        }
        for slot in self.awake() {
            let header = self.word(slot, array, 0).load(Relaxed);
            if header != 0 {
                sum.level += self.slot_level(slot, array);
                sum.operations += header >> 16;
            }
        }
        sum
    }

    /// Returns a number that changes with every push to and pop from the slot's cells. O(cells).
    #[must_use]
    pub fn slot_operations(&self, slot: SlotIndex) -> u64 {
        (1..MAX_ARRAYS).map(ArrayId::new).fold(0, |sum, array| {
            let word = |word| self.word(slot, array, word).load(Relaxed);
            // Arrays count in word 0, lists in words 2 and 3, which arrays seldom change.
            sum.wrapping_add(word(0)).wrapping_add(word(2)).wrapping_add(word(3))
        })
    }

    /// Returns whether arrays of `slot` have room. O(1); does not touch a slot that never had room.
    #[must_use]
    pub(super) fn is_awake(&self, slot: SlotIndex) -> bool {
        match self.rooms.awake.get(slot.index() / 64) {
            Some(word) => word.load(Relaxed) >> (slot.0 % 64) & 1 == 1,
            None => self.count(slot).words() > 0,
        }
    }

    /// The number of slots whose arrays have room, without those beyond the first 1,000 or so.
    #[must_use]
    pub fn awake_slots(&self) -> usize {
        self.rooms.awake.iter().map(|word| word.load(Relaxed).count_ones() as usize).sum()
    }

    /// The slots whose arrays have room, in order.
    pub fn awake(&self) -> impl Iterator<Item = SlotIndex> {
        (0..self.slots()).map(SlotIndex).filter(|slot| self.is_awake(*slot))
    }

    /// Records `now` as the place of `array` in `slot`, and counts its room. The caller holds
    /// `bounds_lock`. An array that changes its place must be closed to every sequence; one that
    /// loses room must be empty.
    pub(super) fn set_room(&self, slot: SlotIndex, array: ArrayId, now: Place) {
        let (narrow, before) = self.places(slot, array);
        self.set_places(slot, array, narrow, now);
        let (count, each) = (self.count(slot), self.each(array));
        let (more, less) = (now.len() * each, before.len() * each);
        let bytes = count.bytes() + more - less;
        self.set_count(slot, Count::new(bytes, count.hand(), count.words()));
        self.rooms.all.fetch_add(more.wrapping_sub(less), Relaxed);
        if (bytes > 0) != (count.bytes() > 0) {
            self.note_awake(slot, bytes > 0);
        }
    }

    fn note_awake(&self, slot: SlotIndex, is_awake: bool) {
        if !is_awake {
            // No array of the slot has room: every sequence refuses, so none writes a header.
            for array in arrays().filter(|array| self.capacity(*array) > 0) {
                let header = self.word(slot, array, 0);
                let value = header.load(Relaxed);
                if value >> 16 != 0 {
                    self.rooms.operations[array.index()].fetch_add(value >> 16, Relaxed);
                    header.store(value & 0xffff, Relaxed);
                }
            }
        }
        let Some(word) = self.rooms.awake.get(slot.index() / 64) else { return };
        let bit = 1 << (slot.0 % 64);
        let _ = match is_awake {
            true => word.fetch_or(bit, Relaxed),
            false => word.fetch_and(!bit, Relaxed),
        };
    }

    /// Returns the room, in objects, to which `array` of `slot` may grow in its narrow place;
    /// `None` if it may not grow enough. Without `bounds_lock`, only a hint.
    pub fn room_within(&self, slot: SlotIndex, array: ArrayId, limits: &Limits) -> Option<usize> {
        let (most, now) = (self.capacity(array), self.room(slot, array));
        let each = self.each(array);
        let left = limits.left(self.slot_room(slot), self.all_room()) / each;
        let fewest = most.min(FEWEST).min((FEWEST_BYTES / each).max(1));
        let room = match now {
            0 => most.min((left / PART_OF_LEFT).max(FEWEST)).min(left),
            _ => most.min(2 * now).min(now.saturating_add(left)),
        };
        // Growing by less than a quarter is not worth the work.
        let least = if now == 0 { fewest } else { most.min(now + now.div_ceil(4)) };
        (room > now && room >= least).then_some(room)
    }

    pub(super) fn may_widen(
        &self,
        slot: SlotIndex,
        array: ArrayId,
        room: usize,
        limits: &Limits,
    ) -> bool {
        let more = room.saturating_sub(self.room(slot, array));
        more * self.each(array) <= limits.left(self.slot_room(slot), self.all_room())
    }

    pub(super) fn with_room(&self, slot: SlotIndex) -> impl Iterator<Item = ArrayId> + '_ {
        let has_room =
            move |array: &ArrayId| self.capacity(*array) > 0 && self.room(slot, *array) > 0;
        arrays().filter(has_room)
    }

    /// Returns the next array of `slot`, other than `but`, that was not used since the hand last
    /// passed it. `steps` limits the hand to one round. The caller holds `bounds_lock`.
    pub(super) fn next_unused(
        &self,
        slot: SlotIndex,
        but: ArrayId,
        steps: &mut usize,
    ) -> Option<ArrayId> {
        while *steps > 0 {
            *steps -= 1;
            let count = self.count(slot);
            let hand = count.hand() % (MAX_ARRAYS - 1) + 1;
            self.set_count(slot, Count::new(count.bytes(), hand, count.words()));
            let array = ArrayId::new(hand);
            if array == but || self.room(slot, array) == 0 {
                continue;
            }
            let seen = self.word(slot, array, MISSES);
            let (before, now) = (seen.load(Relaxed), self.word(slot, array, 0).load(Relaxed) >> 16);
            if before >> 32 == now & 0xffff_ffff {
                return Some(array);
            }
            seen.store(now << 32 | before & 0xffff_ffff, Relaxed);
        }
        None
    }

    /// Checks the equations at the top of this file. The limits must not have changed.
    ///
    /// # Errors
    /// The first equation that does not hold.
    pub fn validate_room(&self, slot_limit: usize) -> Result<(), Broken> {
        let _held = self.bounds_lock.lock();
        let (mut all, room) = (0, Check::of("room"));
        for slot in self.awake() {
            let of_array = |array| self.room(slot, array) * self.each(array);
            let bytes = self.with_room(slot).map(of_array).sum::<usize>();
            let (check, of_slot) = (room.at(slot.0), self.slot_room(slot));
            check.equal(of_slot as u64, bytes as u64, "bytes(slot) = sum over its arrays")?;
            check.that(bytes <= slot_limit, "bytes(slot) <= what one slot may have")?;
            all += bytes;
        }
        room.equal(self.all_room() as u64, all as u64, "bytes = sum over slots that are awake")?;
        room.that(all >= self.held_bytes(), "bytes that arrays hold <= bytes")
    }
}
