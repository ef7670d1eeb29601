//! The width of a cache's arrays: when an array gets more room, and how many objects it exchanges.
//!
//! A narrow array has room for two sheaves. The array of a CPU that works in bursts, or exchanges
//! much with the barn, becomes wide. `CacheLimits::rooms` bounds the room of all arrays together.
//! So an array may get less room than a narrow one; it then asks for more after some misses.

use super::context::MAX_BATCH;
use quarry_sys::percpu::{ArrayId, Arrays, Limits, Object, SlotIndex, WIDE_OBJECTS};
use quarry_sys::primitive::{AtomicU32, Ordering};

/// Maximum number of bytes of objects in a sheaf, within 8..=64 objects. With fewer bytes, size
/// classes that are in use at random times miss their array in more than 1 % of calls, and the
/// slowest 1 % of calls then cost as much as a miss.
const SHEAF_BYTES: usize = 128 << 10;
/// Maximum number of bytes of objects in a wide array, within 64..=[`WIDE_OBJECTS`] objects.
const WIDE_BYTES: usize = 1 << 20;
/// Maximum number of objects in an array that becomes wide at a miss that is no [turn](TURN_SCORE):
/// such an array exchanges much with the barn, and more room only costs memory. Turns may widen it.
const EXCHANGED: usize = 1024;
/// Maximum number of objects in a sheaf of a wide array. (256: no faster, twice as long to move.)
const WIDE_SHEAF: usize = 128;
/// An array becomes wide, or wider, at this score.
const WIDE_SCORE: u64 = 16;
/// The score rises by this at a *turn*: a miss finds the array full, and the one before empty. Any
/// other miss adds 1 if the barn has objects and a wide array would exchange more at a time. An
/// array that asks to become wider begins again at 0, even if refused: asking may take a lock.
const TURN_SCORE: u64 = 8;
/// An array with less room than a narrow one asks for more after this many misses.
const ROOM_SCORE: u64 = 8;
/// A refused array asks again only after this many misses: asking takes a lock that CPUs share.
const REFUSED_SCORE: u64 = 256;
const REFUSED: u64 = 1 << 16;
/// Objects that a thread exchanges while a debugger steps it: its array refuses them most likely,
/// but accepts the one beside the answer as soon as the thread is no longer stepped.
const PROBE: usize = 2;
/// Index, in an array's cell, of the word whose lower half records misses (`sys` uses the upper):
/// `{- : 32 | score : 31 | was empty at the last miss : 1}`.
const MISSES: usize = 2;
const MISSES_MASK: u64 = 0xffff_ffff;

/// A miss of a CPU's array: a request found it empty, or a free found it full.
pub struct Miss {
    /// Objects to exchange with the barn; 0 if the array has no room.
    pub sheaf: usize,
    /// True if the array has got more room.
    pub has_grown: bool,
    /// True if the array was refused more room.
    pub(super) was_refused: bool,
}

/// The means by which an array gets more room.
pub(super) struct Means<'a> {
    /// The bounds of the array's growth: a function, because computing them is slower than a miss.
    pub(super) limits: &'a dyn Fn() -> Limits,
    /// Tells whether the array may become wide, with room for so many objects.
    pub(super) may_widen: &'a dyn Fn(usize) -> bool,
    /// Receives the objects of other arrays that lose room to the growing one.
    pub(super) take: &'a mut dyn FnMut(ArrayId, &[Object]),
}

/// The widths of the arrays of one cache, set before their first use. Nothing that is written later
/// shares their cache line, which every miss of every CPU reads.
#[repr(align(64))]
pub(super) struct Width {
    narrow_sheaf: AtomicU32,
    /// Most room of a wide array, in objects; 0 if the cache has no wide arrays.
    wide: AtomicU32,
}

impl Width {
    pub(super) const fn new() -> Self {
        Self { narrow_sheaf: AtomicU32::new(0), wide: AtomicU32::new(0) }
    }

    /// Room, in objects, of a narrow array and of a wide one; 0 if a wide one would be no larger.
    pub(super) fn of(stride: usize) -> (usize, usize) {
        let sheaf = (SHEAF_BYTES / stride).clamp(8, MAX_BATCH);
        let wide = (WIDE_BYTES / stride).clamp(64, WIDE_OBJECTS);
        (2 * sheaf, if wide > 2 * sheaf { wide } else { 0 })
    }

    pub(super) fn set(&self, stride: usize) {
        let (narrow, wide) = Self::of(stride);
        self.narrow_sheaf.store(narrow as u32 / 2, Ordering::Relaxed);
        self.wide.store(wide as u32, Ordering::Relaxed);
    }

    pub(super) fn narrow_sheaf(&self) -> usize {
        self.narrow_sheaf.load(Ordering::Relaxed) as usize
    }

    fn wide_sheaf(&self) -> usize {
        (self.wide.load(Ordering::Relaxed) as usize / 2).min(WIDE_SHEAF)
    }

    /// Notes that the array of `slot`, the running CPU's, was found full (`full`) or empty. Gives
    /// it more room if this is due and the `means` allow it. A lost update only delays this.
    pub(super) fn note_miss<P: Arrays>(
        &self,
        percpu: &P,
        (slot, array): (SlotIndex, ArrayId),
        full: bool,
        barn_has_some: bool,
        means: &mut Means<'_>,
    ) -> Miss {
        let area = percpu.area();
        let (room, is_wide) = (area.room(slot, array), area.is_wide(slot, array));
        let sheaf = if is_wide { self.wide_sheaf() } else { self.sheaf_of(room) };
        if room > 0 && percpu.is_stepped() {
            return Miss { sheaf: sheaf.min(PROBE), has_grown: false, was_refused: false };
        }
        let most = self.wide.load(Ordering::Relaxed) as usize;
        if is_wide && room >= most {
            return Miss { sheaf, has_grown: false, was_refused: false };
        }
        let is_short = room < area.capacity(array);
        let word = area.word(slot, array, MISSES);
        let all = word.load(Ordering::Relaxed);
        let seen = all & MISSES_MASK;
        let is_turn = full && seen & 1 == 1;
        let gain = match is_turn {
            _ if is_short => 1,
            true => TURN_SCORE,
            // If the barn is empty, slabs serve misses: a larger array would save nothing.
            false => u64::from(barn_has_some && self.wide_sheaf() > sheaf),
        };
        let mut score = match (seen >> 1) + gain {
            score if is_short => score,
            score => score.min(WIDE_SCORE),
        };
        // The word of an array that has not missed yet is 0.
        let is_first = room == 0 && seen == 0;
        let is_due = is_short
            && (is_first
                || (ROOM_SCORE..REFUSED).contains(&score)
                || score >= REFUSED + REFUSED_SCORE);
        let has_grown = is_due && percpu.make_room(array, &(means.limits)(), means.take);
        if is_due {
            score = if has_grown { 0 } else { REFUSED };
        }
        let wide = if is_turn { most } else { most.min(EXCHANGED) };
        let mut was_widened = false;
        if !is_short && score == WIDE_SCORE && room < wide {
            was_widened = (means.may_widen)(wide)
                && percpu.widen_within(array, &Limits { wide, ..(means.limits)() });
            score = 0;
        }
        let now = score << 1 | u64::from(!full);
        if now != seen {
            // This may undo a concurrent change of the upper half, which is a hint.
            word.store(all & !MISSES_MASK | now, Ordering::Relaxed);
        }
        if has_grown {
            let sheaf = self.sheaf_of(area.room(slot, array));
            return Miss { sheaf, has_grown, was_refused: false };
        }
        let sheaf = if was_widened { self.wide_sheaf() } else { sheaf };
        Miss { sheaf, has_grown: was_widened, was_refused: is_due }
    }

    fn sheaf_of(&self, room: usize) -> usize {
        self.narrow_sheaf().min(room.div_ceil(2))
    }
}
