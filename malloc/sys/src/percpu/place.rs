//! Opening, moving and emptying the arrays and lists of a slot.

use super::area::SlotArea;
use super::layout::{
    ArrayId, FIRST_WORD, LIST_MAX, LOOKED_AT, MAX_ARRAYS, MISSES, Place, SlotIndex, WIDE_PLACES,
    WidePlace,
};
use super::object::{Object, Take, TakeList};
use super::room::Limits;
use crate::lock::Guard;
use crate::primitive::{AtomicU64, Ordering};
use core::ptr::NonNull;

impl SlotArea {
    /// Opens `array` of `slot` again at its present place, after it was stopped and perhaps moved.
    pub(super) fn reopen(&self, slot: SlotIndex, array: ArrayId) {
        self.word(slot, array, 1).store(self.place(slot, array).bounds(), Ordering::Release);
    }

    /// Takes the next narrow place of `slot` for `array`, which has none yet. A slot has a narrow
    /// place for every defined array.
    fn next_narrow_place(&self, slot: SlotIndex, array: ArrayId) -> Place {
        let words = self.place_words(array);
        let begin = FIRST_WORD + self.take_words(slot, LOOKED_AT + words) + LOOKED_AT;
        Place::new(begin, begin + words)
    }

    /// Gives `array` of `slot` room for `room` objects, no fewer than it has now. The array is in
    /// its narrow place or was never opened. Does nothing before `define`, or while a drain has
    /// stopped the array. The caller holds `bounds_lock`.
    ///
    /// Stores the header before the bounds; sequences load the bounds first. So a sequence that
    /// sees the new bounds also sees the new header (x86-64 keeps loads and stores in order;
    /// aarch64 loads the bounds by `ldar`; locked slots hold their lock). A sequence that sees the
    /// old bounds refuses or sees less room, whatever the header is.
    pub(super) fn give_room(
        &self,
        _bounds: &Guard<'_, ()>,
        slot: SlotIndex,
        array: ArrayId,
        room: usize,
    ) {
        if self.capacity(array) == 0 || self.is_stopped(slot, array) {
            return;
        }
        let header = self.word(slot, array, 0);
        if header.load(Ordering::Relaxed) == 0 {
            let place = self.next_narrow_place(slot, array);
            self.set_places(slot, array, place, place.front(0));
            header.store(place.begin(), Ordering::Release);
        }
        let (narrow, now) = self.places(slot, array);
        debug_assert!(narrow.begin() == now.begin() && now.len() <= room);
        self.set_room(slot, array, narrow.front(room));
        self.reopen(slot, array);
    }

    /// [`Arrays::make_room`](super::Arrays::make_room) for one slot. At the limits, takes the room
    /// of unused arrays by `take_unused`, until that suffices, a call fails, or no array is left.
    pub(super) fn make_room_held(
        &self,
        bounds: &Guard<'_, ()>,
        (slot, array): (SlotIndex, ArrayId),
        limits: &Limits,
        mut take_unused: impl FnMut(ArrayId) -> bool,
    ) -> bool {
        let now = self.room(slot, array);
        if now >= self.capacity(array) || self.is_wide(slot, array) || self.is_stopped(slot, array)
        {
            return false;
        }
        let mut steps = MAX_ARRAYS - 1;
        loop {
            if let Some(room) = self.room_within(slot, array, limits) {
                self.give_room(bounds, slot, array, room);
                return true;
            }
            match self.next_unused(slot, array, &mut steps) {
                Some(unused) if !take_unused(unused) => return false,
                Some(_) => {}
                None => return false,
            }
        }
    }

    /// Returns whether a drain has stopped `array` of `slot`; without `bounds_lock`, only a hint.
    pub(super) fn is_stopped(&self, slot: SlotIndex, array: ArrayId) -> bool {
        let bounds = self.word(slot, array, 1).load(Ordering::Relaxed);
        bounds == 0 && self.place(slot, array).len() > 0
    }

    /// The word (cell 0, word 1) with a byte for each wide place: the number of the array there.
    /// Changes only under `bounds_lock`.
    fn owners(&self, slot: SlotIndex) -> &AtomicU64 {
        self.at(slot, 1)
    }

    /// The numbers of the arrays that are in wide places of `slot` now. Takes no lock.
    pub fn wide_owners(&self, slot: SlotIndex) -> impl Iterator<Item = usize> + use<> {
        let owners = self.owners(slot).load(Ordering::Relaxed).to_le_bytes();
        owners.into_iter().filter(|owner| *owner != 0).map(usize::from)
    }

    /// Returns a free wide place for `array` of `slot`, or more words of its own one, if the array
    /// is open and `limits` allow it.
    pub(super) fn free_wide_place(
        &self,
        slot: SlotIndex,
        array: ArrayId,
        limits: &Limits,
    ) -> Option<WidePlace> {
        let capacity = self.wide[array.index()].load(Ordering::Relaxed) as usize;
        let (room, capacity) = (self.room(slot, array), capacity.min(limits.wide));
        if room == 0 || capacity <= room || !self.may_widen(slot, array, capacity, limits) {
            return None;
        }
        let owners = self.owners(slot).load(Ordering::Relaxed).to_le_bytes();
        let owner = if self.is_wide(slot, array) { array.index() as u8 } else { 0 };
        let number = owners[..WIDE_PLACES].iter().position(|other| *other == owner)?;
        Some(WidePlace { number, capacity })
    }

    /// Moves `array` of `slot`, which no sequence can change now, to a free wide place, or gives it
    /// more of its own. The caller holds `bounds_lock` and opens the array again.
    pub(super) fn widen_stopped(&self, slot: SlotIndex, array: ArrayId, wide: WidePlace) {
        let (from, to) = (self.place(slot, array), wide.place());
        let header = self.word(slot, array, 0);
        let value = header.load(Ordering::Acquire);
        let level = (value & 0xffff) - from.begin();
        let moved = if from.begin() == to.begin() { 0 } else { level as usize };
        for offset in 0..moved {
            let object = self.at(slot, from.begin() as usize + offset).load(Ordering::Relaxed);
            self.at(slot, to.begin() as usize + offset).store(object, Ordering::Relaxed);
        }
        let mut owners = self.owners(slot).load(Ordering::Relaxed).to_le_bytes();
        owners[wide.number] = array.index() as u8;
        self.owners(slot).store(u64::from_le_bytes(owners), Ordering::Relaxed);
        self.set_room(slot, array, to);
        header.store(value & !0xffff | (to.begin() + level), Ordering::Release);
    }

    /// Frees the wide place of `array` of `slot`, if it has one. A drain has stopped the array.
    fn narrow_stopped(&self, slot: SlotIndex, array: ArrayId) {
        let owners = self.owners(slot).load(Ordering::Relaxed).to_le_bytes();
        let left = owners.map(|owner| if owner == array.index() as u8 { 0 } else { owner });
        if left != owners {
            self.owners(slot).store(u64::from_le_bytes(left), Ordering::Relaxed);
        }
    }

    /// Passes all objects of `array`, which no sequence can change now, to `take`. Afterwards the
    /// array is at the front of its narrow place, without room.
    pub(super) fn empty_stopped(&self, slot: SlotIndex, array: ArrayId, take: &mut Take<'_>) {
        let header = self.word(slot, array, 0);
        let value = header.load(Ordering::Acquire);
        let begin = self.place(slot, array).begin();
        let top = (value & 0xffff) as usize;
        let mut piece = [NonNull::<u8>::dangling(); 32];
        let mut from = begin as usize;
        while from < top {
            let count = (top - from).min(piece.len());
            for (offset, object) in piece[..count].iter_mut().enumerate() {
                let address = self.at(slot, from + offset).load(Ordering::Relaxed) as *mut u8;
                *object = NonNull::new(address).expect("arrays hold no null");
            }
            take(array, &piece[..count]);
            from += count;
        }
        self.narrow_stopped(slot, array);
        let (narrow, _) = self.places(slot, array);
        header.store(value & !0xffff | narrow.begin(), Ordering::Release);
        // The counted misses were those of the old room.
        self.word(slot, array, MISSES).store(0, Ordering::Relaxed);
        self.set_room(slot, array, narrow.front(0));
    }

    /// Passes the list and the guard of a cell, which no sequence can change now, to `take`.
    pub(super) fn empty_list(
        &self,
        slot: SlotIndex,
        array: ArrayId,
        guard: u64,
        take: &mut TakeList<'_>,
    ) {
        let list = self.word(slot, array, 0).swap(0, Ordering::AcqRel);
        let head = Object::new(((list >> 20) << 4) as *mut u8);
        if guard != 0 || head.is_some() {
            take(guard, head, (list & LIST_MAX) as usize);
        }
        self.word(slot, array, 1).store(0, Ordering::Release);
    }
}
