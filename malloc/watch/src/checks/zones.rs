//! Bytes that a correct program does not write: red zones, poison, canaries.
//!
//! | where | value | name in the kernel (Linux 6.18, `include/linux/poison.h`) |
//! |---|---|---|
//! | zones of an object in use | `cc` | `SLUB_RED_ACTIVE` |
//! | zones of a freed object | `bb` | `SLUB_RED_INACTIVE` |
//! | a new object | `5a` | `POISON_INUSE` |
//! | a freed object, and its last byte | `6b`, `a5` | `POISON_FREE`, `POISON_END` |
//! | the canary after a hardened object | a byte 0, then a secret without one | |
//! | a hardened object that was freed | `00` | |
//!
//! A pattern is a word of eight bytes: the byte at an address is byte `address % 8` of the pattern.

use super::record::{Shape, Slot, mixed};
use quarry_mm::heap::CheckFlags;
use quarry_sys::same::are_same;

/// Maximum bytes that are checked after an object: of a red zone, and (one cache line) of canaries.
const MOST_ZONE: usize = 4096;
const MOST_CANARY: usize = 64;

const RED_INACTIVE: u64 = 0xbbbb_bbbb_bbbb_bbbb;
const RED_ACTIVE: u64 = 0xcccc_cccc_cccc_cccc;
const POISON_INUSE: u64 = 0x5a5a_5a5a_5a5a_5a5a;
const POISON_FREE: u64 = 0x6b6b_6b6b_6b6b_6b6b;
const POISON_END: u8 = 0xa5;

/// Consecutive bytes: an address and a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: usize,
    pub(crate) bytes: usize,
}

/// A part of a slot that was overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    Front,
    Behind,
    /// In a freed object.
    Freed,
}

impl Range {
    /// Fills the range with the pattern.
    ///
    /// # Safety
    /// The bytes are writable memory of the stack, and the program does not know them.
    pub(crate) unsafe fn fill(self, pattern: u64) {
        let pointer = core::ptr::with_exposed_provenance_mut::<u8>(self.start);
        let first = pattern as u8;
        if pattern == u64::from_ne_bytes([first; 8]) {
            // SAFETY: the bytes are writable (caller's promise).
            return unsafe { pointer.write_bytes(first, self.bytes) };
        }
        let end = self.start + self.bytes;
        let put = |at: usize| {
            let bytes = turned(pattern, at);
            // SAFETY: the eight bytes lie within the range (caller's promise).
            unsafe { pointer.add(at - self.start).cast::<u64>().write_unaligned(bytes) };
        };
        if self.bytes < 8 {
            for at in self.start..end {
                // SAFETY: the address lies within the range (caller's promise).
                unsafe { pointer.add(at - self.start).write(turned(pattern, at) as u8) };
            }
            return;
        }
        put(self.start);
        (self.start.next_multiple_of(8)..end - 7).step_by(8).for_each(put);
        put(end - 8);
    }

    /// Returns whether all bytes are those of the pattern.
    ///
    /// # Safety
    /// Same as for [`first_other`](Self::first_other).
    #[inline]
    unsafe fn is_filled(self, pattern: u64) -> bool {
        let (end, first) = (self.start + self.bytes, self.start & !7);
        // SAFETY: the caller's promise, for eight bytes at a multiple of 8.
        let others = |at| unsafe { differences(at, pattern) };
        // The range may begin after its first word does, and end before its last one does.
        let after = u64::MAX << (8 * (self.start % 8));
        let before = u64::MAX >> (8 * (end.wrapping_neg() % 8));
        let last = (end - 1) & !7;
        if self.bytes == 0 {
            return true;
        }
        if first == last {
            return others(first) & after & before == 0;
        }
        let at_ends = others(first) & after | others(last) & before;
        // SAFETY: the words between them lie within the range.
        let between = || unsafe { are_same(first + 8, (last - first) / 8 - 1, pattern.to_le()) };
        at_ends == 0 && between()
    }

    /// Finds the first byte that differs from the pattern. The program may write during the call.
    ///
    /// # Safety
    /// The bytes, and those that share a word of eight bytes with them, are readable memory of the
    /// stack.
    pub(super) unsafe fn first_other(self, pattern: u64) -> Option<usize> {
        // SAFETY: the caller's promise.
        if unsafe { self.is_filled(pattern) } {
            return None;
        }
        let end = self.start + self.bytes;
        for at in (self.start & !7..end).step_by(8) {
            // SAFETY: the caller's promise, for eight bytes at a multiple of 8.
            let others = unsafe { differences(at, pattern) };
            if others != 0 {
                // The range may begin after the word does, or end before it does.
                let before = 8 * self.start.saturating_sub(at) as u32;
                let beyond = 8 * (at + 8).saturating_sub(end) as u32;
                let others = others & u64::MAX << before & u64::MAX >> beyond;
                if others != 0 {
                    return Some(at + others.trailing_zeros() as usize / 8);
                }
            }
        }
        None
    }
}

/// The eight bytes of the pattern that lie at an address and after it.
fn turned(pattern: u64, address: usize) -> u64 {
    pattern.rotate_right(8 * (address as u32 & 7)).to_le()
}

/// The bits in which eight bytes at a multiple of 8 differ from the pattern.
///
/// # Safety
/// The bytes are readable. (The program may write to them at the same time.)
unsafe fn differences(at: usize, pattern: u64) -> u64 {
    // SAFETY: the caller's promise; volatile, because a faulty program may write at the same time.
    let word = unsafe { core::ptr::with_exposed_provenance::<u64>(at).read_volatile() };
    word.to_le() ^ pattern
}

/// The parts of an object's slot, at the positions that follow from `shape`.
#[derive(Clone, Copy)]
pub(crate) struct Parts {
    slot: Slot,
    shape: Shape,
    canary: u64,
}

impl Parts {
    /// The parts of a slot; `secret` is the secret of the process.
    pub(crate) fn of(slot: Slot, shape: Shape, secret: u64) -> Self {
        // No byte of the secret is 0, so the 0 after a string that is too long changes it.
        let canary = mixed(secret.rotate_left(32) ^ slot.start as u64) | 0x0101_0101_0101_0101;
        Self { slot, shape, canary }
    }

    /// The bytes of the program.
    pub(crate) fn user(&self) -> Range {
        Range { start: self.slot.start + self.shape.front, bytes: self.shape.size }
    }

    fn front(&self) -> Range {
        Range { start: self.slot.start, bytes: self.shape.front }
    }

    /// The part of the zone after the object that is checked.
    fn after(&self) -> Range {
        let user = self.user();
        let start = user.start + user.bytes;
        let end = self.slot.start + self.slot.bytes - self.shape.tail();
        let most = match self.shape.flags {
            flags if flags.has(CheckFlags::RED_ZONES) => MOST_ZONE,
            flags if flags.has(CheckFlags::CANARY) => MOST_CANARY,
            _ => 0,
        };
        Range { start, bytes: (end - start).min(most) }
    }

    fn active(&self) -> u64 {
        if self.shape.flags.has(CheckFlags::RED_ZONES) { RED_ACTIVE } else { self.canary }
    }

    fn inactive(&self) -> u64 {
        if self.shape.flags.has(CheckFlags::RED_ZONES) { RED_INACTIVE } else { self.canary }
    }

    /// Writes the zones of an object in use. O(zones).
    ///
    /// # Safety
    /// The slot is writable memory of the stack; the program has no object in it, or resizes it.
    pub(crate) unsafe fn arm(&self) {
        // SAFETY: the zones lie in the slot, outside of the object.
        unsafe {
            self.front().fill(self.active());
            let zone = self.after();
            zone.fill(self.active());
            if self.ends_strings() {
                core::ptr::with_exposed_provenance_mut::<u8>(zone.start).write(0);
            }
        }
    }

    /// Returns whether a 0 follows the object, so that reads of a string that fills it end there.
    fn ends_strings(&self) -> bool {
        let flags = self.shape.flags;
        flags.has(CheckFlags::CANARY) && !flags.has(CheckFlags::RED_ZONES)
    }

    /// Fills a new object with its pattern, if its checks include `POISON`. O(size).
    ///
    /// # Safety
    /// Same as [`arm`](Self::arm).
    pub(crate) unsafe fn poison_new(&self) {
        if self.shape.flags.has(CheckFlags::POISON) {
            // SAFETY: the object lies in the slot.
            unsafe { self.user().fill(POISON_INUSE) };
        }
    }

    /// Fills a freed object and its zones with their patterns. O(size).
    ///
    /// # Safety
    /// The slot is writable memory of the stack, and its user has given it up.
    #[inline(never)]
    pub(crate) unsafe fn bury(&self) {
        let user = self.user();
        // SAFETY: all of these lie in the slot.
        unsafe {
            if self.shape.flags.has(CheckFlags::RED_ZONES) {
                self.front().fill(RED_INACTIVE);
                self.after().fill(RED_INACTIVE);
            }
            if self.shape.flags.has(CheckFlags::POISON) {
                user.fill(POISON_FREE);
                if user.bytes > 0 {
                    let last = user.start + user.bytes - 1;
                    core::ptr::with_exposed_provenance_mut::<u8>(last).write(POISON_END);
                }
            } else if self.shape.flags.has(CheckFlags::ZERO) {
                user.fill(0);
            }
        }
    }

    /// Finds the first overwritten byte in the zones of an object in use. O(zones).
    ///
    /// # Safety
    /// The slot is readable memory of the stack.
    #[inline(never)]
    pub(crate) unsafe fn damage(&self) -> Option<(Damage, usize)> {
        // SAFETY: the zones lie in the slot (caller's promise).
        unsafe { self.damage_of_zones(self.active()) }
    }

    /// Finds the first overwritten byte of a freed object or its zones. O(size).
    ///
    /// # Safety
    /// The slot is readable memory of the stack.
    pub(crate) unsafe fn damage_of_buried(&self) -> Option<(Damage, usize)> {
        let user = self.user();
        // SAFETY: all of these lie in the slot (caller's promise).
        let written = unsafe {
            if self.shape.flags.has(CheckFlags::POISON) && user.bytes > 0 {
                let body = Range { bytes: user.bytes - 1, ..user };
                let last = user.start + user.bytes - 1;
                let end = core::ptr::with_exposed_provenance::<u8>(last).read_volatile();
                body.first_other(POISON_FREE).or((end != POISON_END).then_some(last))
            } else if self.shape.flags.has(CheckFlags::ZERO) {
                user.first_other(0)
            } else {
                None
            }
        };
        // SAFETY: the zones lie in the slot (caller's promise).
        written
            .map(|at| (Damage::Freed, at))
            .or_else(|| unsafe { self.damage_of_zones(self.inactive()) })
    }

    /// # Safety
    /// The slot is readable memory of the stack.
    unsafe fn damage_of_zones(&self, pattern: u64) -> Option<(Damage, usize)> {
        // SAFETY: the caller's promise.
        unsafe {
            let front = self.front().first_other(pattern).map(|at| (Damage::Front, at));
            front.or_else(|| {
                let mut zone = self.after();
                if self.ends_strings() {
                    let end = core::ptr::with_exposed_provenance::<u8>(zone.start);
                    if end.read_volatile() != 0 {
                        return Some((Damage::Behind, zone.start));
                    }
                    zone = Range { start: zone.start + 1, bytes: zone.bytes - 1 };
                }
                zone.first_other(pattern).map(|at| (Damage::Behind, at))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_beside_an_object_is_watched() {
        let debug = CheckFlags::RED_ZONES.with(CheckFlags::POISON).with(CheckFlags::SANITY);
        for flags in [debug, CheckFlags::HARDEN] {
            for size in [0, 1, 7, 8, 24, 100] {
                let shape = Shape::of(size, 16, flags);
                let mut memory = vec![0u64; shape.slot_bytes().expect("small").div_ceil(16) * 2];
                let start = memory.as_mut_ptr().expose_provenance();
                let slot = Slot { start, bytes: memory.len() * 8 };
                let parts = Parts::of(slot, shape, 99);
                let bytes = |at: usize| core::ptr::with_exposed_provenance_mut::<u8>(start + at);
                let (front, end) = (shape.front, slot.bytes - shape.tail());
                // SAFETY: the memory outlives all of this.
                unsafe {
                    parts.arm();
                    parts.poison_new();
                    assert_eq!(parts.damage(), None);
                    for at in 0..end {
                        let is_users = (front..front + size).contains(&at);
                        *bytes(at) ^= 0x40;
                        let found = parts.damage().map(|(_, at)| at - start);
                        assert_eq!(found, (!is_users).then_some(at), "{flags:?} {size}");
                        *bytes(at) ^= 0x40;
                    }
                    parts.bury();
                    assert_eq!(parts.damage_of_buried(), None);
                    for at in 0..end {
                        *bytes(at) ^= 1;
                        let found = parts.damage_of_buried().map(|(_, at)| at - start);
                        assert_eq!(found, Some(at), "{flags:?} {size}");
                        *bytes(at) ^= 1;
                    }
                }
            }
        }
    }
}
