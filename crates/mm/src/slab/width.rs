//! The width of a cache's arrays: narrow ones hold two sheaves, and wide ones are for CPUs that
//! work in bursts or exchange much with the barn, so that larger sheaves pay. `CacheLimits::rooms`
//! bounds the room that all arrays have together. An array that got less room than a narrow one
//! asks for more after some misses.

use super::context::MAX_BATCH;
use quarry_sys::percpu::{ArrayId, Arrays, Limits, Object, SlotIndex, WIDE_OBJECTS};
use quarry_sys::primitive::{AtomicU32, Ordering};

/// Most bytes of objects in a sheaf, within 8..=64 objects: with fewer, sizes that come and go at
/// random miss their array more than once in a hundred times, and then a call in the slowest
/// hundredth costs as much as a miss.
const SHEAF_BYTES: usize = 128 << 10;
/// Most bytes of objects in a wide array, within 64 and [`WIDE_OBJECTS`] objects.
const WIDE_BYTES: usize = 1 << 20;
/// Most objects in a sheaf of a wide array. (256 were no faster, and take a CPU from its program
/// for twice as long.)
const WIDE_SHEAF: usize = 128;
/// An array is widened at this score,
const WIDE_SCORE: u64 = 16;
/// to which each full run after an empty one adds this; a single miss adds 1 where a wide array
/// exchanges more at a time.
const TURN_SCORE: u64 = 8;
/// An array with less room than a narrow one asks for more after this many misses,
const ROOM_SCORE: u64 = 8;
/// and where it gets no room, after this many more: asking takes a lock that all CPUs share.
const REFUSED_SCORE: u64 = 256;
/// The score of an array right after it was refused.
const REFUSED: u64 = 1 << 16;
/// Word of an array's cell with its misses: `{- : 32 | score : 31 | ran empty last : 1}`. The upper
/// half is not ours.
const MISSES: usize = 2;
const MISSES_MASK: u64 = 0xffff_ffff;

/// The findings of a CPU that ran empty or full.
pub(super) struct Miss {
    /// Objects to exchange with the barn; 0 where the array has no room.
    pub(super) sheaf: usize,
    /// There is more room in the array now.
    pub(super) has_grown: bool,
    /// The array asked for more room in vain.
    pub(super) was_refused: bool,
}

/// The means by which an array gets more room.
pub(super) struct Means<'a> {
    /// Bounds of its growth. A function, because finding them takes longer than a miss.
    pub(super) limits: &'a dyn Fn() -> Limits,
    /// True if it may be wide, within those bounds.
    pub(super) may_widen: &'a dyn Fn() -> bool,
    /// Takes the objects of arrays that lose their room for it.
    pub(super) take: &'a mut dyn FnMut(ArrayId, &[Object]),
}

/// The arrays of one cache. Set before their first use.
pub(super) struct Width {
    /// Objects per sheaf of a narrow array.
    narrow_sheaf: AtomicU32,
    /// Objects of a wide array, 0 where the cache has no wide arrays.
    wide: AtomicU32,
    /// Bytes of the objects of a wide array.
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

    /// The objects that a narrow array and a wide one hold, 0 where there is no such array, if the
    /// objects are `stride` bytes apart.
    pub(super) fn of(stride: usize) -> (usize, usize) {
        let sheaf = (SHEAF_BYTES / stride).clamp(8, MAX_BATCH);
        let wide = (WIDE_BYTES / stride).clamp(64, WIDE_OBJECTS);
        (2 * sheaf, if wide > 2 * sheaf { wide } else { 0 })
    }

    /// Sets the widths for objects that are `stride` bytes apart.
    pub(super) fn set(&self, stride: usize) {
        let (narrow, wide) = Self::of(stride);
        self.narrow_sheaf.store(narrow as u32 / 2, Ordering::Relaxed);
        self.wide.store(wide as u32, Ordering::Relaxed);
        self.wide_bytes.store((wide * stride) as u32, Ordering::Relaxed);
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

    /// Notes that the array of `slot`, the running CPU's, ran `full`, or else empty, and gives it
    /// more room where that has become due and the `means` allow it. A lost update costs a turn.
    pub(super) fn note_miss<P: Arrays>(
        &self,
        percpu: &P,
        (slot, array): (SlotIndex, ArrayId),
        full: bool,
        barn_has_some: bool,
        means: &mut Means<'_>,
    ) -> Miss {
        let area = percpu.area();
        if area.is_wide(slot, array) {
            return Miss { sheaf: self.wide_sheaf(), has_grown: false, was_refused: false };
        }
        let room = area.room(slot, array);
        let is_short = room < area.capacity(array);
        let word = area.word(slot, array, MISSES);
        let all = word.load(Ordering::Relaxed);
        let seen = all & MISSES_MASK;
        let gain = match full && seen & 1 == 1 {
            _ if is_short => 1,
            true => TURN_SCORE,
            // A growing heap takes from the slabs: a larger array would save nothing.
            false => u64::from(barn_has_some && self.wide_sheaf() > self.narrow_sheaf()),
        };
        let mut score = match (seen >> 1) + gain {
            score if is_short => score,
            score => score.min(WIDE_SCORE),
        };
        // The first miss of an array that has no room finds a word of 0.
        let is_first = room == 0 && seen == 0;
        let is_due = is_short
            && (is_first
                || (ROOM_SCORE..REFUSED).contains(&score)
                || score >= REFUSED + REFUSED_SCORE);
        let has_grown = is_due && percpu.make_room(array, &(means.limits)(), means.take);
        if is_due {
            score = if has_grown { 0 } else { REFUSED };
        }
        let now = score << 1 | u64::from(!full);
        if now != seen {
            // A change of the other half in between may be lost: it is a hint.
            word.store(all & !MISSES_MASK | now, Ordering::Relaxed);
        }
        if has_grown {
            let sheaf = self.sheaf_of(area.room(slot, array));
            return Miss { sheaf, has_grown, was_refused: false };
        }
        let was_widened = !is_short
            && score == WIDE_SCORE
            && (means.may_widen)()
            && percpu.widen_within(array, &(means.limits)());
        let sheaf = if was_widened { self.wide_sheaf() } else { self.sheaf_of(room) };
        Miss { sheaf, has_grown: was_widened, was_refused: is_due }
    }

    /// Objects per sheaf of an array that has this much room in its narrow place: half of it.
    fn sheaf_of(&self, room: usize) -> usize {
        self.narrow_sheaf().min(room.div_ceil(2))
    }
}
