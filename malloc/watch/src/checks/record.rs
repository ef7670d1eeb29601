//! The record of an object, at the very end of the object's slot.
//!
//! A *slot* is the memory that a slab, the page allocator or a mapping gave for an object: its
//! address and its bytes. It contains, from its start on:
//!
//! ```text
//! front zone | bytes of the program | zone | tracks (with OWNER only) | record
//! ```
//!
//! `user = slot + front` is the object's address, and `user + size <= tail`. The tail consists of
//! tracks and record; the zone lies between object and tail. The front zone is a multiple of the
//! requested alignment, so that the program's bytes have this alignment.
//!
//! A record is *sealed*: one of its words is a function of its other words, of the address, of the
//! state of the object (in use or not), and of a secret of the process. A program that overwrites a
//! record breaks the seal, whatever bytes it writes. A thread that frees an object changes the seal
//! by one compare-and-swap: if two threads do so, the second finds the object freed.

use super::track::{Track, Tracked};
use quarry_mm::heap::CheckFlags;
use quarry_sys::prefetch::{LINE, prefetch};
use quarry_sys::primitive::{AtomicU64, Ordering};

pub(super) const RECORD_BYTES: usize = size_of::<Record>();
pub(super) const TRACKS_BYTES: usize = size_of::<Tracks>();

/// Largest alignment with a front zone; the zone is as long as the alignment (at least 16 bytes).
const MOST_FRONT: usize = 256;
/// Lines of a slot that are prefetched at most, beside its last one.
const MOST_PREFETCHED: usize = 8;
/// Fewest bytes in the zone after an object.
const LEAST_ZONE: usize = 8;

const _: () = assert!(
    CheckFlags::GUARD_PAGE.bits() <= 0xff && MOST_FRONT / 16 <= 0xff,
    "flags and front zones fit into a byte of a record"
);

const LIVE: u64 = 0x11fe_11fe_11fe_11fe;
const FREED: u64 = 0xdead_dead_dead_dead;

/// The sealed record at the end of a slot.
#[repr(C)]
pub(crate) struct Record {
    seal: AtomicU64,
    /// `{size : 48 | front / 16 : 8 | flags : 8}`
    shape: AtomicU64,
}

/// The threads that allocated and freed an object.
#[repr(C)]
pub(crate) struct Tracks {
    pub(crate) allocated: Track,
    pub(crate) freed: Track,
}

impl Tracks {
    pub(crate) fn get(&self) -> [Option<Tracked>; 2] {
        [self.allocated.get(), self.freed.get()]
    }
}

/// The state of an object, as the seal of its record proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    Live,
    Freed,
    /// The record was overwritten, or there never was an object.
    Broken,
}

/// The position of an object in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes that the program requested.
    pub(crate) size: usize,
    /// Bytes of the front zone.
    pub(crate) front: usize,
    pub(crate) flags: CheckFlags,
}

/// The memory of one object: its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) start: usize,
    /// A multiple of 16.
    pub(crate) bytes: usize,
}

impl Shape {
    /// The shape of an object of `size` bytes at a multiple of `align`.
    pub(crate) fn of(size: usize, align: usize, flags: CheckFlags) -> Self {
        let has_zones = flags.has_any(CheckFlags::RED_ZONES.with(CheckFlags::CANARY));
        let has_front = has_zones && align <= MOST_FRONT;
        Self { size, front: if has_front { align.max(16) } else { 0 }, flags }
    }

    fn of_packed(packed: u64) -> Self {
        Self {
            size: (packed >> 16) as usize,
            front: (packed >> 8 & 0xff) as usize * 16,
            flags: CheckFlags::of_bits(packed as u16 & 0xff),
        }
    }

    /// Bytes of tracks (if any) and record.
    pub(crate) fn tail(&self) -> usize {
        let tracks = if self.flags.has(CheckFlags::OWNER) { TRACKS_BYTES } else { 0 };
        tracks + RECORD_BYTES
    }

    /// Fewest bytes of a slot for this shape; `None` if the number overflows.
    pub(crate) fn slot_bytes(&self) -> Option<usize> {
        let has_zone = self.flags.has_any(CheckFlags::RED_ZONES.with(CheckFlags::CANARY));
        let zone = if has_zone { LEAST_ZONE } else { 0 };
        let used = self.front.checked_add(self.size)?.checked_add(zone)?;
        used.checked_next_multiple_of(8)?.checked_add(self.tail())
    }
}

impl Slot {
    /// Prefetches the last lines and the first ones: a free reads the record and the zones, and
    /// writes what lies between them. One after the other, the misses took half of its time.
    #[inline]
    pub(crate) fn prefetch(self) {
        let end = self.start + self.bytes;
        prefetch(core::ptr::without_provenance(end.wrapping_sub(RECORD_BYTES)));
        for line in (self.start..end).step_by(LINE).take(MOST_PREFETCHED) {
            prefetch(core::ptr::without_provenance(line));
        }
    }

    /// The record at the slot's end.
    ///
    /// # Safety
    /// The slot is readable memory of the stack, and stays so for `'a`. (The record's words are
    /// atomic, so nothing else is required.)
    pub(crate) unsafe fn record<'a>(self) -> &'a Record {
        let address = self.start + self.bytes - RECORD_BYTES;
        // SAFETY: the slot ends at a multiple of 16, a record of two words of 8 bytes lies before
        // its end (caller's promise), and every bit pattern is a record.
        unsafe { &*core::ptr::with_exposed_provenance::<Record>(address) }
    }

    /// The tracks in front of the record.
    ///
    /// # Safety
    /// Same as [`record`](Self::record), and the slot was made for an object with `OWNER`.
    pub(crate) unsafe fn tracks<'a>(self) -> &'a Tracks {
        let address = self.start + self.bytes - RECORD_BYTES - TRACKS_BYTES;
        // SAFETY: the caller's promise; the words of tracks are as aligned as those of the record.
        unsafe { &*core::ptr::with_exposed_provenance::<Tracks>(address) }
    }

    /// Copies of the tracks, if the object has any.
    ///
    /// # Safety
    /// Same as [`record`](Self::record), and the slot was made for an object of this shape.
    pub(crate) unsafe fn tracked(self, shape: &Shape) -> [Option<Tracked>; 2] {
        // SAFETY: the caller's promise.
        let tracks = || unsafe { self.tracks() }.get();
        if shape.flags.has(CheckFlags::OWNER) { tracks() } else { [None; 2] }
    }
}

/// Mixes 64 bits so that each bit of the result depends on all of `value` (the finaliser of
/// splitmix64; Steele, Lea, Flood 2014).
pub(super) fn mixed(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

impl Record {
    fn unstated(&self, secret: u64) -> u64 {
        self.unstated_of(secret, self.shape.load(Ordering::Relaxed))
    }

    fn unstated_of(&self, secret: u64, shape: u64) -> u64 {
        let address = core::ptr::from_ref(self).addr() as u64;
        mixed(mixed(secret ^ address) ^ shape)
    }

    /// Writes the record of an object in use. O(1).
    pub(crate) fn set(&self, secret: u64, shape: &Shape) {
        let (front, flags) = ((shape.front / 16) as u64, u64::from(shape.flags.bits()));
        let packed = (shape.size as u64) << 16 | front << 8 | flags;
        self.shape.store(packed, Ordering::Relaxed);
        self.seal.store(self.unstated_of(secret, packed) ^ LIVE, Ordering::Release);
    }

    /// The object's state, by its seal. O(1).
    pub(crate) fn seal(&self, secret: u64) -> Seal {
        match self.seal.load(Ordering::Acquire) ^ self.unstated(secret) {
            LIVE => Seal::Live,
            FREED => Seal::Freed,
            _ => Seal::Broken,
        }
    }

    /// The record, if its object is in use. O(1).
    pub(crate) fn live(&self, secret: u64) -> Option<Live> {
        let shape = self.shape.load(Ordering::Relaxed);
        let unstated = self.unstated_of(secret, shape);
        let is_live = self.seal.load(Ordering::Acquire) ^ unstated == LIVE;
        is_live.then_some(Live { unstated, shape })
    }

    /// Seals the record as freed, unless another thread has done so.
    pub(crate) fn bury(&self, Live { unstated, .. }: Live) -> bool {
        let (live, freed) = (unstated ^ LIVE, unstated ^ FREED);
        self.seal.compare_exchange(live, freed, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Seals the record as freed, if its seal is that of an object in use; else returns false.
    pub(crate) fn free(&self, secret: u64) -> bool {
        self.live(secret).is_some_and(|live| self.bury(live))
    }

    /// The position of the object, if the seal is not broken.
    pub(crate) fn shape(&self) -> Shape {
        Shape::of_packed(self.shape.load(Ordering::Relaxed))
    }
}

/// Words of the record of an object in use.
#[derive(Clone, Copy)]
pub(crate) struct Live {
    unstated: u64,
    shape: u64,
}

impl Live {
    /// The position of the object.
    pub(crate) fn shape(self) -> Shape {
        Shape::of_packed(self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(words: &mut [u64]) -> Slot {
        let start = words.as_mut_ptr().expose_provenance();
        Slot { start, bytes: size_of_val(words) }
    }

    const FLAGS: CheckFlags = CheckFlags::SANITY.with(CheckFlags::OWNER);

    #[test]
    fn an_object_is_freed_once() {
        let mut words = [0u64; 64];
        // SAFETY: the words outlive the record.
        let record = unsafe { slot(&mut words).record() };
        assert_eq!(record.seal(7), Seal::Broken);
        let shape = Shape::of(100, 16, FLAGS);
        record.set(7, &shape);
        assert_eq!((record.seal(7), record.shape()), (Seal::Live, shape));
        assert_eq!(record.seal(8), Seal::Broken, "another secret");
        assert!(record.free(7));
        assert_eq!(record.seal(7), Seal::Freed);
        assert!(!record.free(7));
    }

    #[test]
    fn every_bit_that_is_changed_breaks_the_seal() {
        let mut words = [0u64; 64];
        let slot = slot(&mut words);
        // SAFETY: the words outlive the record.
        let record = unsafe { slot.record() };
        record.set(7, &Shape::of(100, 16, FLAGS));
        let fields = [&record.seal, &record.shape];
        for (field, bit) in fields.iter().flat_map(|field| (0..64).map(move |bit| (field, bit))) {
            field.fetch_xor(1 << bit, Ordering::Relaxed);
            assert_eq!(record.seal(7), Seal::Broken);
            field.fetch_xor(1 << bit, Ordering::Relaxed);
        }
        assert_eq!(record.seal(7), Seal::Live);
    }

    #[test]
    fn a_slot_holds_all_of_its_parts() {
        let sets = [CheckFlags::NONE, FLAGS, CheckFlags::RED_ZONES, CheckFlags::HARDEN];
        for flags in sets {
            for align in (4..16).map(|shift| 1 << shift) {
                for size in [0, 1, 15, 100, 4096] {
                    let shape = Shape::of(size, align, flags);
                    let bytes = shape.slot_bytes().expect("small");
                    assert!(shape.front.is_multiple_of(align));
                    assert!(shape.front + size + shape.tail() <= bytes);
                }
            }
            assert_eq!(Shape::of(usize::MAX - 8, 16, flags).slot_bytes(), None);
        }
    }
}
