//! Counts over all slots: the objects that they hold and the operations so far.

use super::area::SlotArea;
use super::layout::{ArrayId, LIST_MAX, MAX_ARRAYS, SlotIndex};
use super::object::{ArrayUse, ListUse};
use crate::primitive::Ordering;

impl SlotArea {
    /// Objects and operations of an array, summed over all slots; a snapshot. O(slots awake).
    #[must_use]
    pub fn usage(&self, array: ArrayId) -> ArrayUse {
        let operations = self.rooms.operations_asleep(array);
        let mut sum = ArrayUse { level: 0, operations };
        if self.capacity(array) == 0 {
            return sum;
        }
        for slot in self.awake() {
            let header = self.word(slot, array, 0).load(Ordering::Relaxed);
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
            let word = |word| self.word(slot, array, word).load(Ordering::Relaxed);
            // Arrays count in word 0, lists in words 2 and 3, which arrays seldom change.
            sum.wrapping_add(word(0)).wrapping_add(word(2)).wrapping_add(word(3))
        })
    }

    /// Objects, pops and pushes of a list, summed over all slots; a snapshot. O(slots).
    #[must_use]
    pub fn list_usage(&self, array: ArrayId) -> ListUse {
        let mut sum = ListUse::default();
        for slot in (0..self.slots()).map(SlotIndex) {
            let word = |word| self.word(slot, array, word).load(Ordering::Relaxed);
            sum.level += word(0) & LIST_MAX;
            sum.pops += word(2);
            sum.pushes += word(3);
        }
        sum
    }
}
