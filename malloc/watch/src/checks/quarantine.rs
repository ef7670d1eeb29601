//! Freed objects whose memory is not reused for a while, so that writes to them are detected.
//!
//! A ring: objects enter at one end and leave at the other. Under `QUARRY_HARDEN` each new object
//! is exchanged with a random one, so that programs cannot predict when memory is reused.
//!
//! Equations: `len <= capacity`, `bytes = sum of the slots in quarantine`.

use super::record::Slot;

/// The ring of freed objects, in memory that [`give`](Self::give) provides.
pub(crate) struct Quarantine {
    slots: *mut Slot,
    first: usize,
    len: usize,
    bytes: usize,
    capacity: usize,
    most_bytes: usize,
}

// SAFETY: only the quarantine uses the memory of the ring.
unsafe impl Send for Quarantine {}

impl Quarantine {
    /// A quarantine without room: every object leaves at once.
    pub(crate) const fn new() -> Self {
        let slots = core::ptr::null_mut();
        Self { slots, first: 0, len: 0, bytes: 0, capacity: 0, most_bytes: 0 }
    }

    /// Gives the quarantine room for `capacity` objects with at most `most_bytes` in total.
    ///
    /// # Safety
    /// `slots` has room for as many, is zeroed, and is never used by other code.
    pub(crate) unsafe fn give(&mut self, slots: *mut Slot, capacity: usize, most_bytes: usize) {
        (self.slots, self.capacity, self.most_bytes) = (slots, capacity, most_bytes);
    }

    /// Loses all objects.
    pub(crate) fn forget(&mut self) {
        (self.first, self.len, self.bytes) = (0, 0, 0);
    }

    fn place(&self, number: usize) -> usize {
        let place = self.first + number;
        if place < self.capacity { place } else { place - self.capacity }
    }

    fn at(&mut self, place: usize) -> &mut Slot {
        assert!(place < self.len && !self.slots.is_null());
        // SAFETY: the position lies in the ring, and we have the only reference.
        unsafe { &mut *self.slots.add(self.place(place)) }
    }

    /// Adds an object. With `at_random`, exchanges it with the object at that part of the ring, in
    /// units of 2^-32. O(1).
    pub(crate) fn push(&mut self, slot: Slot, at_random: Option<usize>) {
        debug_assert!(!self.is_full());
        self.len += 1;
        self.bytes += slot.bytes;
        *self.at(self.len - 1) = slot;
        if let Some(number) = at_random {
            let other = ((u64::from(number as u32) * self.len as u64) >> 32) as usize;
            let waiting = *self.at(other);
            *self.at(self.len - 1) = waiting;
            *self.at(other) = slot;
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.slots.is_null() || self.len == self.capacity
    }

    /// Returns whether there are too many bytes, or the ring is full.
    pub(crate) fn is_due(&self) -> bool {
        self.len > 0 && (self.bytes > self.most_bytes || self.len == self.capacity)
    }

    /// Takes the first object if there are too many bytes, if the ring is full, or if `all`. O(1).
    pub(crate) fn pop(&mut self, all: bool) -> Option<Slot> {
        if self.len == 0 || !(all || self.is_due()) {
            return None;
        }
        let slot = *self.at(0);
        self.first = self.place(1);
        self.len -= 1;
        self.bytes -= slot.bytes;
        if self.len > 0 {
            self.at(0).prefetch();
        }
        Some(slot)
    }

    /// All objects, the first to leave first.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = Slot> {
        (0..self.len).map(|place| *self.at(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST_OBJECTS: usize = 1000;

    fn with_room(most_bytes: usize) -> (Quarantine, Vec<Slot>) {
        let mut room = vec![Slot { start: 0, bytes: 0 }; MOST_OBJECTS];
        let mut quarantine = Quarantine::new();
        // SAFETY: the room lives as long as the quarantine, and no other code uses it.
        unsafe { quarantine.give(room.as_mut_ptr(), MOST_OBJECTS, most_bytes) };
        (quarantine, room)
    }

    #[test]
    fn objects_leave_in_order_when_there_are_too_many_bytes() {
        let (mut quarantine, _room) = with_room(1000);
        let mut left = Vec::new();
        for number in 1..=100 {
            quarantine.push(Slot { start: number, bytes: 100 }, None);
            left.extend(core::iter::from_fn(|| quarantine.pop(false)).map(|slot| slot.start));
            assert_eq!(quarantine.len, number.min(10));
            let bytes: usize = quarantine.all().map(|slot| slot.bytes).sum();
            assert_eq!(quarantine.bytes, bytes);
        }
        assert_eq!(left, (1..=90).collect::<Vec<_>>());
    }

    #[test]
    fn at_random_all_leave_once_and_not_in_order() {
        let (mut quarantine, _room) = with_room(usize::MAX);
        let mut seed = 1u64;
        let mut left = Vec::new();
        let count = 3 * MOST_OBJECTS;
        for number in 0..count {
            left.extend(quarantine.pop(false).map(|slot| slot.start));
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            quarantine.push(Slot { start: number, bytes: 1 }, Some((seed >> 32) as usize));
        }
        left.extend(core::iter::from_fn(|| quarantine.pop(true)).map(|slot| slot.start));
        assert!(!left.is_sorted());
        left.sort_unstable();
        assert_eq!(left, (0..count).collect::<Vec<_>>());
    }

    #[test]
    fn without_room_it_is_full() {
        let mut quarantine = Quarantine::new();
        assert!(quarantine.is_full() && quarantine.pop(true).is_none());
    }
}
