//! Which mappings become huge pages: those of programs that fill their mappings.
//!
//! The first touch of a huge page brings in all of it, so a table that is touched here and there
//! would take many times its memory. When a fresh mapping is freed or grows, the heap reads a few
//! of its pages, to see whether the program has written them. A later mapping may be huge if a
//! mapping of at least an eighth of its size was filled. So a table that doubles is huge from 16
//! MiB on at the latest. (On an Intel Xeon, family 6, model 207, 2026-11-27: CPython with dicts of
//! 100 MiB and `serde-batch` take 0.95 of the time, and as much memory.)
//!
//! The last pageblock of an extent is huge only if hardly any of it is beyond the mapping's end.
//! (If an eighth of the memory could lie there, large blocks took 0.43 of the time and had 6 % more
//! memory.) A move by page tables needs one mapping of the kernel, so before a mapping with huge
//! pages grows, all of it becomes huge.

use super::mapping_cache::Extent;
use crate::frame::{FRAME_BYTES, PAGEBLOCK_FRAMES, Pfn};
use crate::zone::Zones;
use quarry_sys::peek;
use quarry_sys::primitive::{AtomicU32, Ordering::Relaxed};

/// A mapping may be this many times as long as one that was filled. With four, a table that grew
/// to a little more than twice its size stayed small: the last one freed is two steps shorter.
const GROWTH: u32 = 8;
/// The last pageblock is huge if at most this share of the memory lies beyond the mapping's end.
const END_SHARE: u32 = 16;
/// Places of a mapping that are read, at even distances, and how many of them may be zero.
const PLACES: usize = 16;
const ZEROS: usize = 2;
/// A place is a page, of which three words are read: the low halves of two numbers of 64 bits
/// (those of most fractions are zero), and the high half of one (those of most integers are zero).
const WORDS: [usize; 3] = [0, 17 * 64 + 4, 33 * 64];

/// The longest mapping that a program filled.
pub(super) struct Filled {
    frames: AtomicU32,
}

fn mark_of(first: Pfn) -> Pfn {
    first.plus(5)
}

impl Filled {
    pub(super) const fn new() -> Self {
        Self { frames: AtomicU32::new(0) }
    }

    /// Notes that a mapping was handed out, whose pages were all zero if it `is_fresh`.
    pub(super) fn begin(&self, zones: &Zones, first: Pfn, is_fresh: bool) {
        zones.frames().set_link(mark_of(first), u32::from(is_fresh));
    }

    /// Looks at a mapping of `frames` frames once, if it was fresh.
    pub(super) fn look(&self, zones: &Zones, first: Pfn, frames: u32) {
        if zones.frames().link(mark_of(first)) == 0 {
            return;
        }
        self.begin(zones, first, false);
        let start = zones.arena().address(first).as_ptr() as usize;
        let step = frames as usize / PLACES * FRAME_BYTES;
        let is_zero = |place: usize| peek::is_zero(place) != Some(false);
        let zeros =
            (0..PLACES).filter(|at| WORDS.iter().all(|word| is_zero(start + at * step + word)));
        let is_sparse = zeros.take(ZEROS + 1).count() > ZEROS;
        let filled = self.frames.load(Relaxed);
        let filled = if is_sparse { filled.min(frames / (2 * GROWTH)) } else { filled.max(frames) };
        self.frames.store(filled, Relaxed);
    }

    /// The pageblocks at the front of a mapping of `frames` frames that may be huge pages.
    #[cold]
    #[inline(never)]
    pub(super) fn huge_blocks(&self, zones: &Zones, frames: u32) -> u32 {
        let whole = frames.next_multiple_of(PAGEBLOCK_FRAMES);
        let most = self.frames.load(Relaxed).saturating_mul(GROWTH);
        if frames > most || whole > zones.budget().room() || !zones.may_make_huge() {
            return 0;
        }
        let huge = if whole - frames <= frames / END_SHARE { whole } else { frames };
        huge / PAGEBLOCK_FRAMES
    }
}

/// Makes an extent with huge pages one mapping of the kernel; returns whether it has any.
pub(super) fn unite(zones: &Zones, extent: &Extent) -> bool {
    let is_huge = zones.faults(extent.first.first()).is_huge();
    if is_huge && !is_end_huge(zones, extent) {
        zones.make_huge(extent.first, extent.blocks);
    }
    is_huge
}

/// Returns whether the last pageblock of an extent comes in as a huge page.
pub(super) fn is_end_huge(zones: &Zones, extent: &Extent) -> bool {
    zones.faults(extent.first.first().plus(extent.frames() - 1)).is_huge()
}
