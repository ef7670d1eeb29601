//! How many objects a cache's arrays hold: narrow ones two sheaves, and wide ones for CPUs that
//! work in bursts or exchange so much with the barn that larger sheaves pay.

use super::MAX_BATCH;
use quarry_sys::percpu::{ArrayId, PerCpu, SlotIndex, WIDE_OBJECTS};
use quarry_sys::primitive::{AtomicU32, Ordering};

/// Most bytes of objects in a sheaf, within 8..=64 objects: with fewer, sizes that come and go at
/// random miss their array more than once in a hundred times, which is then what a call costs in
/// the slowest hundredth.
const SHEAF_BYTES: usize = 128 << 10;
/// Most bytes of objects in a wide array, within 64 and [`WIDE_OBJECTS`] objects.
const WIDE_BYTES: usize = 1 << 20;
/// Most objects in a sheaf of a wide array. (256 were no faster, and take a CPU from its program
/// for twice as long.)
const WIDE_SHEAF: usize = 128;
/// An array is widened at this score,
const WIDE_SCORE: u64 = 16;
/// to which each time counts that it runs full after it ran empty; a single miss counts 1 where a
/// wide array exchanges more at a time.
const TURN_SCORE: u64 = 8;
/// Word of an array's cell with its misses: `{score : 63 | ran empty last : 1}`.
const MISSES: usize = 2;

/// What a CPU that ran empty or full finds.
pub(super) struct Miss {
    /// Objects to exchange with the barn.
    pub(super) sheaf: usize,
    /// There is room in the array now.
    pub(super) was_widened: bool,
}

/// The arrays of one cache. Set once, before anybody uses them.
pub(super) struct Width {
    /// Objects per sheaf of a narrow array.
    narrow_sheaf: AtomicU32,
    /// Objects of a wide array, 0 where there is none.
    wide: AtomicU32,
    /// Bytes of those.
    wide_bytes: AtomicU32,
}

impl Width {
    pub(super) const fn new() -> Self {
        Self {
            narrow_sheaf: AtomicU32::new(0),
            wide: AtomicU32::new(0),
            wide_bytes: AtomicU32::new(0),
        }
    }

    /// Sets the widths for objects that are `stride` bytes apart. Returns what a narrow array and a
    /// wide one hold, 0 where there is none.
    pub(super) fn set(&self, stride: usize) -> (usize, usize) {
        let sheaf = (SHEAF_BYTES / stride).clamp(8, MAX_BATCH);
        let wide = (WIDE_BYTES / stride).clamp(64, WIDE_OBJECTS);
        let wide = if wide > 2 * sheaf { wide } else { 0 };
        self.narrow_sheaf.store(sheaf as u32, Ordering::Relaxed);
        self.wide.store(wide as u32, Ordering::Relaxed);
        self.wide_bytes.store((wide * stride) as u32, Ordering::Relaxed);
        (2 * sheaf, wide)
    }

    /// Objects per sheaf of a narrow array.
    pub(super) fn narrow_sheaf(&self) -> usize {
        self.narrow_sheaf.load(Ordering::Relaxed) as usize
    }

    /// Objects per sheaf of a wide array: half of it, up to a bound.
    fn wide_sheaf(&self) -> usize {
        (self.wide.load(Ordering::Relaxed) as usize / 2).min(WIDE_SHEAF)
    }

    /// Bytes of objects in a wide array.
    pub(super) fn wide_bytes(&self) -> usize {
        self.wide_bytes.load(Ordering::Relaxed) as usize
    }

    /// Notes that the array of `slot`, the running CPU's, ran `full`, or else empty, and widens it
    /// where that has become due and it `may_widen`. A lost update costs a turn.
    pub(super) fn note_miss<P: PerCpu>(
        &self,
        percpu: &P,
        (slot, array): (SlotIndex, ArrayId),
        full: bool,
        barn_has_some: bool,
        may_widen: impl FnOnce() -> bool,
    ) -> Miss {
        let area = percpu.area();
        if area.is_wide(slot, array) {
            return Miss { sheaf: self.wide_sheaf(), was_widened: false };
        }
        let misses = area.word(slot, array, MISSES);
        let seen = misses.load(Ordering::Relaxed);
        let gain = match full && seen & 1 == 1 {
            true => TURN_SCORE,
            // What grows takes from the slabs: for that a larger array would save nothing.
            false => u64::from(barn_has_some && self.wide_sheaf() > self.narrow_sheaf()),
        };
        let score = ((seen >> 1) + gain).min(WIDE_SCORE);
        let now = score << 1 | u64::from(!full);
        if now != seen {
            misses.store(now, Ordering::Relaxed);
        }
        let was_widened = score == WIDE_SCORE && may_widen() && percpu.widen(array);
        let sheaf = if was_widened { self.wide_sheaf() } else { self.narrow_sheaf() };
        Miss { sheaf, was_widened }
    }
}
